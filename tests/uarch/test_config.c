/* Parameters: presets, settings, messages. */
#include "uarch/support.h"

static void test_presets(void **state)
{
    struct spex_uarch_config config;
    struct spex_error error = {0};
    size_t n = 0;
    for (const char *name; (name = spex_uarch_preset_name(n)); n++) {
        assert_int_equal(spex_uarch_config_preset(name, &config, &error), SPEX_OK);
        assert_false(config.none || config.fast);
        /* Consistent as it stands, and a model can be made of it. */
        assert_int_equal(spex_uarch_config_set(&config, name, &error), SPEX_OK);
        struct spex_uarch *model;
        assert_int_equal(spex_uarch_new(&config, &model), SPEX_OK);
        spex_uarch_core_free(core_new(model, 0));
        spex_uarch_free(model);
    }
    assert_true(n >= 4);
    assert_int_equal(spex_uarch_config_preset("cortex-m0", &config, &error), SPEX_INVALID);
    assert_non_null(strstr(error.text, "cortex-m0"));
    assert_non_null(strstr(error.text, "neoverse-v2"));
}

static void test_every_parameter_can_be_set(void **state)
{
    struct spex_uarch_parameter p;
    size_t i;
    for (i = 0; spex_uarch_parameter(i, &p); i++) {
        struct spex_uarch_config config;
        struct spex_error error = {0};
        char word[80];
        spex_uarch_config_preset("neoverse-n1", &config, &error);
        uint32_t value = spex_uarch_config_get(&config, i);
        snprintf(word, sizeof word, "%s=%u", p.key, value);
        assert_int_equal(spex_uarch_config_set(&config, word, &error), SPEX_OK);
        /* One above the maximum: refused, with the key and its bounds. */
        snprintf(word, sizeof word, "%s=%llu", p.key, p.max + 1ull);
        assert_int_equal(spex_uarch_config_set(&config, word, &error), SPEX_RANGE);
        assert_non_null(strstr(error.text, p.key));
        assert_int_equal(spex_uarch_config_get(&config, i), value);
    }
    assert_true(i > 40);
}

static void test_settings(void **state)
{
    struct spex_uarch_config config, before;
    struct spex_error error = {0};
    spex_uarch_config_preset("neoverse-n1", &config, &error);
    assert_int_equal(spex_uarch_config_set(&config, "l1d.size=32K,l2.size=512K", &error), SPEX_OK);
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
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_not_equal(spex_uarch_config_set(&config, bad[i].words, &error), SPEX_OK);
        if (!strstr(error.text, bad[i].why))
            fail_msg("'%s' gave '%s', want '%s'", bad[i].words, error.text, bad[i].why);
        assert_memory_equal(&config, &before, sizeof config);
    }
    /* A preset name starts afresh; later words change it. */
    assert_int_equal(spex_uarch_config_set(&config, "neoverse-v2,width=5", &error), SPEX_OK);
    assert_int_equal(config.l2_size, 2 << 20);
    assert_int_equal(config.width, 5);
    assert_int_equal(spex_uarch_config_set(&config, "none", &error), SPEX_OK);
    assert_true(config.none && !config.fast);
    assert_int_equal(spex_uarch_config_set(&config, "fast", &error), SPEX_OK);
    assert_true(config.fast && !config.none);
    assert_int_equal(config.width, 5); /* numbers stay */
    assert_int_equal(spex_uarch_config_set(&config, "neoverse-v2", &error), SPEX_OK);
    assert_true(config.fast && config.width != 5); /* and what they are used for */
    assert_int_equal(spex_uarch_config_set(&config, "prefetch=none,full", &error), SPEX_OK);
    assert_false(config.fast || config.none || config.pf_stride || config.pf_stream ||
                 config.pf_l2 || config.pf_next || config.pf_spatial || config.pf_code);
}

/* Words that the fast model would ignore. */
static void test_full_only(void **state)
{
    static const char *const full[] = {
        "rob=64",         "prefetch=none", "pf.l2=0", "thread=0", "l1d.size=32K,l1i.size=32K",
        "streaming.far=9"};
    static const char *const both[] = {"fast",          "l1d.size=32K,mispredict=9,none",
                                       "neoverse-v1",   "width=3",
                                       "page.size=64K", "l2.latency=12"};
    for (size_t i = 0; i < sizeof full / sizeof full[0]; i++)
        assert_non_null(spex_uarch_full_only(full[i]));
    for (size_t i = 0; i < sizeof both / sizeof both[0]; i++)
        assert_null(spex_uarch_full_only(both[i]));
    assert_string_equal(spex_uarch_full_only("l1d.size=32K,rob=64,turn=1"), "rob=64,turn=1");
}

