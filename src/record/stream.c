/*
 * The fast path for records of any length. Streams use few shapes here, too, but
 * where a record begins is known only when the one before has been read. So this
 * goes in two steps (shape_loop.inc):
 *
 *   1. Find: which shape is next? A tree over the headers of known shapes tells,
 *      by a look at a few bytes; a masked compare makes sure. That takes a chain of
 *      loads, each waiting for the one before, so that several lanes of some
 *      kilobytes are found at once. All lanes but the first begin at a guess, which counts if
 *      the lane before ends there.
 *   2. Take: with places and shapes known, fields come from fixed places.
 *
 * The tree: a node looks at one byte, at a place where all shapes below it have a
 * header; the byte chooses the edge. Nodes where all shapes go the same way are left
 * out, which the compare makes up for. Edges of all nodes share one array, each node
 * having its own offset there (a double-array trie without checks). The only edge of a
 * leaf leads to itself, so that every record is looked up in as many steps.
 */
#include "record/reader.h"
#include "record/tree.h"

#include <string.h>

enum { OF_A_LEAF = TREE_NODES };

void stream_start(struct spex_record_reader *reader)
{
    struct reader_state *state = reader_state(reader);
    state->streaming = true;
    state->failures = 0;
    state->shape_count = 0;
    state->last_shape = NO_SHAPE;
    state->found = state->taken = 0;
    state->idle = state->idle_left = 0;
    state->nodes = state->free_edge = 0;
    state->root = TREE_NONE;
    for (unsigned i = 0; i < EDGES + 256; i++)
        state->edges[i] = TREE_NONE;
    memset(state->owner, 0, sizeof state->owner);
}

/* An offset at which the edges of these bytes are free; EDGES if there is none. */
static unsigned find_base(struct reader_state *state, const uint8_t *bytes, unsigned count)
{
    for (unsigned tried = 0, i; tried < EDGES; tried++) {
        unsigned base = (state->free_edge + tried) % EDGES;
        for (i = 0; i < count && !state->owner[base + bytes[i]]; i++)
            ;
        if (i == count) {
            state->free_edge = base;
            return base;
        }
    }
    return EDGES;
}

static void set_edge(struct reader_state *state, unsigned at, unsigned node, uint32_t word)
{
    state->owner[at] = (uint16_t)node;
    state->edges[at] = word;
}

/* One more edge of a node; its edges move if they must. */
static bool add_edge(struct reader_state *state, uint32_t *node, uint8_t byte, uint32_t word)
{
    unsigned base = TREE_BASE(*node), number = TREE_NODE(*node), count = 0;
    uint8_t bytes[256];
    uint32_t words[256];
    if (!state->owner[base + byte]) {
        set_edge(state, base + byte, number, word);
        return true;
    }
    for (unsigned b = 0; b < 256; b++) {
        if (state->owner[base + b] == number) {
            bytes[count] = (uint8_t)b;
            words[count++] = state->edges[base + b];
        }
    }
    bytes[count] = byte;
    words[count] = word;
    unsigned other = find_base(state, bytes, count + 1);
    if (other == EDGES)
        return false;
    for (unsigned i = 0; i < count; i++)
        set_edge(state, base + bytes[i], 0, TREE_NONE);
    for (unsigned i = 0; i <= count; i++)
        set_edge(state, other + bytes[i], number, words[i]);
    *node = TREE_WORD(number, other, TREE_PLACE(*node));
    return true;
}

/* Some shape below a node. */
static const struct shape *any_shape(const struct reader_state *state, uint32_t word)
{
    while (!(word & TREE_LEAF)) {
        unsigned base = TREE_BASE(word), byte = 0;
        while (state->owner[base + byte] != TREE_NODE(word))
            byte++;
        word = state->edges[base + byte];
    }
    return &shapes_of(state)[TREE_SHAPE(word)];
}

/* Enters a leaf for a shape that is not the first. */
static bool add_leaf(struct reader_state *state, const struct shape *shape, uint32_t leaf)
{
    uint32_t *at = &state->root, word = state->root;
    /* A shape with as many headers in common as any; the first that differs decides. */
    while (!(word & TREE_LEAF)) {
        unsigned edge = TREE_BASE(word) + shape->value[TREE_PLACE(word)];
        if (state->owner[edge] != TREE_NODE(word))
            break;
        word = state->edges[edge];
    }
    const struct shape *other = any_shape(state, word);
    unsigned place = 0;
    while (place < CELL && shape->value[place] == other->value[place] &&
           !((shape->compared ^ other->compared) >> place & 1))
        place++;
    if (place == CELL) /* known, but odd where it came: no operation was executed */
        return false;
    while (!(*at & TREE_LEAF) && TREE_PLACE(*at) < place)
        at = &state->edges[TREE_BASE(*at) + shape->value[TREE_PLACE(*at)]];
    if (!(*at & TREE_LEAF) && TREE_PLACE(*at) == place)
        return add_edge(state, at, shape->value[place], leaf);
    const uint8_t bytes[2] = {other->value[place], shape->value[place]};
    unsigned base = find_base(state, bytes, 2);
    if (base == EDGES || state->nodes + 1 == TREE_NODES)
        return false;
    unsigned node = ++state->nodes;
    set_edge(state, base + bytes[0], node, *at);
    set_edge(state, base + bytes[1], node, leaf);
    *at = TREE_WORD(node, base, place);
    return true;
}

bool tree_insert(struct reader_state *state)
{
    unsigned number = state->shape_count - 1u;
    const struct shape *shape = &shapes_of(state)[number];
    unsigned base = find_base(state, shape->value, 1);
    uint32_t leaf = TREE_LEAF_OF(number, base);
    if (base == EDGES)
        return false;
    set_edge(state, base + shape->value[0], OF_A_LEAF, leaf);
    if (state->root == TREE_NONE) {
        state->root = leaf;
    } else if (!add_leaf(state, shape, leaf)) {
        set_edge(state, base + shape->value[0], 0, TREE_NONE);
        return false;
    }
    return true;
}
