/* The spool of spex ship: only the very file that was sent goes, whatever has its name by then. */
#include "cli/spool.h"

#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/spex-spool-XXXXXX";

static const char *at(const char *name)
{
    static char path[4][300];
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf(p, 300, "%s/%s", directory, name);
    return p;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(at("coming"), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(rename(at("coming"), at(name)), 0);
}

static const char *text_of(const char *name)
{
    static char text[100];
    FILE *f = fopen(at(name), "r");
    if (!f)
        return "none";
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static struct spool opened(void)
{
    struct spool s;
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    assert_non_null(mkdtemp(directory));
    put("a", "old");
    assert_int_equal(spool_open(&s, directory), CLI_OK);
    spool_scan(&s);
    assert_int_equal(s.count, 1);
    return s;
}

static void test_removes(void **state)
{
    (void)state;
    struct spool s = opened();
    spool_remove(&s, &s.files[0]);
    assert_string_equal(text_of("a"), "none");
    spool_scan(&s);
    assert_int_equal(s.count, 0);
    spool_close(&s);
}

static void test_new_file_stays(void **state)
{
    (void)state;
    struct spool s = opened();
    put("a", "new"); /* while the old one was sent */
    spool_remove(&s, &s.files[0]);
    assert_string_equal(text_of("a"), "new");
    assert_false(spool_set_aside(&s, &s.files[0], "why\n"));
    assert_string_equal(text_of("a"), "new");
    struct spool_dropped dropped = spool_bound(&s, 0);
    assert_int_equal(dropped.files, 0);
    assert_string_equal(text_of("a"), "new");
    spool_scan(&s);
    assert_int_equal(s.count, 1);
    spool_remove(&s, &s.files[0]);
    assert_string_equal(text_of("a"), "none");
    spool_close(&s);
}

static void test_link_is_not_followed(void **state)
{
    (void)state;
    struct spool s = opened();
    assert_int_equal(rename(at("a"), at("moved")), 0);
    assert_int_equal(symlink("moved", at("a")), 0);
    spool_remove(&s, &s.files[0]);
    assert_string_equal(text_of("moved"), "old");
    spool_close(&s);
}

static void test_sets_aside(void **state)
{
    (void)state;
    struct spool s = opened();
    assert_true(spool_set_aside(&s, &s.files[0], "why\n"));
    assert_string_equal(text_of("a"), "none");
    assert_string_equal(text_of("aside/a"), "old");
    assert_string_equal(text_of("aside/a.reason"), "why\n");
    spool_close(&s);
}

/* A ship that was killed between taking a file and removing it may have taken an unsent one. */
static void test_comes_back(void **state)
{
    (void)state;
    struct spool s = opened();
    assert_int_equal(rename(at("a"), at(".spex-ship.taken")), 0);
    spool_close(&s);
    assert_int_equal(spool_open(&s, directory), CLI_OK);
    spool_scan(&s);
    assert_int_equal(s.count, 1);
    assert_string_equal(text_of(s.files[0].name), "old");
    spool_close(&s);
}

/* Others may write into the spool: links, FIFOs and directories are left where they are. */
static void test_only_files(void **state)
{
    (void)state;
    struct spool s = opened();
    char outside[] = "/tmp/spex-spool-outside-XXXXXX";
    int fd = mkstemp(outside);
    assert_true(fd >= 0 && !close(fd));
    assert_int_equal(symlink(outside, at("b")), 0);
    assert_int_equal(symlink("a", at("c")), 0);
    assert_int_equal(symlink("nowhere", at("d")), 0);
    assert_int_equal(symlink(".", at("e")), 0);
    assert_int_equal(mkfifo(at("f"), 0600), 0);
    assert_int_equal(mkdir(at("g"), 0700), 0);
    assert_true(spool_scan(&s));
    assert_int_equal(s.count, 1);
    assert_string_equal(s.files[0].name, "a");
    struct spool_dropped dropped = spool_bound(&s, 0);
    assert_int_equal(dropped.files, 1);
    assert_int_equal(access(outside, F_OK), 0);
    unlink(outside);
    spool_close(&s);
}

/* One that cannot be read is not an empty one. */
static void test_unreadable(void **state)
{
    (void)state;
    struct spool s = opened();
    int kept = s.directory;
    s.directory = -1;
    assert_false(spool_scan(&s));
    assert_int_equal(s.count, 0);
    s.directory = kept;
    assert_true(spool_scan(&s));
    assert_int_equal(s.count, 1);
    spool_close(&s);
}

TEST_MAIN(TEST(test_removes), TEST(test_new_file_stays), TEST(test_link_is_not_followed),
          TEST(test_sets_aside), TEST(test_comes_back), TEST(test_only_files),
          TEST(test_unreadable))
