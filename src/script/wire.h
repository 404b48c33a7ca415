/* What both sides of the protocol in docs/spu-protocol.md write and read: key=value words. */
#ifndef SCRIPT_WIRE_H
#define SCRIPT_WIRE_H

#include <spex/spu.h>

/* A line being written; text that does not fit is cut off, and `full` is set. */
struct wire {
    char *text;
    size_t size, capacity;
    bool full;
};
void wire_put(struct wire *wire, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Parses a number, hexadecimal with 0x or decimal; it must be the whole word. */
bool wire_number(const char *word, uint64_t *value);

/* Structs whose members are numbers: writes each one that is not 0 as " PREFIXkey=0x1". */
struct wire_field {
    const char *key;
    uint16_t at, size;
    bool flag; /* 0 or 1 */
};
extern const struct wire_field wire_state[], wire_status[], wire_exception[];
void wire_put_struct(struct wire *wire, const char *prefix, const struct wire_field *fields,
                     const void *data);
/* "key=value": false if there is no such key, or the value does not fit. */
bool wire_get_field(const char *word, const struct wire_field *fields, void *data);
/* Words with blanks between them; *wrong is the first that is not valid. */
bool wire_get_struct(char *words, const struct wire_field *fields, void *data, const char **wrong);

enum { WIRE_PARTS = 64 };
struct wire_op {
    struct spex_op op;
    struct spex_outcome outcome;
    struct spex_access parts[WIRE_PARTS];
};
void wire_put_op(struct wire *wire, const struct spex_op *op, const struct spex_outcome *outcome);
bool wire_get_op(char *words, struct wire_op *op, const char **wrong);

#endif
