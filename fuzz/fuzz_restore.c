/*
 * Any bytes as the saved state of a unit, and a saved state with some bytes changed: it is refused
 * and the unit stays as it was, or taken, and then the unit works and saves the same again.
 */
#include <spex/spu.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool what)
{
    if (!what)
        abort();
}

static struct spex_spu *unit_new(void)
{
    struct spex_spu *unit;
    struct spex_error error;
    const struct spex_spu_config config = {.size = sizeof config, .seed = 1};
    must(spex_spu_new(&config, &unit, &error) == SPEX_OK);
    return unit;
}

static uint8_t *saved(const struct spex_spu *unit, size_t *size)
{
    *size = spex_spu_save(unit, NULL, 0);
    uint8_t *bytes = malloc(*size);
    must(bytes && spex_spu_save(unit, bytes, *size) == *size);
    return bytes;
}

/* Restores; whatever the answer, what is saved then can be restored. */
static void restore(const uint8_t *data, size_t size)
{
    struct spex_spu *unit = unit_new(), *other = unit_new();
    size_t before_size, after_size;
    uint8_t *before = saved(unit, &before_size);
    enum spex_status status = spex_spu_restore(unit, data, size);
    uint8_t *after = saved(unit, &after_size);
    if (status != SPEX_OK)
        must(before_size == after_size && !memcmp(before, after, after_size));
    must(spex_spu_restore(other, after, after_size) == SPEX_OK);
    for (unsigned i = 0; i < 4; i++)
        spex_spu_pass(unit, spex_spu_until(unit) < 100 ? spex_spu_until(unit) : 100);
    spex_spu_reset(unit);
    free(before);
    free(after);
    spex_spu_free(unit);
    spex_spu_free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    restore(data, size);
    struct spex_spu *unit = unit_new();
    size_t length;
    uint8_t *bytes = saved(unit, &length);
    for (size_t i = 0; i + 2 < size; i += 3) /* place, place, value */
        bytes[(size_t)(data[i] << 8 | data[i + 1]) % length] ^= data[i + 2];
    restore(bytes, length);
    free(bytes);
    spex_spu_free(unit);
    return 0;
}
