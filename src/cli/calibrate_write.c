/* Writes what spex calibrate measured as a preset, in the form of the files in share/cpus. */
#include "calibrate.h"

#include "account/config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Structures whose number of sets is a power of two; unit: bytes in one way of a set. */
static const struct geometry {
    const char *size, *ways;
    unsigned unit, most;
} geometries[] = {{"l1d.size", "l1d.ways", 64, 16},
                  {"l2.size", "l2.ways", 64, 32},
                  {"tlb2.entries", "tlb2.ways", 1, 16}};

static double sets_near(double size, unsigned way)
{
    return exp2(round(log2(size / way)));
}

/*
 * The size nearest to the measured one that this number of ways can make; with other ways if that
 * is more than 5% off.
 */
static double fit(double size, const struct geometry *g, unsigned *ways)
{
    double best = sets_near(size, *ways * g->unit) * *ways * g->unit;
    if (fabs(best - size) <= 0.05 * size)
        return best;
    for (unsigned w = 1; w <= g->most; w++) {
        double now = sets_near(size, w * g->unit) * w * g->unit;
        if (fabs(now - size) < fabs(best - size)) {
            best = now;
            *ways = w;
        }
    }
    return best;
}

struct writing {
    struct calibrate *c;
    struct uarch_config base;
    FILE *file;
    const char *base_name, *text;
    unsigned ways[sizeof geometries / sizeof *geometries];
    double size[sizeof geometries / sizeof *geometries];
};

static bool is(const char *key, const char *text, size_t length)
{
    return strlen(key) == length && !memcmp(key, text, length);
}

static const struct calibrate_value *value_of(const struct calibrate *c, const char *key,
                                              const struct calibrate_claim **claim)
{
    for (size_t i = 0; c->values && (*claim = calibrate_claim(i)); i++)
        if (!strcmp((*claim)->key, key) && c->values[i].known)
            return &c->values[i];
    return NULL;
}

/* A whole number that the key accepts. */
static unsigned whole(const struct uarch_parameter *p, double value)
{
    double n = round(value);
    if (!strcmp(p->key, "ras.depth"))
        n = exp2(round(log2(fmax(value, 1))));
    return n < p->min ? p->min : n > p->max ? p->max : (unsigned)n;
}

static void write_number(struct writing *w, const char *key, unsigned n, const char *unit)
{
    char text[24];
    if (!strcmp(unit, "bytes") && n % 1024 == 0)
        snprintf(text, sizeof text, "%uK", n / 1024);
    else
        snprintf(text, sizeof text, "%u", n);
    fprintf(w->file, "%-18s %-8s ", key, text);
}

/* Rewrites a line of the base whose key is a number of the model. */
static void write_line(struct writing *w, const struct uarch_parameter *p, unsigned old,
                       const char *source)
{
    const struct calibrate_claim *claim;
    const struct calibrate_value *v = value_of(w->c, p->key, &claim);
    for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++) {
        if (!strcmp(p->key, geometries[i].ways) && w->ways[i] && w->ways[i] != old) {
            write_number(w, p->key, w->ways[i], p->unit);
            fprintf(w->file, "chosen: what the size above needs\n");
            return;
        }
    }
    if (!v || (v->measured.value <= 0 && p->min)) { /* not measured or not found */
        write_number(w, p->key, old, p->unit);
        fprintf(w->file, "chosen: as %s (%s)\n", w->base_name, source);
        return;
    }
    double n = v->measured.value;
    for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++)
        if (!strcmp(p->key, geometries[i].size))
            n = w->size[i];
    write_number(w, p->key, whole(p, n), p->unit);
    fprintf(w->file, "measured: %s; %.10g", claim->how, round(1000 * v->measured.value) / 1000);
    if (v->measured.high > v->measured.low)
        fprintf(w->file, ", %.10g to %.10g", round(1000 * v->measured.low) / 1000,
                round(1000 * v->measured.high) / 1000);
    fprintf(w->file, "\n");
}

static void find_sizes(struct writing *w)
{
    struct uarch_parameter p;
    const struct calibrate_claim *claim;
    for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++) {
        const struct geometry *g = &geometries[i];
        const struct calibrate_value *v = value_of(w->c, g->size, &claim);
        for (size_t r = 0; v && uarch_parameter(r, &p); r++)
            if (!strcmp(p.key, g->ways))
                w->ways[i] = uarch_config_get(&w->base, r);
        if (v && v->measured.value > 0)
            w->size[i] = fit(v->measured.value, g, &w->ways[i]);
    }
}

static void write_text(struct writing *w, const char *text)
{
    static const char *const identity[] = {"features", "layout", "select_group", "sve.bits"};
    const char *where = w->c->where == CALIBRATE_MODEL   ? "the model, by exact cycles"
                        : !strcmp(w->c->clock, "cycles") ? "hardware, by its cycle counter"
                                                         : "hardware, by CNTVCT_EL0 and additions";
    fprintf(w->file,
            "# Measured by spex calibrate on %s; the rest as in %s.\n"
            "# KEY VALUE SOURCE; measured: how, the middle one of all runs, their middle half.\n",
            where, w->base_name);
    for (const char *line = text, *next; *line; line = next) {
        const char *end = line + strcspn(line, "\n");
        next = *end ? end + 1 : end;
        size_t length = strcspn(line, " \n");
        char source[400];
        struct uarch_parameter p;
        const char *at = line + length;
        at += strspn(at, " ");
        at += strcspn(at, " \n");
        at += strspn(at, " ");
        snprintf(source, sizeof source, "%.*s", (int)(end - at), at);
        for (size_t i = 0; i < sizeof identity / sizeof *identity; i++)
            if (is(identity[i], line, length))
                fprintf(w->file, "%.*s\n", (int)(end - line), line);
        for (size_t r = 0; uarch_parameter(r, &p); r++)
            if (is(p.key, line, length))
                write_line(w, &p, uarch_config_get(&w->base, r), source);
    }
}

static bool make(void *context, int fd)
{
    struct writing *w = context;
    int copy = dup(fd);
    w->file = copy < 0 ? NULL : fdopen(copy, "w");
    if (w->file)
        write_text(w, w->text);
    bool good = w->file && !ferror(w->file) && !fclose(w->file);
    if (!good)
        cli_error("cannot write the preset: %s", strerror(errno));
    return good;
}

int calibrate_write(struct calibrate *c, const char *base, const char *base_name,
                    const struct output *output)
{
    struct writing w = {.c = c, .base_name = base_name, .text = base};
    struct spex_error error;
    if (uarch_config_read(base, NULL, NULL, &w.base, &error)) {
        cli_error("%s: %s", base_name, error.text);
        return CLI_DATA;
    }
    find_sizes(&w);
    return output_make(output, make, &w);
}
