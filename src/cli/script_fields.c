#include "script_fields.h"

#include "cli/table.h"

#include <stdio.h>
#include <string.h>

static void comm_text(struct out *out, const char *comm)
{
    enum { WIDTH = 16, MOST = 64 };
    size_t n = strnlen(comm, MOST);
    for (size_t pad = n; pad < WIDTH; pad++)
        out_char(out, ' ');
    out_name_bytes(out, comm, n);
}

unsigned script_label(const struct script_fields *l, enum export_column f, char text[SCRIPT_LABEL])
{
    bool json = l->format == TABLE_AS_JSON, hex = export_fields[f].type == EXPORT_ADDRESS_TYPE;
    const char *name = json                         ? export_fields[f].name
                       : l->format == TABLE_AS_TEXT ? export_fields[f].label
                                                    : "";
    return (unsigned)snprintf(text, SCRIPT_LABEL, "%s%s%s%s", json ? "\"" : "", name,
                              json ? "\":" : "",
                              !hex   ? ""
                              : json ? "\"0x"
                                     : "0x");
}

static void number_text(struct out *out, enum export_column f, uint64_t value)
{
    if (export_fields[f].type == EXPORT_BOOL)
        out_text(out, value ? "true" : "false");
    else if (export_fields[f].type == EXPORT_ADDRESS_TYPE)
        out_hex(out, value);
    else
        out_u64(out, value);
}

/* "401104 walk+0x4 (prog)" */
static void code_text(struct script_fields *l, struct out *out, const struct spex_sample *sample,
                      bool pc)
{
    const struct spex_symbol *symbol = sample->symbol;
    if (pc)
        out_printf(out, l->perf ? "%16llx " : "%llx ", (unsigned long long)sample->pc);
    if (symbol && symbol->name) {
        out_name(out, symbol->name);
        out_text(out, "+0x");
        out_hex(out, sample->address - symbol->start);
    } else {
        out_text(out, "[unknown]");
    }
    out_text(out, " (");
    out_name(out, !sample->module                  ? "[unknown]"
                  : l->perf || l->source.full_path ? spex_module_path(sample->module)
                                                   : spex_module_name(sample->module));
    out_char(out, ')');
}

/* "l1d-access|tlb-access", or in JSON ["l1d-access","tlb-access"] */
static void events_text(struct out *out, uint64_t bits, bool json)
{
    bool first = true;
    out_text(out, json ? "[" : "");
    for (unsigned bit = 0; bit < 64; bit++) {
        if (!(bits >> bit & 1))
            continue;
        const char *name = spex_event_name(bit);
        out_text(out, first ? "" : json ? "," : "|");
        out_text(out, json ? "\"" : "");
        if (name)
            out_text(out, name);
        else
            out_printf(out, "event%u", bit);
        out_text(out, json ? "\"" : "");
        first = false;
    }
    out_text(out, json ? "]" : first ? "-" : "");
}

static void text_field(struct script_fields *l, struct out *out, const struct spex_sample *sample,
                       enum export_column f)
{
    char label[SCRIPT_LABEL];
    uint64_t value;
    const char *text;
    switch (f) {
    case EXPORT_COMM:
        comm_text(out, sample->comm);
        break;
    case EXPORT_PID:
    case EXPORT_TID: {
        int32_t id = f == EXPORT_PID ? sample->pid : sample->tid;
        out_printf(out, l->perf ? "%5d" : "%7d", id < 0 ? -1 : id);
        break;
    }
    case EXPORT_CPU:
        out_printf(out, sample->cpu < 0 ? "[%d]" : "[%03d]", sample->cpu);
        break;
    case EXPORT_PC:
        if (l->one_piece)
            code_text(l, out, sample, true);
        else if (sample->record->present & SPEX_HAS_PC)
            out_hex(out, sample->pc);
        break;
    case EXPORT_SYMBOL: /* symbol and file; a pc field before it has already written both */
        if (!l->one_piece)
            code_text(l, out, sample, false);
        break;
    case EXPORT_DSO:
        break;
    case EXPORT_STACK: /* people have no use for its name */
        if ((text = export_text(&l->source, sample, EXPORT_CALLERS)))
            out_name(out, text);
        break;
    case EXPORT_EVENTS:
        events_text(out, sample->record->events, false);
        break;
    default:
        if (export_fields[f].type == EXPORT_BOOL) {
            if (export_number(&l->source, sample, f, &value) && value)
                out_text(out, export_fields[f].name);
        } else if (export_number(&l->source, sample, f, &value)) {
            out_bytes(out, label, script_label(l, f, label));
            number_text(out, f, value);
        } else if ((text = export_text(&l->source, sample, f))) {
            out_text(out, export_fields[f].label);
            out_name(out, text);
            out_text(out, f == EXPORT_OP ? ":" : "");
        }
    }
}

static void machine_field(struct script_fields *l, struct out *out,
                          const struct spex_sample *sample, enum export_column f)
{
    bool json = l->format == TABLE_AS_JSON;
    bool list = f == EXPORT_EVENTS && sample->record->present & SPEX_HAS_EVENTS;
    char label[SCRIPT_LABEL];
    uint64_t value = 0;
    const char *text = NULL;
    bool number = export_number(&l->source, sample, f, &value);
    if (!list && !number && !(text = export_text(&l->source, sample, f)))
        return;
    out_bytes(out, label, script_label(l, f, label));
    if (list)
        events_text(out, sample->record->events, json);
    else if (number)
        number_text(out, f, value);
    else if (json)
        out_name_json(out, text);
    else
        out_name_csv(out, text);
    out_text(out, json && export_fields[f].type == EXPORT_ADDRESS_TYPE ? "\"" : "");
}

void script_field(struct script_fields *l, struct out *out, const struct spex_sample *sample,
                  enum export_column f)
{
    if (l->format == TABLE_AS_TEXT)
        text_field(l, out, sample, f);
    else
        machine_field(l, out, sample, f);
}
