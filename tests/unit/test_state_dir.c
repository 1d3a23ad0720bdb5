/* SPDX-License-Identifier: MIT */
#include "scratch.h"

#include "server/state_dir.h"

static char directory[BI_STATE_DIR_SIZE];
static char url[BI_URL_MAX];
static char error[BI_ERRMSG_SIZE];

static const char *find(struct state_dir_env env)
{
    if (env.system == NULL)
        env.system = "/no/such/directory";
    if (!bi_state_dir_find(directory, &env, error))
        fail_msg("%s", error);
    return directory;
}

#define FIND(...) find((struct state_dir_env){__VA_ARGS__})

static void systemd_directory_comes_first(void **state)
{
    (void)state;
    assert_string_equal(FIND(.state_directory = "/var/lib/bide:/other", .home = "/home/a",
                             .xdg_state_home = "/x", .root = true),
                        "/var/lib/bide");
}

static void root_has_the_directory_of_the_system(void **state)
{
    (void)state;
    assert_string_equal(FIND(.system = "/no/such", .root = true, .home = "/root"), "/no/such");
    assert_string_equal(FIND(.state_directory = "", .system = "/no/such", .root = true),
                        "/no/such");
}

static void user_with_write_access_uses_the_system_directory(void **state)
{
    (void)state;
    assert_string_equal(FIND(.system = scratch, .home = "/home/a"), scratch);
}

static void other_users_have_a_private_directory(void **state)
{
    (void)state;
    assert_string_equal(FIND(.home = "/home/a"), "/home/a/.local/state/bide");
    assert_string_equal(FIND(.home = "/home/a", .xdg_state_home = "/x"), "/x/bide");
    assert_string_equal(FIND(.home = "/home/a", .xdg_state_home = ""), "/home/a/.local/state/bide");
    assert_string_equal(FIND(.home = "/home/a", .xdg_state_home = "relative"),
                        "/home/a/.local/state/bide");
}

static void without_home_there_is_no_state_directory(void **state)
{
    (void)state;
    struct state_dir_env env = {.system = "/no/such"};
    assert_false(bi_state_dir_find(directory, &env, error));
    assert_non_null(strstr(error, "--url sqlite:PATH"));
    char home[BI_STATE_DIR_SIZE + 10];
    memset(home, 'x', sizeof(home));
    home[sizeof(home) - 1] = 0;
    env.home = home;
    assert_false(bi_state_dir_find(directory, &env, error));
    assert_non_null(strstr(error, "too long"));
}

static void a_directory_is_made_for_its_owner_only(void **state)
{
    (void)state;
    bool created = false;
    struct stat info;
    const char *path = scratch_path("a/b/bide");
    assert_true(bi_state_dir_create(path, &created, error));
    assert_true(created);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_true(bi_state_dir_create(path, &created, error));
    assert_false(created);
}

