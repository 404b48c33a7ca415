/*
 * Names and lines of Go programs from .gopclntab, the table that Go's own tracebacks use: stripping
 * leaves it in place. Its layout changed with Go 1.16 and 1.18; the magic number tells which one it
 * is.
 */
#include "module.h"

#include "base/bits.h"
#include "base/ids.h"
#include "base/memory.h"
#include "base/search.h"

#include <stdlib.h>

enum { QUANTUM = 4 }; /* bytes in an instruction */

struct go_step {
    uint32_t until; /* in instructions from the function's entry */
    int32_t value;
};

struct go_list {
    struct go_step *steps;
    size_t count;
};

struct go_table {
    const uint8_t *data;
    size_t size;   /* up to and including the last zero, so that every text inside is terminated */
    uint64_t text; /* entries are relative to it from 1.18 on */
    size_t functions, count; /* where the list of functions begins, and its length */
    size_t word;             /* size of the list's numbers */
    size_t names, units, files, values;
    bool by_unit;       /* from 1.16 on, file numbers count within a compilation unit */
    struct ids offsets; /* offsets of the lists that were read */
    struct go_list *lists;
    size_t list_count, list_capacity;
    size_t left; /* how many steps may still be read */
    bool told;   /* the user was told about the limit */
};

static uint64_t number(const struct go_table *t, size_t at, size_t size)
{
    if (at > t->size || t->size - at < size)
        return 0;
    return size == 8 ? le64(t->data + at) : le32(t->data + at);
}

/* An offset relative to another in the table; past the end if it is out of range. */
static size_t inside(const struct go_table *t, size_t base, uint64_t offset)
{
    return offset <= t->size && base <= t->size ? base + (size_t)offset : SIZE_MAX;
}

static const char *text_at(const struct go_table *t, size_t at)
{
    return at < t->size ? (const char *)t->data + at : NULL;
}

/* In a PIE the file has 0 there; the relocation holds the value. */
static uint64_t relocated(Elf *elf, uint64_t address)
{
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr sh;
        GElf_Rela rela;
        Elf_Data *data;
        if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_RELA || !sh.sh_entsize ||
            !(data = elf_getdata(scn, NULL)))
            continue;
        for (size_t i = 0; i < data->d_size / sh.sh_entsize; i++)
            if (gelf_getrela(data, (int)i, &rela) && rela.r_offset == address)
                return (uint64_t)rela.r_addend;
    }
    return 0;
}

static bool read_header(Elf *elf, uint64_t address, struct go_table *t)
{
    enum { GO_1_2 = 0xfffffffb, GO_1_16 = 0xfffffffa, GO_1_18 = 0xfffffff0, GO_1_20 = 0xfffffff1 };
    if (t->size < 80 || t->data[4] || t->data[5] || t->data[6] != QUANTUM || t->data[7] != 8)
        return false;
    uint64_t words[9];
    for (size_t i = 0; i < 9; i++)
        words[i] = le64(t->data + 8 + 8 * i);
    uint32_t magic = le32(t->data);
    size_t next = 2; /* index of the next field, after the numbers of functions and files */
    t->count = words[0] > t->size / 8 ? t->size / 8 : (size_t)words[0];
    t->word = 8;
    switch (magic) {
    case GO_1_2:
        t->functions = 16;
        t->files = inside(t, 0, number(t, 16 + 16 * t->count + 8, 4));
        return true;
    case GO_1_18:
    case GO_1_20: {
        GElf_Shdr text;
        t->word = 4;
        t->text = words[next++];
        if (!t->text)
            t->text = relocated(elf, address + 24);
        if (!t->text && elf_section(elf, ".text", &text))
            t->text = text.sh_addr;
        break;
    }
    case GO_1_16:
        break;
    default:
        return false;
    }
    t->by_unit = true;
    t->names = inside(t, 0, words[next]);
    t->units = inside(t, 0, words[next + 1]);
    t->files = inside(t, 0, words[next + 2]);
    t->values = inside(t, 0, words[next + 3]);
    t->functions = inside(t, 0, words[next + 4]);
    return true;
}

static struct go_table *open_table(struct spex_module *module)
{
    GElf_Shdr header;
    struct go_table t = {0};
    Elf *elf = module->image.elf;
    Elf_Scn *scn = elf_section(elf, ".gopclntab", &header);
    if (!scn)
        scn = elf_section(elf, ".data.rel.ro.gopclntab", &header);
    Elf_Data *data = scn ? elf_rawdata(scn, NULL) : NULL;
    if (!data || !data->d_buf)
        return NULL;
    t.data = data->d_buf;
    for (t.size = data->d_size; t.size && t.data[t.size - 1]; t.size--)
        ;
    if (!read_header(elf, header.sh_addr, &t))
        return NULL;
    struct go_table *table = memory_get(1, sizeof *table);
    *table = t;
    table->left = t.size / 2;
    return table;
}

/* Entry of function i; for the index after the last, the end of the code. */
static uint64_t entry_of(const struct go_table *t, size_t i)
{
    return t->text + number(t, inside(t, t->functions, 2 * i * t->word), t->word);
}

