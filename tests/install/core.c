/* What a user of libspex writes: decode a record, check it, make a unit. C11 and C++11, strictly.
 */
#include <spex/base.h>
#include <spex/features.h>
#include <spex/generate.h>
#include <spex/op.h>
#include <spex/record.h>
#include <spex/spu.h>
#include <spex/sysreg.h>
#include <spex/verify.h>
#include <spex/wire.h>

#include <stdio.h>
#include <string.h>

static unsigned long written;

static void write_buffer(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    (void)user;
    (void)stop;
    written += (unsigned long)store->count;
}

static int unit(void)
{
    struct spex_spu_host host;
    struct spex_spu_config config;
    struct spex_spu_status status;
    struct spex_spu *spu;
    struct spex_error error;
    struct spex_op op;
    struct spex_outcome outcome;
    int i;
    memset(&host, 0, sizeof host);
    host.size = sizeof host;
    host.write = write_buffer;
    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.features = "neoverse-n1";
    config.choices = "in_flight=2";
    config.host = &host;
#ifdef NEWER_VALUE
    config.newer = NEWER_VALUE;
#endif
    if (spex_spu_new(&config, &spu, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    spex_spu_boot(spu);
    spex_spu_set(spu, SPEX_PMBPTR_EL1, 0x1000);
    spex_spu_set(spu, SPEX_PMBLIMITR_EL1, 0x11000 | 1);
    spex_spu_set(spu, SPEX_PMSIRR_EL1, 0x100);
    spex_spu_set(spu, SPEX_PMSCR_EL1, 2);
    memset(&op, 0, sizeof op);
    memset(&outcome, 0, sizeof outcome);
    op.kind = SPEX_OP_OTHER;
    outcome.flags = SPEX_OUT_EXECUTED;
    for (i = 0; i < 10000; i++)
        spex_spu_op(spu, 0x400000, &op, &outcome);
    status.size = sizeof status;
    spex_spu_get_status(spu, &status);
    spex_spu_free(spu);
    return status.enabled && written == 38 * 64 ? 0 : 1;
}

static int records(void)
{
    struct spex_generate_options options;
    struct spex_generator *generator;
    struct spex_verifier *verifier;
    struct spex_violation violation;
    struct spex_record record;
    struct spex_error error;
    uint8_t bytes[SPEX_RECORD_MAX];
    size_t size;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.features = "neoverse-v1";
    if (spex_generator_new(&options, &generator, &error) ||
        spex_verifier_new(NULL, &verifier, &error))
        return 1;
    size = spex_generator_next(generator, bytes, &record);
    spex_verifier_feed(verifier, bytes, size, 0, true);
    if (spex_verifier_next(verifier, &violation) != SPEX_END || !(record.present & SPEX_HAS_OP))
        return 1;
    spex_generator_free(generator);
    spex_verifier_free(verifier);
    return 0;
}

int main(void)
{
    if (strcmp(spex_version(), SPEX_VERSION) || spex_features_check("v1p2,pbt", NULL))
        return 1;
    if (unit() || records())
        return 2;
    printf("libspex %s works\n", spex_version());
    return 0;
}
