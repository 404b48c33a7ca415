/*
 * Words of the tree in stream.c. A node: its number, where its edges are, the place
 * to look at. A leaf: its shape, or none; its one edge leads to itself,
 * so that any number of steps may be made.
 */
#ifndef RECORD_TREE_H
#define RECORD_TREE_H

#include "record/reader.h"

#define TREE_LEAF           (UINT32_C(1) << 31)
#define TREE_NODES          1024
#define TREE_PLACE(word)    ((word) & 63)
#define TREE_BASE(word)     ((word) >> 6 & 0x1fff)
#define TREE_NODE(word)     ((word) >> 19 & 0xfff)
#define TREE_SHAPE(word)    ((word) >> 19 & 0xfff)
#define TREE_WORD(node, base, place)                                                               \
    ((uint32_t)(node) << 19 | (uint32_t)(base) << 6 | (uint32_t)(place))
#define TREE_LEAF_OF(shape, base) (TREE_LEAF | TREE_WORD(shape, base, 0))
#define TREE_NONE           TREE_LEAF_OF(NO_SHAPE, EDGES) /* all edges there lead to it */

#endif