static void existing_directory_is_unchanged(void **state)
{
    (void)state;
    bool created = true;
    struct stat info;
    assert_int_equal(chmod(scratch, 0750), 0);
    assert_true(bi_state_dir_create(scratch, &created, error));
    assert_false(created);
    assert_int_equal(stat(scratch, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0750);
}

static void file_in_place_of_a_directory_is_reported(void **state)
{
    (void)state;
    bool created;
    scratch_write("file", "");
    assert_false(bi_state_dir_create(scratch_path("file"), &created, error));
    assert_non_null(strstr(error, "a file of that name"));
    assert_false(bi_state_dir_create(scratch_path("file/bide"), &created, error));
    assert_non_null(strstr(error, "cannot create"));
}

static void missing_directory_is_reported(void **state)
{
    (void)state;
    scratch_write("file", "");
    assert_true(bi_state_dir_check(scratch, error));
    assert_false(bi_state_dir_check(scratch_path("file"), error));
    assert_non_null(strstr(error, "is not a directory"));
    assert_false(bi_state_dir_check(scratch_path("nothing"), error));
    assert_non_null(strstr(error, "nothing: No such file or directory; create it first"));
}

static void beanstalkd_binlog_beside_the_file_is_found(void **state)
{
    (void)state;
    struct queue_dir_info found = bi_state_dir_inspect(scratch_path("a%25b.db"));
    assert_true(found.is_new);
    assert_string_equal(found.binlog, "");
    scratch_write("a%b.db", "");
    scratch_write("binlog.", "");
    scratch_write("binlog.7x", "");
    found = bi_state_dir_inspect(scratch_path("a%25b.db"));
    assert_false(found.is_new);
    assert_string_equal(found.binlog, "");
    scratch_write("binlog.7", "");
    found = bi_state_dir_inspect(scratch_path("a%25b.db"));
    assert_string_equal(found.binlog, "binlog.7");
    found = bi_state_dir_inspect("no-such-file.db");
    assert_true(found.is_new);
    assert_string_equal(bi_state_dir_inspect("/no-such-file.db").binlog, "");
}

static void url_of_a_directory_is_escaped(void **state)
{
    (void)state;
    assert_true(bi_state_dir_url(url, "/var/lib/bide", error));
    assert_string_equal(url, "sqlite:/var/lib/bide/bide.db");
    assert_true(bi_state_dir_url(url, "a?b&c%d e", error));
    assert_string_equal(url, "sqlite:a%3Fb%26c%25d e/bide.db");
    static char name[BI_URL_MAX];
    memset(name, '%', sizeof(name) - 1);
    assert_false(bi_state_dir_url(url, name, error));
    assert_non_null(strstr(error, "too long"));
}

static void passwords_are_not_shown(void **state)
{
    (void)state;
    static const char *const urls[][2] = {
        {"memory:", "memory:"},
        {"sqlite:/a:b@c/d.db?sync=off", "sqlite:/a:b@c/d.db?sync=off"},
        {"redis://user:hush@host:6379/0", "redis://user:***@host:6379/0"},
        {"redis://:hush@host", "redis://:***@host"},
        {"postgres://user@host:5432/db", "postgres://user@host:5432/db"},
        {"redis://user:h@u@host:1/0?db=1", "redis://user:***@host:1/0?db=1"},
        {"beanstalk://host:11300", "beanstalk://host:11300"},
        {"beanstalk:///run/a:b@c.sock", "beanstalk:///run/a:b@c.sock"},
        {"beanstalk://hush@host:11300", "beanstalk://***@host:11300"},
        {"beanstalk://:hu/sh@host:11300/", "beanstalk://***@host:11300/"},
        {"beanstalk://hush@/run/bide.sock", "beanstalk://***@/run/bide.sock"},
        {"beanstalk://host?secret=hush", "beanstalk://host?secret=***"},
        {"beanstalk://host?a=1&secret=hu?sh@x&b=2", "beanstalk://host?a=1&secret=***&b=2"},
        {"postgres://host/db?password=hush&", "postgres://host/db?password=***&"},
        {"redis://u:h", "redis://u:h"},
    };
    char shown[BI_URL_MAX];
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        bi_url_redact(shown, urls[i][0]);
        assert_string_equal(shown, urls[i][1]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(systemd_directory_comes_first),
        TEST(root_has_the_directory_of_the_system),
        TEST(user_with_write_access_uses_the_system_directory),
        TEST(other_users_have_a_private_directory),
        TEST(without_home_there_is_no_state_directory),
        TEST(a_directory_is_made_for_its_owner_only),
        TEST(existing_directory_is_unchanged),
        TEST(file_in_place_of_a_directory_is_reported),
        TEST(missing_directory_is_reported),
        TEST(beanstalkd_binlog_beside_the_file_is_found),
        TEST(url_of_a_directory_is_escaped),
        TEST(passwords_are_not_shown),
    };
    return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
