/* Symbols, lines, inlined calls, instructions and names, on prog.S and variants of it. */
#include <spex/symbols.h>

#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/spex-symbols-XXXXXX";
static const uint8_t id[20] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23,
                               0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67};
#define ID_DIR ".build-id/01"
#define ID_FILE "23456789abcdef0123456789abcdef01234567"

static void shell(const char *format, ...)
{
    char command[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

static const char *at(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ & 3];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int setup(void **state)
{
    assert_non_null(mkdtemp(dir));
    shell("cd %s && cp %s prog && aarch64-linux-gnu-objcopy --only-keep-debug prog prog.debug && "
          "aarch64-linux-gnu-strip -o bare prog && cp bare linked && "
          "aarch64-linux-gnu-objcopy --add-gnu-debuglink=prog.debug linked && "
          "mkdir -p cache/" ID_DIR "/" ID_FILE " debug/" ID_DIR " root/usr/bin && "
          "cp prog cache/" ID_DIR "/" ID_FILE "/elf && cp prog.debug debug/" ID_DIR "/" ID_FILE
          ".debug && cp prog root/usr/bin/prog",
          dir, getenv("SPEX_TEST_PROG"));
    return 0;
}

static int teardown(void **state)
{
    shell("rm -r %s", dir);
    return 0;
}

static struct spex_symbols *symbols_with(struct spex_symbols_options options)
{
    if (!options.build_id_dir)
        options.build_id_dir = "/nonexistent";
    if (!options.debug_dir)
        options.debug_dir = "/nonexistent";
    options.size = sizeof options;
    struct spex_symbols *symbols;
    assert_int_equal(spex_symbols_new(&options, &symbols, NULL), SPEX_OK);
    return symbols;
}

static const char *name_at(struct spex_module *m, uint64_t address)
{
    const struct spex_symbol *s = spex_module_symbol(m, address);
    return s ? s->name ? s->name : "(unnamed)" : NULL;
}

static void plain_file(void **state)
{
    struct spex_symbols *s = symbols_with((struct spex_symbols_options){0});
    struct spex_module *m = spex_symbols_module(s, at("prog"), id, sizeof id, 1);
    assert_ptr_equal(m, spex_symbols_module(s, at("prog"), id, sizeof id, 2));
    assert_null(spex_module_problem(m));
    assert_string_equal(spex_module_name(m), "prog");
    /* text is at file offset 0x1000, data at 0x10000; the kernel may map whole pages */
    assert_int_equal(spex_module_address(m, 0x7f0104, 0x7f0000, 0x1000), 0x401104);
    assert_int_equal(spex_module_address(m, 0x7f1104, 0x7f0000, 0), 0x401104);
    assert_int_equal(spex_module_address(m, 0x800040, 0x800000, 0x10000), 0x410040);
    assert_string_equal(name_at(m, 0x401104), "walk");
    assert_string_equal(name_at(m, 0x401117), "walk");
    assert_null(name_at(m, 0x401118)); /* past the end of walk */
    assert_string_equal(name_at(m, 0x401500), "geo::area(std::vector<int> const&)");
    assert_string_equal(name_at(m, 0x410040), "shared");
    assert_true(spex_module_symbol(m, 0x410040)->data);
    assert_string_equal(name_at(m, 0x421fff), "counters");
    uint8_t code[8];
    assert_int_equal(spex_module_read(m, 0x401104, code, 8), 8);
    assert_memory_equal(code, "\x00\x00\x40\xf9\x21\x04\x00\x91", 8);
    assert_int_equal(spex_module_read(m, 0x420000, code, 8), 0); /* .bss has no bytes */
    spex_symbols_free(s);
}

static void lines_and_inlines(void **state)
{
    struct spex_symbols *s = symbols_with((struct spex_symbols_options){0});
    struct spex_module *m = spex_symbols_module(s, at("prog"), NULL, 0, 1);
    struct spex_line line;
    struct spex_inline frames[4];
    assert_true(spex_module_line(m, 0x401108, &line));
    assert_int_equal(line.line, 22);
    assert_non_null(strstr(line.file, "prog.c"));
    assert_string_equal(line.dir, "/src/prog");
    assert_true(spex_module_line(m, 0x40110c, &line));
    assert_int_equal(line.line, 21);
    assert_false(spex_module_line(m, 0x500000, &line));
    assert_int_equal(spex_module_inlines(m, 0x401100, frames, 4), 0);
    assert_int_equal(spex_module_inlines(m, 0x401108, frames, 4), 1);
    assert_string_equal(frames[0].name, "step");
    assert_int_equal(frames[0].call.line, 23);
    assert_int_equal(spex_module_inlines(m, 0x40110c, frames, 4), 0);
    spex_symbols_free(s);
}

/* Look-up by build id in perf's cache and the debug directory, by --symfs and by debug link. */
static void where_files_are(void **state)
{
    struct spex_symbols *s =
        symbols_with((struct spex_symbols_options){.build_id_dir = at("cache")});
    struct spex_module *m = spex_symbols_module(s, "/gone/prog", id, sizeof id, 1);
    assert_string_equal(name_at(m, 0x401104), "walk");
    assert_null(spex_module_problem(m));
    spex_symbols_free(s);

    s = symbols_with((struct spex_symbols_options){.debug_dir = at("debug")});
    struct spex_line line;
    m = spex_symbols_module(s, at("bare"), id, sizeof id, 1);
    assert_string_equal(name_at(m, 0x401104), "walk");
    assert_true(spex_module_line(m, 0x401108, &line));
    uint8_t code[4];
    assert_int_equal(spex_module_read(m, 0x401104, code, 4), 4); /* from the stripped file */
    spex_symbols_free(s);

    s = symbols_with((struct spex_symbols_options){.symfs = at("root")});
    m = spex_symbols_module(s, "/usr/bin/prog", NULL, 0, 1);
    assert_string_equal(name_at(m, 0x401104), "walk");
    spex_symbols_free(s);

    s = symbols_with((struct spex_symbols_options){0});
    m = spex_symbols_module(s, at("linked"), NULL, 0, 1);
    assert_string_equal(name_at(m, 0x401104), "walk");
    assert_true(spex_module_line(m, 0x401108, &line));
    spex_symbols_free(s);
}

static void wrong_debuglink(void **state)
{
    /* without a build id, which would say more than the checksum */
    shell("cd %s && mkdir -p other && cp prog.debug other && printf x >> other/prog.debug && "
          "aarch64-linux-gnu-objcopy -R .note.gnu.build-id linked other/linked",
          dir);
    struct spex_symbols *s = symbols_with((struct spex_symbols_options){0});
    struct spex_module *m = spex_symbols_module(s, at("other/linked"), NULL, 0, 1);
    assert_string_equal(name_at(m, 0x401104), "(unnamed)");
    assert_non_null(strstr(spex_module_problem(m), "belongs to another build"));
    spex_symbols_free(s);
}

/* Stripped: function starts from the unwind table; what is missing is said. */
static void stripped(void **state)
{
    struct spex_symbols *s = symbols_with((struct spex_symbols_options){0});
    struct spex_module *m = spex_symbols_module(s, at("bare"), NULL, 0, 1);
    const struct spex_symbol *f = spex_module_symbol(m, 0x401208);
    assert_non_null(f);
    assert_null(f->name);
    assert_int_equal(f->start, 0x401200);
    assert_int_equal(f->end, 0x40121c);  /* where its unwind entry ends */
    f = spex_module_symbol(m, 0x401220); /* up to the next: code that has none */
    assert_non_null(f);
    assert_null(f->name);
    assert_int_equal(f->start, 0x40121c);
    assert_int_equal(f->end, 0x401300);
    assert_non_null(strstr(spex_module_problem(m), "stripped"));
    spex_symbols_free(s);
}

static void problems(void **state)
{
    uint8_t other[20] = {1, 2, 3};
    struct spex_symbols *s = symbols_with((struct spex_symbols_options){0});
    struct spex_module *m = spex_symbols_module(s, at("prog"), other, sizeof other, 1);
    assert_null(name_at(m, 0x401104)); /* never the wrong symbols */
    assert_non_null(strstr(spex_module_problem(m), "another build"));
    assert_int_equal(spex_module_remedy(m), SPEX_REMEDY_BUILD);
    m = spex_symbols_module(s, "/bin/sh", NULL, 0, 1);
    assert_non_null(strstr(spex_module_problem(m), "not for AArch64"));
    assert_int_equal(spex_module_remedy(m), SPEX_REMEDY_ARM);
    m = spex_symbols_module(s, "/no/such/file", id, sizeof id, 1);
    assert_int_equal(spex_module_remedy(m), SPEX_REMEDY_COPY);
    assert_non_null(strstr(spex_module_problem(m), "0123456789abcdef"));
    m = spex_symbols_module(s, "/etc/passwd", NULL, 0, 1);
    assert_non_null(strstr(spex_module_problem(m), "not an ELF file"));
    assert_null(spex_module_symbol(m, 0));
    m = spex_symbols_module(s, "[kernel.kallsyms]_text", NULL, 0, -1);
    assert_int_equal(spex_module_remedy(m), SPEX_REMEDY_KERNEL);
    m = spex_symbols_module(s, "[stack]", NULL, 0, 1);
    assert_null(spex_module_problem(m));
    spex_symbols_free(s);
}

static void kernel(void **state)
{
    write_file(at("kallsyms"), "ffff800008010000 T _text\nffff800008010800 t helper\n"
                               "ffff800008011000 T do_syscall\nffff800008012000 D jiffies\n"
                               "ffff800001000000 t nft_run\t[nf_tables]\n");
    struct spex_symbols *s =
        symbols_with((struct spex_symbols_options){.kallsyms = at("kallsyms")});
    struct spex_module *m = spex_symbols_module(s, "[kernel.kallsyms]_text", NULL, 0, -1);
    uint64_t ip =
        spex_module_address(m, 0xffff800008010900, 0xffff800008010000, 0xffff800008010000);
    assert_string_equal(name_at(m, ip), "helper");
    assert_string_equal(name_at(m, 0xffff800008011fff), "do_syscall");
    assert_null(spex_module_problem(m));
    assert_true(spex_module_is_kernel(m));
    m = spex_symbols_module(s, "[nf_tables]", NULL, 0, -1);
    assert_string_equal(name_at(m, 0xffff800001000010), "nft_run");
    spex_symbols_free(s);

    write_file(at("hidden"), "0000000000000000 T _text\n0000000000000000 T x\n");
    s = symbols_with((struct spex_symbols_options){.kallsyms = at("hidden")});
    m = spex_symbols_module(s, "[kernel.kallsyms]_text", NULL, 0, -1);
    assert_non_null(strstr(spex_module_problem(m), "as root"));
    spex_symbols_free(s);

    /* a vmlinux linked at 0x401000, running elsewhere (KASLR) */
    shell("cd %s && aarch64-linux-gnu-objcopy --add-symbol _text=.text:0,global prog vmlinux", dir);
    s = symbols_with((struct spex_symbols_options){.vmlinux = at("vmlinux")});
    m = spex_symbols_module(s, "[kernel.kallsyms]_text", NULL, 0, -1);
    ip = spex_module_address(m, 0xffff80000a000104, 0xffff80000a000000, 0xffff80000a000000);
    assert_int_equal(ip, 0x401104);
    assert_string_equal(name_at(m, ip), "walk");
    spex_symbols_free(s);
}

static void jit(void **state)
{
    write_file(at("perf-77.map"), "7f0000001000 80 LazyCompile:~add /x.js:1\n"
                                  "7f0000001080 40 stub\nnonsense\n");
    struct spex_symbols *s = symbols_with((struct spex_symbols_options){.map_dir = dir});
    struct spex_module *m = spex_symbols_module(s, "//anon", NULL, 0, 77);
    assert_string_equal(name_at(m, spex_module_address(m, 0x7f0000001010, 0x7f0000000000, 0)),
                        "LazyCompile:~add /x.js:1");
    assert_string_equal(name_at(m, 0x7f00000010bf), "stub");
    assert_null(name_at(m, 0x7f00000010c0));
    assert_ptr_not_equal(m, spex_symbols_module(s, "//anon", NULL, 0, 78));
    spex_symbols_free(s);
}

static void names(void **state)
{
    static const struct {
        const char *mangled, *plain;
    } rows[] = {
        {"_ZN3foo3barEv", "foo::bar()"},
        {"_Z3fooi.constprop.0", "foo(int) [clone .constprop.0]"},
        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"},
        {"_ZN50_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$Clone$GT$5clone17h0123456789abcdefE",
         "<alloc::vec::Vec<T> as Clone>::clone"},
        /* v0: the examples of RFC 2603 and their kind */
        {"_RNvCs4fqI2P2rA04_7mycrate3foo", "mycrate::foo"},
        {"_RNvMs_CsX_7mycrateNtB4_3Foo3bar", "<mycrate::Foo>::bar"},
        {"_RNvXCsX_7mycrateNtB2_3FooNtB2_3Bar3baz", "<mycrate::Foo as mycrate::Bar>::baz"},
        {"_RINvNtC3std3mem8align_ofjdE", "std::mem::align_of::<usize, f64>"},
        {"_RNCNvC7mycrate4main0B3_", "mycrate::main::{closure#0}"},
        {"_RINvC1a1fRShAtj4_TlmEE", "a::f::<&[u8], [u16; 4], (i32, u32)>"},
        {"_RINvC1a1fFUKClEmE", "a::f::<unsafe fn(i32) -> u32>"},
        {"_ZN3foo3barEv@plt", "foo::bar()@plt"},
        {"_RNvCs4fqI2P2rA04_7mycrate3foo@plt", "mycrate::foo@plt"},
        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE@plt", "core::fmt::Write::write_fmt@plt"},
        {"main", NULL},
        {"main@plt", NULL},
        {"@plt", NULL},
        {"_R", NULL},
        {"_RNvB_1x", NULL}, /* a back reference to itself */
        {"_RNv", NULL},
        {"_ZZZZ", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = spex_demangle(rows[i].mangled);
        if (rows[i].plain) {
            if (!text)
                fail_msg("%s", rows[i].mangled);
            assert_string_equal(text, rows[i].plain);
        } else {
            assert_null(text);
        }
        free(text);
    }
}

static void disassembly(void **state)
{
    static const uint8_t code[] = {0x00, 0x00, 0x40, 0xf9, 0xc0, 0x03, 0x5f, 0xd6,
                                   0xff, 0xff, 0xff, 0xff, 0xc1, 0xff, 0xff, 0x54};
    static const char *const tools[] = {"llvm", "objdump", "words"};
    for (size_t i = 0; i < 3; i++) {
        char text[4][SPEX_INSTRUCTION_TEXT];
        setenv("SPEX_DISASSEMBLER", tools[i], 1);
        struct spex_disassembler *d;
        assert_int_equal(spex_disassembler_new(&d, NULL), SPEX_OK);
        spex_disassemble(d, 0x1000, code, 4, text);
        if (i < 2) {
            assert_string_equal(text[0], "ldr x0, [x0]");
            assert_string_equal(text[1], "ret");
            assert_non_null(strstr(text[3], "b.ne"));
        } else {
            assert_string_equal(text[0], ".inst 0xf9400000");
            assert_string_equal(spex_disassembler_name(d), "words");
        }
        assert_non_null(strstr(text[2], "0xffffffff"));
        spex_disassembler_free(d);
    }
    unsetenv("SPEX_DISASSEMBLER");
}

/* Damaged files: no crash, no symbols that are not there. */
static void damaged(void **state)
{
    FILE *f = fopen(at("prog"), "rb");
    static uint8_t bytes[1 << 18];
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        struct spex_line line;
        struct spex_inline frames[2];
        f = fopen(at("broken"), "wb");
        uint8_t saved[8];
        size_t places[8], cut = round % 3 ? size : size * (size_t)round / 200 + 1;
        for (int i = 0; i < 8; i++) {
            seed = seed * 1664525 + 1013904223;
            places[i] = round & 1 ? seed % size : seed % 0x200;
            saved[i] = bytes[places[i]];
            bytes[places[i]] = (uint8_t)(seed >> 24);
        }
        fwrite(bytes, 1, cut, f);
        fclose(f);
        for (int i = 7; i >= 0; i--)
            bytes[places[i]] = saved[i];
        struct spex_symbols *s = symbols_with((struct spex_symbols_options){0});
        struct spex_module *m = spex_symbols_module(s, at("broken"), NULL, 0, 1);
        spex_module_symbol(m, 0x401104);
        spex_module_line(m, 0x401104, &line);
        spex_module_inlines(m, 0x401104, frames, 2);
        spex_module_read(m, 0x401104, saved, 8);
        spex_symbols_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plain_file), TEST(lines_and_inlines), TEST(where_files_are), TEST(wrong_debuglink),
        TEST(stripped),   TEST(problems),          TEST(kernel),          TEST(jit),
        TEST(names),      TEST(disassembly),       TEST(damaged),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
