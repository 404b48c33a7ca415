/* Prints violations.def as JSON: tests/vectors/violations.json, for authors of other checkers.
 */
#include <stdio.h>

#include "violations.h"

static void hex(const char *name, const char *text, size_t *mark)
{
    uint8_t data[512];
    size_t size = violation_bytes(text, data, mark);
    printf("\"%s\":\"", name);
    for (size_t i = 0; i < size; i++)
        printf("%02x", data[i]);
    printf("\"");
}

int main(void)
{
    printf("[\n");
    for (size_t i = 0; i < VIOLATION_ROWS; i++) {
        const struct violation_row *row = &violation_rows[i];
        size_t mark = 0, none = 0;
        printf("{\"rule\":\"%s\",\"requirements\":[", row->rule);
        for (const char *p = row->requirements; *p;) {
            size_t n = strcspn(p, " ");
            printf("%s\"%.*s\"", p == row->requirements ? "" : ",", (int)n, p);
            p += n + (p[n] == ' ');
        }
        printf("],\"features\":\"%s\",", row->features);
        hex("bytes", row->bytes, &mark);
        printf(",\"offset\":%zu,", mark);
        hex("repaired", row->repaired, &none);
        printf("}%s\n", i + 1 < VIOLATION_ROWS ? "," : "");
    }
    printf("]\n");
    return 0;
}
