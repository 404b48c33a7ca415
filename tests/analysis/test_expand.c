/* The predicted length of C++ names, against libstdc++'s own demangler on its own names. */
#include <spex/symbols.h>

#include "analysis/expand.h"
#include "support/test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *(*demangle)(const char *, char *, size_t *, int *);

static void at_least(const char *name)
{
    int status;
    char *text = demangle(name, NULL, NULL, &status);
    if (text && strlen(text) > expand_cxx(name))
        fail_msg("%s is %zu long, %zu was predicted", name, strlen(text), expand_cxx(name));
    free(text);
}

static void test_names(void **state)
{
    static const char *const names[] = {
        "_ZNSt6vectorIiSaIiEE9push_backERKi",
        ("_ZN4llvm10checkedAddIiEENSt9enable_ifIXsr3std9is_signedIT_EE5valueENS_8OptionalIS2_"
         "EEE4typeES2_S2_"),
        "_Z1fIJidcEEvDpT_",
        "_Z1fIJidcEEvDpSt6vectorIT_SaIS1_EE",
        "_ZTv0_n24_N1A1fEv",
        "_ZTCN1AE0_1B",
        "_ZZ1fvENKUliE_clEi",
        "_ZGVZ1fvE1x",
        "_ZN1AC1ERKS_",
        "_ZN1AIiEcvT_IlEEv",
        "_Z1fM1AFivE",
        "_Z1fPFvvE",
        "_Z1fRA5_Ki",
        "_Z3fooi.constprop.0",
        "_Z1fIiEDTcl1gfp_EET_",
        "_ZlsRSoRK1A",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        at_least(names[i]);
        assert_true(expand_cxx(names[i]) < 1 << 16);
    }
}

static void test_bomb(void **state)
{
    /* each part is two of the part before: A<A<..>, A<..>> */
    char name[1024] = "_Z1f1AIcE";
    for (unsigned i = 0; i < 30; i++) {
        char part[32];
        char digit = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i];
        if (i == 12)
            assert_true(expand_cxx(name) > 1 << 15);
        snprintf(part, sizeof part, "S_IS%c_S%c_E", digit, digit);
        strcat(name, part);
        if (i < 8)
            at_least(name);
    }
    assert_true(expand_cxx(name) > 1 << 20);
    assert_null(spex_demangle(name));
}

/* These are not names; neither the prediction nor libstdc++ would end on them. */
static void test_no_end(void **state)
{
    static const char *const names[] = {
        "_ZDCnNE",         "_ZDCxE",       "_ZDC0E",       "_ZTv01__DCnN\377\3771A5fEv",
        "_Z1fB",           "_ZlivE",       "_Z1fIXsrC",    "_Z1fIXsrCi1aE",
        "_Z1fIXsr1a1bCiE", "_Z1fIXsr1aDx", "_Z1fIXsr1aS_C"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_null(spex_demangle(names[i]));
}

static void test_library(void **state)
{
    Dl_info info;
    size_t count = 0, beyond = 0;
    assert_true(dladdr((void *)demangle, &info));
    int fd = open(info.dli_fname, O_RDONLY);
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    assert_non_null(elf);
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        GElf_Sym symbol;
        assert_non_null(gelf_getshdr(section, &header));
        if (header.sh_type != SHT_DYNSYM)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        for (int i = 0; gelf_getsym(data, i, &symbol); i++) {
            const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
            if (!name || strncmp(name, "_Z", 2))
                continue;
            at_least(name);
            beyond += expand_cxx(name) > 1 << 16;
            count++;
        }
    }
    elf_end(elf);
    close(fd);
    assert_true(count > 1000);
    assert_int_equal(beyond, 0);
}

int main(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY);
    if (library)
        *(void **)&demangle = dlsym(library, "__cxa_demangle");
    if (!demangle) {
        printf("1..0 # SKIP no libstdc++\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_no_end),
        cmocka_unit_test(test_library),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
