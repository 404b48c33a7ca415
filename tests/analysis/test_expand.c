/* The predicted length of C++ names, against libstdc++'s own demangler on its own names. */
#include <spex/symbols.h>

#include "analysis/expand.h"
#include "support/test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *(*demangle)(const char *, char *, size_t *, int *);

static void at_least(const char *name)
{
    int status;
    char *text = demangle(name, NULL, NULL, &status);
    if (text && strlen(text) > expand_cxx(name))
        fail_msg("%s is %zu long, %zu was foreseen", name, strlen(text), expand_cxx(name));
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

static void test_library(void **state)
{
    Dl_info info;
    char command[5000], *line = NULL;
    size_t room = 0, count = 0, beyond = 0;
    ssize_t n;
    if (!dladdr((void *)demangle, &info))
        skip();
    snprintf(command, sizeof command, "nm -D -f posix --without-symbol-versions '%s' 2>/dev/null",
             info.dli_fname);
    FILE *nm = popen(command, "r");
    assert_non_null(nm);
    while ((n = getline(&line, &room, nm)) > 0) {
        line[strcspn(line, " @\n")] = 0;
        if (strncmp(line, "_Z", 2))
            continue;
        at_least(line);
        beyond += expand_cxx(line) > 1 << 16;
        count++;
    }
    free(line);
    pclose(nm);
    if (!count)
        skip();
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
        cmocka_unit_test(test_library),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