/* A file is read whole or not at all, and the message says which line. */
static void test_files(void **state)
{
    struct spex_uarch_config config, before, again;
    struct spex_error error = {0};
    struct spex_uarch_parameter p;
    char text[16384];
    size_t n = 0;
    spex_uarch_config_preset("neoverse-v1", &config, &error);
    for (size_t i = 0; spex_uarch_parameter(i, &p); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s %u\ta source\n", p.key,
                              spex_uarch_config_get(&config, i));
    assert_int_equal(spex_uarch_config_read(text, NULL, NULL, &again, &error), SPEX_OK);
    assert_memory_equal(&again, &config, sizeof config);
    before = config;
    static const struct {
        const char *line, *why;
    } bad[] = {{"l1d.wasy 4\n", "no parameter 'l1d.wasy'"}, {"width 4\n", "width a second time"}};
    for (size_t i = 0; i < 2; i++) {
        char more[16384 + 64];
        snprintf(more, sizeof more, "# head\n\n%s%s", text, bad[i].line);
        assert_int_equal(spex_uarch_config_read(more, NULL, NULL, &config, &error), SPEX_INVALID);
        assert_non_null(strstr(error.text, bad[i].why));
        assert_non_null(strstr(error.text, "line "));
    }
    *strstr(text, "width") = '#';
    assert_int_equal(spex_uarch_config_read(text, NULL, NULL, &config, &error), SPEX_INVALID);
    assert_non_null(strstr(error.text, "width is missing"));
    assert_memory_equal(&config, &before, sizeof config);
}

static void test_counter_and_clock(void **state)
{
    struct spex_uarch *model = model_new(NULL);
    struct spex_uarch_core *core = core_new(model, 0);
    struct spex_op ops[10];
    struct spex_uarch_block block;
    for (unsigned i = 0; i < 10; i++)
        ops[i] = op_make(SPEX_EXEC_ALU, -1, -1, -1);
    spex_uarch_block_init(model, &block, 0x1000, ops, 10);
    /* Unarmed: never expires, time goes on. */
    for (unsigned i = 0; i < 2000000; i++)
        assert_int_equal(enter(core, &block), 0);
    uint64_t cycles = spex_uarch_clock(core);
    assert_true(cycles >= 2000000ull * 10 / 4 && cycles < 2000000ull * 10);
    /* Each operation of 1..30 is found in its block and at its place. */
    for (unsigned n = 1; n <= 30; n++) {
        spex_uarch_arm(core, n);
        uint64_t before = spex_uarch_clock(core);
        unsigned blocks = 0;
        do {
            assert_true(spex_uarch_left(core) > 0);
            blocks++;
        } while (!(enter(core, &block) & SPEX_UARCH_EXPIRED));
        assert_int_equal(blocks, (n + 9) / 10);
        assert_int_equal(spex_uarch_left(core) + 10, n - 10 * (blocks - 1));
        assert_true(spex_uarch_clock(core) > before);
    }
    /* A fault gives operations back: the armed one comes later. */
    spex_uarch_arm(core, 15);
    assert_int_equal(enter(core, &block), 0);
    spex_uarch_give_back(core, 7);
    assert_int_equal(spex_uarch_left(core), 12);
    assert_int_equal(enter(core, &block), 0);
    assert_int_equal(enter(core, &block), SPEX_UARCH_EXPIRED);
    /* The clock only goes forward. */
    uint64_t now = spex_uarch_clock(core);
    spex_uarch_clock_reach(core, now - 1);
    assert_int_equal(spex_uarch_clock(core), now);
    spex_uarch_clock_reach(core, now + 1000);
    assert_int_equal(spex_uarch_clock(core), now + 1000);
    spex_uarch_arm(core, SPEX_UARCH_OPS_MAX);
    assert_int_equal(spex_uarch_clock(core), now + 1000);
    assert_int_equal(spex_uarch_left(core), SPEX_UARCH_OPS_MAX);
    /* Bits of the engine are reported until it clears them. */
    core->attention = SPEX_UARCH_ATT_ENGINE;
    assert_int_equal(enter(core, &block), SPEX_UARCH_ATTENTION);
    core->attention = 0;
    assert_int_equal(enter(core, &block), 0);
    spex_uarch_free(model);
}

static uint64_t block_cycles(struct spex_uarch *model, const struct spex_op *ops, size_t count)
{
    struct spex_uarch_core *core = core_new(model, 0);
    struct spex_uarch_block block;
    spex_uarch_block_init(model, &block, 0x1000, ops, count);
    enter(core, &block);
    uint64_t cycles = spex_uarch_clock(core);
    spex_uarch_core_free(core);
    return cycles;
}

static void test_cost_of_blocks(void **state)
{
    struct spex_uarch *model = model_new("width=4");
    struct spex_op chain[8], apart[8];
    for (unsigned i = 0; i < 8; i++) {
        chain[i] = op_make(SPEX_EXEC_ALU, 1, 1, -1);
        apart[i] = op_make(SPEX_EXEC_ALU, (int)i, 20, -1);
    }
    assert_int_equal(block_cycles(model, apart, 8), 2); /* eight, four a cycle */
    assert_int_equal(block_cycles(model, chain, 8), 5); /* half way from 2 to 8 */
    chain[3] = op_make(SPEX_EXEC_DIV, 1, 1, -1);
    assert_int_equal(block_cycles(model, chain, 8), 10); /* 2 and 19 */
    spex_uarch_free(model);
}

TEST_MAIN(TEST(test_cost_of_blocks), TEST(test_presets), TEST(test_every_parameter_can_be_set),
          TEST(test_settings), TEST(test_full_only), TEST(test_files), TEST(test_counter_and_clock))
