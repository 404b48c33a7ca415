/* Parameters: presets, settings, messages. */
#include "uarch/support.h"

#include "uarch/none.h"

static void test_presets(void **state)
{
    struct uarch_config config;
    struct spex_error error = {0};
    size_t n = 0;
    for (const char *name; (name = uarch_preset_name(n)); n++) {
        assert_int_equal(uarch_config_preset(name, &config, &error), SPEX_OK);
        assert_false(config.none);
        /* Consistent as it stands, and a model can be made of it. */
        assert_int_equal(uarch_config_set(&config, name, &error), SPEX_OK);
        struct machine m;
        assert_int_equal(timing_new(&config, &m.timing), SPEX_OK);
        assert_int_equal(timing_core_new(m.timing, 0, &m.core), SPEX_OK);
        timing_free(m.timing);
    }
    assert_true(n >= 4);
    assert_int_equal(uarch_config_preset("cortex-m0", &config, &error), SPEX_INVALID);
    assert_non_null(strstr(error.text, "cortex-m0"));
    assert_non_null(strstr(error.text, "neoverse-v2"));
}

static void test_every_parameter_can_be_set(void **state)
{
    struct uarch_parameter p;
    size_t i;
    for (i = 0; uarch_parameter(i, &p); i++) {
        struct uarch_config config;
        struct spex_error error = {0};
        char word[80];
        uarch_config_preset("neoverse-n1", &config, &error);
        uint32_t value = uarch_config_get(&config, i);
        snprintf(word, sizeof word, "%s=%u", p.key, value);
        assert_int_equal(uarch_config_set(&config, word, &error), SPEX_OK);
        /* One above the maximum: refused, with the key and its bounds. */
        snprintf(word, sizeof word, "%s=%llu", p.key, p.max + 1ull);
        assert_int_equal(uarch_config_set(&config, word, &error), SPEX_RANGE);
        assert_non_null(strstr(error.text, p.key));
        assert_int_equal(uarch_config_get(&config, i), value);
    }
    assert_true(i > 40);
}

static void test_settings(void **state)
{
    struct uarch_config config, before;
    struct spex_error error = {0};
    uarch_config_preset("neoverse-n1", &config, &error);
    assert_int_equal(uarch_config_set(&config, "l1d.size=32K,l2.size=512K", &error), SPEX_OK);
    assert_int_equal(config.l1d_size, 32768);
    assert_int_equal(config.l2_size, 524288);
    before = config;
    static const struct {
        const char *words, *why;
    } bad[] = {
        {"l1d.size", "neither"},
        {"l1d.siez=1", "l1d.siez"},
        {"l1d.size=big", "number of bytes"},
        {"l1d.size=", "number of bytes"},
        {"l1d.size=4K4", "number of bytes"},
        {"l1d.size=99999999999", "number of bytes"},
        {"l1d.size=48K", "power of two"},
        {"l2.size=16K", "includes"},
        {"ras.depth=12", "power of two"},
        {"page.size=8192", "page.size"},
        {"tlb2.entries=1281", "tlb2"},
        {"l1d.size=256K,l1d.ways=1", "sets"},
        {"", "neither"},
        {"fast", "there are sampled (the default), full and none"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_not_equal(uarch_config_set(&config, bad[i].words, &error), SPEX_OK);
        if (!strstr(error.text, bad[i].why))
            fail_msg("'%s' gave '%s', want '%s'", bad[i].words, error.text, bad[i].why);
        assert_memory_equal(&config, &before, sizeof config);
    }
    /* A preset name starts afresh; later words change it. */
    assert_int_equal(uarch_config_set(&config, "neoverse-v2,width=5", &error), SPEX_OK);
    assert_int_equal(config.l2_size, 2 << 20);
    assert_int_equal(config.width, 5);
    assert_int_equal(uarch_config_set(&config, "none", &error), SPEX_OK);
    assert_true(config.none && !config.sampled);
    assert_int_equal(uarch_config_set(&config, "sampled", &error), SPEX_OK);
    assert_true(config.sampled && !config.none);
    assert_int_equal(config.width, 5); /* numbers stay */
    assert_int_equal(uarch_config_set(&config, "neoverse-v2", &error), SPEX_OK);
    assert_true(config.sampled && config.width != 5); /* and what they are used for */
    assert_int_equal(uarch_config_set(&config, "prefetch=none,full", &error), SPEX_OK);
    assert_false(config.sampled || config.none || config.pf_stride || config.pf_stream ||
                 config.pf_l2 || config.pf_next || config.pf_spatial || config.pf_code);
}

/* A file is read whole or not at all, and the message says which line. */
static void test_files(void **state)
{
    struct uarch_config config, before, again;
    struct spex_error error = {0};
    struct uarch_parameter p;
    char text[16384];
    size_t n = 0;
    uarch_config_preset("neoverse-v1", &config, &error);
    for (size_t i = 0; uarch_parameter(i, &p); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %u\ta source\n", p.key,
                              uarch_config_get(&config, i));
    assert_int_equal(uarch_config_read(text, NULL, NULL, &again, &error), SPEX_OK);
    assert_memory_equal(&again, &config, sizeof config);
    before = config;
    static const struct {
        const char *line, *why;
    } bad[] = {{"l1d.wasy 4\n", "no parameter 'l1d.wasy'"}, {"width 4\n", "width a second time"}};
    for (size_t i = 0; i < 2; i++) {
        char more[16384 + 64];
        snprintf(more, sizeof more, "# head\n\n%s%s", text, bad[i].line);
        assert_int_equal(uarch_config_read(more, NULL, NULL, &config, &error), SPEX_INVALID);
        assert_non_null(strstr(error.text, bad[i].why));
        assert_non_null(strstr(error.text, "line "));
    }
    *strstr(text, "width") = '#';
    assert_int_equal(uarch_config_read(text, NULL, NULL, &config, &error), SPEX_INVALID);
    assert_non_null(strstr(error.text, "width is missing"));
    assert_memory_equal(&config, &before, sizeof config);
}

static double mean_of(const struct uarch_config *config, const struct spex_op *ops, size_t count)
{
    struct timing_block block;
    none_block_init(config, &block, 0x1000, ops, count);
    return (double)block.mean / 65536;
}

/* Without a model: half way from what dispatch allows to when the last one retires. */
static void test_cost_of_blocks(void **state)
{
    const struct uarch_config config = config_new("none,width=4");
    struct spex_op chain[8], apart[8];
    for (unsigned i = 0; i < 8; i++) {
        chain[i] = op_make(SPEX_EXEC_ALU, 1, 1, -1);
        apart[i] = op_make(SPEX_EXEC_ALU, (int)i, 20, -1);
    }
    double least = mean_of(&config, apart, 8), most = mean_of(&config, chain, 8);
    assert_true(least >= 2 && least < 4); /* eight, four a cycle */
    assert_true(most >= 5 && most < 7);   /* from 2 to 8, and the way through the pipeline */
    chain[3] = op_make(SPEX_EXEC_DIV, 1, 1, -1);
    assert_true(mean_of(&config, chain, 8) == most + (config.lat_div - config.lat_alu) / 2.0);
}

TEST_MAIN(TEST(test_cost_of_blocks), TEST(test_presets), TEST(test_every_parameter_can_be_set),
          TEST(test_settings), TEST(test_files))