/* Where the description of function i continues after its entry. */
static size_t body_of(const struct go_table *t, size_t i)
{
    uint64_t offset = number(t, inside(t, t->functions, (2 * i + 1) * t->word), t->word);
    return inside(t, t->by_unit ? t->functions : 0, offset) + t->word;
}

size_t go_symbols(struct spex_module *module, struct module_table *table)
{
    size_t added = 0;
    if (!module->go)
        module->go = open_table(module);
    const struct go_table *t = module->go;
    for (size_t i = 0; t && i < t->count; i++) {
        size_t body = body_of(t, i);
        const char *name = text_at(t, inside(t, t->names, number(t, body, 4)));
        uint64_t start = entry_of(t, i), end = entry_of(t, i + 1);
        if (body > t->size || !name || !*name || end <= start)
            continue;
        table_add(table, start, end - start, name, true, false, 2);
        added++;
    }
    return added;
}

/* ---- lines ---- */

static uint32_t variable(const struct go_table *t, size_t *at)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 35 && *at < t->size; shift += 7) {
        uint8_t byte = t->data[(*at)++];
        value |= shift < 32 ? (uint32_t)(byte & 127) << shift : 0;
        if (!(byte & 128))
            break;
    }
    return value;
}

/*
 * Reads a list of pairs: how much a value changes, and for how many instructions it then holds. A
 * pair takes at least two bytes; lists that overlap could hold more pairs than that allows, so the
 * rest is left out.
 */
static void read_list(struct spex_module *module, size_t at, struct go_list *list)
{
    struct go_table *t = module->go;
    size_t capacity = 0;
    uint64_t until = 0;
    uint32_t value = UINT32_MAX;
    while (at < t->size) {
        uint32_t change = variable(t, &at);
        if (!change && list->count)
            break;
        if (!t->left) {
            if (!t->told)
                module_problem(
                    module,
                    "%s: its lists of lines are longer than .gopclntab; the rest of them "
                    "is left out",
                    module->name);
            t->told = true;
            list->count = 0;
            return;
        }
        t->left--;
        value += change & 1 ? ~(change >> 1) : change >> 1;
        until += variable(t, &at);
        if (until > UINT32_MAX)
            return;
        list->steps = memory_grow(list->steps, list->count, &capacity, sizeof *list->steps);
        list->steps[list->count++] = (struct go_step){(uint32_t)until, (int32_t)value};
    }
}

/* The list at an offset; each list is read once. */
static const struct go_list *list_at(struct spex_module *module, uint32_t offset)
{
    struct go_table *t = module->go;
    bool fresh;
    uint32_t number = ids_find(&t->offsets, (uint64_t[IDS_WORDS]){offset}, &fresh);
    if (fresh) {
        t->lists = memory_grow(t->lists, number, &t->list_capacity, sizeof *t->lists);
        t->lists[number] = (struct go_list){0};
        t->list_count = number + 1;
        if (offset)
            read_list(module, inside(t, t->values, offset), &t->lists[number]);
    }
    return &t->lists[number];
}

static int32_t value_at(struct spex_module *module, uint32_t offset, uint64_t instruction)
{
    const struct go_list *list = list_at(module, offset);
    size_t low = SEARCH(i, 0, list->count, list->steps[i].until <= instruction);
    return low < list->count ? list->steps[low].value : -1;
}

void go_free(struct spex_module *module)
{
    struct go_table *t = module->go;
    if (!t)
        return;
    for (size_t i = 0; i < t->list_count; i++)
        memory_free(t->lists[i].steps);
    memory_free(t->lists);
    ids_free(&t->offsets);
    memory_free(t);
}

bool go_line(struct spex_module *module, uint64_t address, struct spex_line *line)
{
    const struct go_table *t = module->go;
    size_t low = SEARCH(i, 0, t ? t->count : 0, entry_of(t, i) <= address);
    if (!low || address >= entry_of(t, low))
        return false;
    /* name, args, frame or deferreturn, pcsp, pcfile, pcln, npcdata, compilation unit */
    size_t body = body_of(t, low - 1);
    uint64_t entry = entry_of(t, low - 1);
    uint64_t instruction = (address - entry) / QUANTUM;
    int32_t file = value_at(module, (uint32_t)number(t, body + 16, 4), instruction);
    int32_t at = value_at(module, (uint32_t)number(t, body + 20, 4), instruction);
    if (body > t->size || file < 0 || at <= 0)
        return false;
    const char *name;
    if (t->by_unit) {
        uint64_t unit = number(t, body + 28, 4) + (uint64_t)file;
        name = text_at(t, inside(t, t->files, number(t, inside(t, t->units, 4 * unit), 4)));
    } else {
        name = text_at(t, number(t, inside(t, t->files, 4 * (uint64_t)file), 4));
    }
    if (!name || !*name)
        return false;
    *line = (struct spex_line){.file = name, .line = (unsigned)at};
    return true;
}
