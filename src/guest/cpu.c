#include "guest/cpu.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 16 };

/* ---- keys that describe the CPU itself ---- */

struct identity {
    struct cpu_choice *cpu;
    bool features, layout, group, vector;
};

static bool is_key(const struct uarch_line *line, const char *key)
{
    return strlen(key) == line->key_length && !memcmp(key, line->key, line->key_length);
}

static enum spex_status read_vector(const char *text, uint32_t *bits, struct spex_error *error)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || n < 128 || n > 2048 || n & (n - 1))
        return error_set(error, SPEX_RANGE, 0, "sve.bits is a power of two from 128 to 2048");
    *bits = (uint32_t)n;
    return SPEX_OK;
}

static enum spex_status read_identity(void *context, const struct uarch_line *line,
                                      struct spex_error *error)
{
    struct identity *id = context;
    bool features = is_key(line, "features"), vector = is_key(line, "sve.bits");
    bool group = is_key(line, "select_group");
    bool *seen = features ? &id->features : vector ? &id->vector : group ? &id->group : &id->layout;
    char value[sizeof id->cpu->list], choice[sizeof value + 16];
    struct spu_choices choices;
    if (!features && !vector && !group && !is_key(line, "layout"))
        return SPEX_UNSUPPORTED;
    if (*seen)
        return error_set(error, SPEX_INVALID, 0, "%.*s a second time", (int)line->key_length,
                         line->key);
    if (!line->value_length || line->value_length >= sizeof value)
        return error_set(error, SPEX_RANGE, 0, "%.*s takes 1 to %zu characters",
                         (int)line->key_length, line->key, sizeof value - 1);
    *seen = true;
    snprintf(value, sizeof value, "%.*s", (int)line->value_length, line->value);
    if (vector)
        return read_vector(value, &id->cpu->vector_bits, error);
    if (features) {
        memcpy(id->cpu->list, value, sizeof value);
        return arch_features_parse(value, &id->cpu->features, error);
    }
    spu_choices_default(&choices);
    snprintf(choice, sizeof choice, "%s=%s", group ? "select_group" : "layout", value);
    enum spex_status status = spu_choices_set(&choices, choice, error);
    *(group ? &id->cpu->select_group : &id->cpu->layout) =
        group ? choices.select_group : choices.layout;
    return status;
}

enum spex_status cpu_read(const char *text, struct cpu_choice *cpu, struct spex_error *error)
{
    struct cpu_choice work = {.file = true};
    struct identity id = {.cpu = &work};
    enum spex_status status = uarch_config_read(text, read_identity, &id, &work.model, error);
    if (status)
        return status;
    if (!id.features)
        return error_set(error, SPEX_INVALID, 0,
                         "features is missing: a list such as neoverse-v2,midr=0x410fd4f1 (spex "
                         "help features)");
    work.model.sources = (uint8_t)arch_sources_of(work.features.midr);
    if (work.features.SVE && !work.vector_bits)
        work.vector_bits = 128;
    *cpu = work;
    return SPEX_OK;
}

/* ---- words of --cpu ---- */

static enum spex_status read_file(const char *path, struct cpu_choice *cpu,
                                  struct spex_error *error)
{
    char text[FILE_MAX];
    struct spex_error why = {0};
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(error, SPEX_IO, 0, "%s: %s", path, strerror(errno));
    size_t n = fread(text, 1, sizeof text - 1, file);
    int problem = ferror(file) ? errno : 0;
    bool whole = feof(file);
    fclose(file);
    if (problem)
        return error_set(error, SPEX_IO, 0, "%s: %s", path, strerror(problem));
    text[n] = '\0';
    if (!whole || strlen(text) != n)
        return error_set(error, SPEX_INVALID, 0,
                         "%s: not a text of at most %d bytes; share/cpus has examples", path,
                         FILE_MAX - 1);
    enum spex_status status = cpu_read(text, cpu, &why);
    return status ? error_set(error, status, 0, "%s: %.400s", path, why.text) : SPEX_OK;
}

static bool is_path(const char *word)
{
    size_t n = strlen(word);
    return strchr(word, '/') || (n > 4 && !strcmp(word + n - 4, ".cpu"));
}

/* The preset named by the first word, or -1. */
static int find_preset(const char *word)
{
    size_t n = strcspn(word, ",");
    const char *name;
    for (size_t i = 0; (name = uarch_preset_name(i)); i++)
        if (strlen(name) == n && !memcmp(name, word, n))
            return (int)i;
    return -1;
}

enum spex_status cpu_parse(const char *word, struct cpu_choice *cpu, struct spex_error *error)
{
    struct cpu_choice work = {.layout = 0};
    int preset = find_preset(word);
    enum spex_status status;
    if (preset < 0 && is_path(word))
        return read_file(word, cpu, error);
    if (strlen(word) >= sizeof work.list)
        return error_set(error, SPEX_RANGE, 0, "at most %zu characters", sizeof work.list - 1);
    if (preset >= 0) {
        if ((status = cpu_read(uarch_preset_text((size_t)preset), &work, error)))
            return status;
        work.file = false;
    } else if ((status = uarch_config_preset("neoverse-n1", &work.model, error))) {
        return status;
    }
    char list[2 * sizeof work.list] = {0}; /* settings of its file, then those after its name */
    snprintf(list, sizeof list, "%s%s", work.list, preset < 0 ? word : word + strcspn(word, ","));
    if (strlen(list) >= sizeof work.list)
        return error_set(error, SPEX_RANGE, 0, "at most %zu characters", sizeof work.list - 1);
    memcpy(work.list, list, sizeof work.list);
    if ((status = arch_features_parse(list, &work.features, error)))
        return status;
    work.model.sources = (uint8_t)arch_sources_of(work.features.midr);
    if (work.features.SVE && !work.vector_bits)
        work.vector_bits = 128;
    *cpu = work;
    return SPEX_OK;
}
