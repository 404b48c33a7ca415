/* Instructions and source lines of the functions with most samples. */
#include "report/internal.h"
#include "report/sources.h"

#include "base/bits.h"
#include "base/memory.h"

#include <spex/a64.h>

#include <stdlib.h>
#include <string.h>

enum { AROUND = 6 }; /* instructions shown on each side of one with samples */

struct sampled { /* an instruction with samples: its position in the order of the cube */
    const struct spex_symbol *symbol;
    uint64_t address;
    size_t row;
};

static int by_symbol(const void *a, const void *b)
{
    const struct sampled *x = a, *y = b;
    if (x->symbol != y->symbol)
        return (uintptr_t)x->symbol < (uintptr_t)y->symbol ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static struct sampled *sort_sampled(const struct cube *cube, size_t *count)
{
    *count = spex_group_count(cube->total);
    struct sampled *list = memory_get(*count + 1, sizeof *list);
    for (size_t i = 0; i < *count; i++) {
        const struct spex_row *row = spex_group_row(cube->total, i);
        list[i] = (struct sampled){spex_row_symbol(cube->total, row, 1),
                                   spex_row_address(cube->total, row, 0), i};
    }
    qsort(list, *count, sizeof *list, by_symbol);
    return list;
}

struct listing {
    struct report *report;
    const struct spex_symbol *symbol;
    const struct sampled *samples; /* samples of this function, in order of address */
    size_t count;
    struct spex_line source; /* the file that most lines belong to, and the range of lines */
    unsigned first_line, last_line;
};

static void write_instruction(struct listing *l, uint64_t address, const struct sampled *sample,
                              struct json *json)
{
    const struct spex_symbol *symbol = l->symbol;
    char text[1][SPEX_INSTRUCTION_TEXT] = {""};
    struct spex_line line = {0};
    uint8_t code[4];
    uint64_t target;
    bool have = spex_module_read(symbol->module, address, code, 4) == 4;
    json_object(json);
    JSON_MEMBER(json, "at", u64, address - symbol->start);
    if (have) {
        spex_disassemble(l->report->disassembler, address, code, 1, text);
        code_name_target(symbol, le32(code), address, text[0]);
        JSON_MEMBER(json, "text", string, text[0]);
        if (spex_a64_target(le32(code), address, &target) && target >= symbol->start &&
            target < symbol->end)
            JSON_MEMBER(json, "to", u64, target - symbol->start);
    }
    if (spex_module_line(symbol->module, address, &line)) {
        JSON_MEMBER(json, "line", u64, line.line);
        if (l->source.file && strcmp(line.file, l->source.file))
            JSON_MEMBER(json, "file", string, line.file);
    }
    if (sample)
        cube_write_row(&l->report->cubes[CODE], sample->row, json);
    json_end(json);
}

/* Writes the instructions near samples, at most `most` of them. */
static void write_instructions(struct listing *l, size_t most, struct json *json)
{
    uint64_t next = l->symbol->start, end = l->symbol->end;
    size_t written = 0;
    json_name(json, "instructions");
    json_array_lines(json);
    for (size_t i = 0; i < l->count; i++) {
        uint64_t at = l->samples[i].address;
        uint64_t from = at - l->symbol->start > 4 * AROUND ? at - 4 * AROUND : l->symbol->start;
        for (uint64_t a = from > next ? from : next; a < at && written < most; a += 4, written++)
            write_instruction(l, a, NULL, json);
        if (written < most)
            write_instruction(l, at, &l->samples[i], json);
        written++;
        next = at + 4;
        uint64_t until = i + 1 < l->count ? l->samples[i + 1].address : end;
        for (unsigned n = 0; n < AROUND && next < until && next < end && written < most;
             n++, next += 4, written++)
            write_instruction(l, next, NULL, json);
    }
    json_end(json);
    if (written > most)
        JSON_MEMBER(json, "cut", u64, written - most);
}

/* Finds the file of the function's first line, and those of its lines that have samples. */
static void find_source(struct listing *l)
{
    struct spex_line line;
    if (!spex_module_line(l->symbol->module, l->symbol->start, &l->source))
        return;
    l->first_line = l->last_line = l->source.line;
    for (size_t i = 0; i < l->count; i++) {
        if (!spex_module_line(l->symbol->module, l->samples[i].address, &line) || !line.line ||
            strcmp(line.file, l->source.file))
            continue;
        l->first_line = line.line < l->first_line ? line.line : l->first_line;
        l->last_line = line.line > l->last_line ? line.line : l->last_line;
    }
}

static void write_source(struct listing *l, struct json *json)
{
    enum { BEFORE = 3, AFTER = 3, MOST = 400 };
    if (!l->source.file)
        return;
    const struct source *s = sources_get(l->report->sources, &l->source, l->symbol->module);
    unsigned first = l->first_line > BEFORE ? l->first_line - BEFORE : 1;
    JSON_MEMBER(json, "file", string, l->source.file);
    if (!s->text)
        return;
    JSON_MEMBER(json, "first_line", u64, first);
    json_name(json, "source");
    json_array(json);
    for (unsigned n = first; n <= l->last_line + AFTER && n <= s->count && n < first + MOST; n++)
        json_string(json, s->lines[n - 1]);
    json_end(json);
}

void code_write(struct report *r, const struct limits *limits, struct json *json)
{
    const struct cube *functions = &r->cubes[FUNCTIONS];
    size_t count, rows = spex_group_count(functions->total);
    struct sampled *all = sort_sampled(&r->cubes[CODE], &count);
    json_name(json, "code");
    json_array_lines(json);
    for (size_t i = 0; i < rows && i < limits->code; i++) {
        struct listing l = {.report = r};
        l.symbol = spex_row_symbol(functions->total, spex_group_row(functions->total, i), 0);
        if (!l.symbol)
            continue;
        size_t first = 0;
        while (first < count && all[first].symbol != l.symbol)
            first++;
        l.samples = all + first;
        while (first + l.count < count && l.samples[l.count].symbol == l.symbol)
            l.count++;
        find_source(&l);
        json_object(json);
        JSON_MEMBER(json, "function", u64, i);
        JSON_MEMBER(json, "start", hex, l.symbol->start);
        write_source(&l, json);
        write_instructions(&l, limits->instructions, json);
        json_end(json);
    }
    json_end(json);
    json_name(json, "source_files");
    json_array(json);
    for (size_t i = 0; report_source(r, i); i++)
        json_string(json, report_source(r, i));
    json_end(json);
    JSON_MEMBER(json, "disassembler", string, spex_disassembler_name(r->disassembler));
    free(all);
}
