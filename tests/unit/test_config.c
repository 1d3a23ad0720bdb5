/* SPDX-License-Identifier: MIT */
#include "scratch.h"

#include "queue/queue.h"
#include "server/config.h"
#include "util/conffile.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static struct flags flags;
static struct config config;
static struct notes notes;
static char error[BI_ERRMSG_SIZE];

#define ARGS(...)         \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }
#define NO_FILE "--config=/dev/null"

/* ---- helpers ---- */

static bool load(const char *const *argv)
{
    notes.count = 0;
    error[0] = 0;
    return bi_flags_parse(&flags, argv, error) && bi_config_load(&config, &flags, &notes, error);
}

static void accept(const char *const *argv)
{
    if (!load(argv))
        fail_msg("%s", error);
}

static void refuse(const char *const *argv, const char *because)
{
    if (load(argv)) {
        bi_config_free(&config);
        fail_msg("%s was taken", argv[0]);
    }
    if (strstr(error, because) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", argv[0], error, because);
}

/* One long flag, "name=value". */
static void accept_flag(const char *text)
{
    char flag[300];
    snprintf(flag, sizeof(flag), "--%s", text);
    accept(ARGS(NO_FILE, flag));
}

static void refuse_flag(const char *text, const char *because)
{
    char flag[300];
    snprintf(flag, sizeof(flag), "--%s", text);
    refuse(ARGS(flag, NO_FILE), because);
}

static const char *file_flag(const char *text)
{
    static char flag[600];
    snprintf(flag, sizeof(flag), "--config=%s", scratch_write("bided.conf", text));
    return flag;
}

static void accept_file(const char *text)
{
    accept(ARGS(file_flag(text)));
}

static void refuse_file(const char *text, const char *because)
{
    refuse(ARGS(file_flag(text)), because);
}

static bool was_noted(const struct notes *list, bide_log_level level, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].level == level && strstr(list->list[i].text, text) != NULL)
            return true;
    return false;
}

/* ---- what is not said ---- */

static void unset_options_have_their_default(void **state)
{
    (void)state;
    accept(ARGS(NO_FILE));
    assert_null(config.url);
    assert_null(config.directory);
    assert_int_equal(config.listen_count, 0);
    assert_null(config.address);
    assert_null(config.port);
    assert_int_equal(config.limits.max_connections, 10000);
    assert_int_equal(config.limits.idle_timeout_ms, 0);
    assert_int_equal(config.limits.stop_timeout_ms, 10000);
    assert_int_equal(config.limits.max_client_bytes, 256 << 20);
    assert_string_equal(config.limits.auth_secret, "");
    assert_false(config.memory_given);
    assert_int_equal(config.unix_mode, 0660);
    assert_string_equal(config.user, "");
    assert_int_equal(config.log_format, BI_LOG_TEXT);
    assert_int_equal(config.log_level, BIDE_LOG_INFO);
    assert_int_equal(config.options.max_job_size, 0);
    bi_config_free(&config);
}

static void every_option_of_the_queue_is_a_setting(void **state)
{
    (void)state;
    struct bi_option option;
    size_t count = 0;
    for (; bi_options_describe(count, &option); count++) {
        size_t index;
        if (!bi_setting_find(option.name, strlen(option.name), &index, error))
            fail_msg("%s", error);
        assert_true(strlen(bi_setting_get(index)->help) > 0);
    }
    assert_true(count > 20);
}

static void every_setting_accepts_its_default(void **state)
{
    (void)state;
    for (size_t i = 0; i < BI_SETTINGS; i++) {
        const struct setting *setting = bi_setting_get(i);
        if (setting->fallback == NULL || (setting->traits & BI_SECRET) != 0)
            continue;
        char text[200];
        snprintf(text, sizeof(text), "%s=%s", setting->name, setting->fallback);
        accept_flag(text);
        bi_config_free(&config);
    }
    assert_null(bi_setting_get(BI_SETTINGS));
}

/* ---- flags ---- */

static void long_flags_have_their_value_behind_them_or_in_them(void **state)
{
    (void)state;
    accept(ARGS(NO_FILE, "--max-job-size", "1MiB", "--idle_timeout=90s", "--sync=normal", "--url",
                "memory:?ticker=wheel"));
    assert_int_equal(config.options.max_job_size, 1 << 20);
    assert_int_equal(config.limits.idle_timeout_ms, 90000);
    assert_int_equal(config.options.sync, BIDE_SYNC_NORMAL);
    assert_string_equal(config.url, "memory:?ticker=wheel");
    bi_config_free(&config);
}

static void flags_of_beanstalkd_have_their_meaning(void **state)
{
    (void)state;
    accept(ARGS(NO_FILE, "-l", "10.0.0.1", "-p", "11400", "-z", "1000", "-u", "nobody", "-b",
                "/tmp/jobs", "-f", "50", "-s", "4096", "-V"));
    assert_string_equal(config.address, "10.0.0.1");
    assert_string_equal(config.port, "11400");
    assert_int_equal(config.options.max_job_size, 1000);
    assert_string_equal(config.user, "nobody");
    assert_string_equal(config.directory, "/tmp/jobs");
    assert_int_equal(config.options.sync, BIDE_SYNC_FULL);
    assert_int_equal(config.log_level, BIDE_LOG_DEBUG);
    assert_true(was_noted(&flags.notes, BIDE_LOG_INFO, "sync=full"));
    assert_true(was_noted(&flags.notes, BIDE_LOG_INFO, "no effect"));
    bi_config_free(&config);
}

static void short_flags_can_be_in_one_word(void **state)
{
    (void)state;
    accept(ARGS(NO_FILE, "-FVl127.0.0.2", "-p11401", "-Vz5"));
    assert_int_equal(config.options.sync, BIDE_SYNC_OFF);
    assert_int_equal(config.log_level, BIDE_LOG_DEBUG);
    assert_string_equal(config.address, "127.0.0.2");
    assert_string_equal(config.port, "11401");
    assert_int_equal(config.options.max_job_size, 5);
    bi_config_free(&config);
}

static void of_two_flags_the_last_wins(void **state)
{
    (void)state;
    accept(ARGS(NO_FILE, "-F", "-f0", "-p", "1", "-p", "2", "--sync=off", "--sync=normal"));
    assert_int_equal(config.options.sync, BIDE_SYNC_NORMAL);
    assert_string_equal(config.port, "2");
    bi_config_free(&config);
    accept(ARGS(NO_FILE, "-f0", "-F"));
    assert_int_equal(config.options.sync, BIDE_SYNC_OFF);
    bi_config_free(&config);
}

static void a_job_size_beyond_the_limit_is_capped_with_a_warning_for_z_only(void **state)
{
    (void)state;
    accept(ARGS(NO_FILE, "-z", "1073741825"));
    assert_int_equal(config.options.max_job_size, 1 << 30);
    assert_true(was_noted(&flags.notes, BIDE_LOG_WARN, "1073741824"));
    bi_config_free(&config);
    accept(ARGS(NO_FILE, "-z", "1073741824"));
    assert_int_equal(flags.notes.count, 0);
    bi_config_free(&config);
    refuse_flag("max_job_size=1073741825", "0 to 1073741824");
}

static void removed_flags_are_accepted_with_a_warning(void **state)
{
    (void)state;
    accept(ARGS(NO_FILE, "-c", "-n"));
    assert_int_equal(flags.notes.count, 2);
    assert_int_equal(flags.notes.list[0].level, BIDE_LOG_WARN);
    bi_config_free(&config);
}

static void invalid_flags_are_rejected(void **state)
{
    (void)state;
    refuse(ARGS("-x"), "unknown flag: -x");
    refuse(ARGS("-Fx"), "unknown flag: -x");
    refuse(ARGS("-"), "unknown argument: -");
    refuse(ARGS("word"), "unknown argument: word");
    refuse(ARGS(""), "unknown argument");
    refuse(ARGS("--"), "unknown setting \"\"");
    refuse(ARGS("-p"), "requires an argument: -p");
    refuse(ARGS("-Fp"), "requires an argument: -p");
    refuse(ARGS("--url"), "requires an argument: --url");
    refuse(ARGS("--config"), "requires an argument: --config");
    refuse(ARGS("--help=1"), "unknown setting \"help\"");
    refuse(ARGS("--address=1"), "unknown setting \"address\"");
    refuse(ARGS("-f", "often"), "number of milliseconds");
    refuse(ARGS("-s", "big"), "number of bytes");
    refuse(ARGS("-z", "big", NO_FILE), "a size such as");
    refuse(ARGS("-p", "http", NO_FILE), "invalid port");
    refuse(ARGS("-p", "65536", NO_FILE), "invalid port");
}

static void help_and_version_end_flag_parsing(void **state)
{
    (void)state;
    static const struct {
        const char *flag;
        enum flags_action action;
    } wishes[] = {{"-h", BI_ACTION_HELP},
                  {"-Fh", BI_ACTION_HELP},
                  {"--help", BI_ACTION_HELP},
                  {"-v", BI_ACTION_VERSION},
                  {"--version", BI_ACTION_VERSION}};
    for (size_t i = 0; i < COUNT_OF(wishes); i++) {
        char flag[20];
        strcpy(flag, wishes[i].flag);
        assert_true(bi_flags_parse(&flags, ARGS(flag, "-x"), error));
        assert_int_equal(flags.action, wishes[i].action);
    }
    assert_true(bi_flags_parse(&flags, ARGS("--check-config", "-F"), error));
    assert_int_equal(flags.action, BI_ACTION_CHECK);
    assert_int_equal(flags.count, 1);
    assert_false(bi_flags_parse(&flags, ARGS("--check_config", "-x"), error));
}

static void too_many_flags_are_rejected(void **state)
{
    (void)state;
    char word[BI_FLAGS_MAX + 3];
    memset(word, 'F', sizeof(word));
    word[0] = '-';
    word[BI_FLAGS_MAX + 1] = 0;
    assert_true(bi_flags_parse(&flags, ARGS(word), error));
    word[BI_FLAGS_MAX + 1] = 'F';
    word[BI_FLAGS_MAX + 2] = 0;
    refuse(ARGS(word), "more than");
}

/* ---- values ---- */

static void sizes_durations_and_numbers_are_parsed(void **state)
{
    (void)state;
    accept(ARGS(NO_FILE, "--max-connections=5", "--idle-timeout=2m", "--stop-timeout=250",
                "--max-client-bytes=3KiB", "--unix-mode=0600", "--log-format=json",
                "--log-level=error"));
    assert_int_equal(config.limits.max_connections, 5);
    assert_int_equal(config.limits.idle_timeout_ms, 120000);
    assert_int_equal(config.limits.stop_timeout_ms, 250);
    assert_int_equal(config.limits.max_client_bytes, 3072);
    assert_int_equal(config.unix_mode, 0600);
    assert_int_equal(config.log_format, BI_LOG_JSON);
    assert_int_equal(config.log_level, BIDE_LOG_ERROR);
    bi_config_free(&config);
}

static void unlimited_memory_can_be_set(void **state)
{
    (void)state;
    accept_flag("max_memory=0");
    assert_true(config.memory_given);
    assert_int_equal(config.options.max_memory, 0);
    bi_config_free(&config);
    accept_flag("max-memory=2GiB");
    assert_true(config.memory_given);
    assert_int_equal(config.options.max_memory, UINT64_C(2) << 30);
    bi_config_free(&config);
    accept_flag("max-memory=auto");
    assert_false(config.memory_given);
    bi_config_free(&config);
}

static void invalid_values_are_rejected(void **state)
{
    (void)state;
    refuse_flag("max_connections=0", "at least 1");
    refuse_flag("max_connections=many", "a number");
    refuse_flag("max_connections=1000001", "at most 1000000");
    refuse_flag("idle_timeout=soon", "a duration");
    refuse_flag("max_client_bytes=10s", "a size");
    refuse_flag("unix_mode=888", "octal");
    refuse_flag("unix_mode=1777", "octal");
    refuse_flag("unix_mode=", "octal");
    refuse_flag("log_format=xml", "text or json");
    refuse_flag("log_level=loud", "error, warn, info or debug");
    refuse_flag("sync=maybe", "full, normal or off");
    refuse_flag("default_ttr=-1", "a duration");
    refuse_flag("url=jobs.db", "scheme");
    refuse_flag("url=gopher:jobs", "no queue \"gopher:\"");
    refuse_flag("url=memory:?tocker=wheel", "no option");
    refuse_flag("directory=", "a directory");
    refuse_flag("listen=127.0.0.1:port", "invalid port");
    refuse(ARGS("-l", "", NO_FILE), "empty");
}

static void url_and_directory_exclude_each_other(void **state)
{
    (void)state;
    refuse(ARGS(NO_FILE, "--url=memory:", "-b", "/tmp"), "the command line: url and directory");
    refuse(ARGS(NO_FILE, "-b", "/tmp", "--url=memory:"), "leave one of them out");
    refuse_file("url = sqlite:/tmp/jobs.db\ndirectory = /tmp\n", "bided.conf: url and directory");
    accept_file("url = sqlite:/tmp/bide.db\ndirectory = /tmp\n");
    bi_config_free(&config);
    accept(ARGS(NO_FILE, "-b", "/tmp", "-b", "/var/tmp"));
    assert_string_equal(config.directory, "/var/tmp");
    bi_config_free(&config);
}

static void unknown_setting_suggests_the_nearest(void **state)
{
    (void)state;
    refuse_flag("max-jobsize=1", "did you mean max_job_size?");
    refuse_flag("syncs=1", "did you mean sync?");
    refuse_flag("loglevel=1", "did you mean log_level?");
    refuse_flag("lissten=1", "did you mean listen?");
    refuse_flag("frobnicate=1", "--help lists them");
    refuse_flag("a_name_that_is_far_longer_than_any_of_those_that_exist=1", "--help");
}

/* ---- the file ---- */

static void a_file_has_names_values_and_comments(void **state)
{
    (void)state;
    accept_file("# a comment\n"
                "\n"
                "  url = memory:   # where it is\n"
                "max-connections=7\n"
                "\tlog_level\t=\tdebug\t\r\n"
                "user = \"nobody\"\n"
                "auth_secret = a#b=c-0123456789\n"
                "stop_timeout = 3s");
    assert_string_equal(config.url, "memory:");
    assert_int_equal(config.limits.max_connections, 7);
    assert_int_equal(config.log_level, BIDE_LOG_DEBUG);
    assert_string_equal(config.user, "nobody");
    assert_string_equal(config.limits.auth_secret, "a#b=c-0123456789");
    assert_int_equal(config.limits.stop_timeout_ms, 3000);
    bi_config_free(&config);
}

static void error_in_the_file_is_reported_with_its_line(void **state)
{
    (void)state;
    refuse_file("\n\nmax_jobs = 1\n", "bided.conf:3: unknown setting \"max_jobs\"");
    refuse_file("sync = full\nsync = maybe\n", "bided.conf:2: sync is \"maybe\"");
    refuse_file("[server]\n", "bided.conf:1: there are no sections");
    refuse_file("listen\n", "bided.conf:1: there is no = in the line");
    refuse_file("= 5\n", "bided.conf:1: unknown setting \"\"");
    refuse_file("address = 127.0.0.1\n", "bided.conf:1: unknown setting");
    refuse_file("config = other\n", "bided.conf:1: unknown setting");
}

static void lines_and_files_have_a_limit(void **state)
{
    (void)state;
    static char text[30000];
    memset(text, ' ', 9000);
    strcpy(text + 9000, "\n");
    refuse_file(text, ":1: the line is too long");
    memset(text, '\n', 10000);
    text[10000] = 0;
    accept_file(text);
    bi_config_free(&config);
    text[10000] = '\n';
    refuse_file(text, ":10001: the file is too long");
}

static void nul_byte_in_the_file_is_rejected(void **state)
{
    (void)state;
    const char *path = scratch_write("nul.conf", "");
    FILE *file = fopen(path, "w");
    fwrite("sync = full\nsync = off\0\n", 1, 24, file);
    fclose(file);
    char flag[600];
    snprintf(flag, sizeof(flag), "--config=%s", path);
    refuse(ARGS(flag), "nul.conf:2: there is a NUL byte");
}

static void named_file_must_exist(void **state)
{
    (void)state;
    char flag[600];
    snprintf(flag, sizeof(flag), "--config=%s", scratch_path("missing.conf"));
    refuse(ARGS(flag), "No such file");
    snprintf(flag, sizeof(flag), "--config=%s", scratch);
    refuse(ARGS(flag), "cannot read");
}

static void flags_override_the_file(void **state)
{
    (void)state;
    accept(ARGS("--sync=off", "--max-job-size=5",
                file_flag("sync = normal\nmax_job_size = 6\ndefault_ttr = 7s\nurl = memory:\n"),
                "-b", "/tmp"));
    assert_int_equal(config.options.sync, BIDE_SYNC_OFF);
    assert_int_equal(config.options.max_job_size, 5);
    assert_int_equal(config.options.default_ttr_ms, 7000);
    assert_null(config.url);
    assert_string_equal(config.directory, "/tmp");
    bi_config_free(&config);
}

static void addresses_accumulate_and_flags_replace_those_of_the_file(void **state)
{
    (void)state;
    const char *text = "listen = 11300\nlisten = unix:/tmp/a.sock\n";
    accept_file(text);
    assert_int_equal(config.listen_count, 2);
    assert_string_equal(config.listen[0].host, "127.0.0.1");
    assert_string_equal(config.listen[0].port, "11300");
    assert_true(config.listen[1].is_unix);
    assert_string_equal(config.listen[1].host, "/tmp/a.sock");
    bi_config_free(&config);
    accept(ARGS(file_flag(text), "--listen=1", "--listen", "2", "--listen=3"));
    assert_int_equal(config.listen_count, 3);
    assert_string_equal(config.listen[0].port, "1");
    assert_string_equal(config.listen[2].port, "3");
    bi_config_free(&config);
}

static void addresses_have_a_limit(void **state)
{
    (void)state;
    static char text[BI_LISTEN_MAX * 20];
    size_t size = 0;
    for (int i = 0; i < BI_LISTEN_MAX; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "listen = %d\n", i);
    accept_file(text);
    bi_config_free(&config);
    snprintf(text + size, sizeof(text) - size, "listen = 99\n");
    refuse_file(text, ":65: more than 64 addresses");
}

/* ---- networks ---- */

static void networks_are_read_from_several_lines_and_flags_replace_them(void **state)
{
    (void)state;
    char text[BI_CIDR_TEXT_SIZE];
    accept_file("trust = 10.0.0.0/8, 192.168.1.7\ntrust = fd00::/8\n");
    assert_int_equal(config.limits.trust_count, 3);
    assert_string_equal(bi_address_format_cidr(&config.limits.trust[1], text), "192.168.1.7/32");
    assert_string_equal(bi_address_format_cidr(&config.limits.trust[2], text), "fd00::/8");
    bi_config_free(&config);
    accept(ARGS(file_flag("trust = 10.0.0.0/8\n"), "--trust=172.16.0.0/12"));
    assert_int_equal(config.limits.trust_count, 1);
    assert_string_equal(bi_address_format_cidr(&config.limits.trust[0], text), "172.16.0.0/12");
    bi_config_free(&config);
    refuse_file("trust = 10.0.0.0/8 and more\n", "trust has \"and\"");
}

/* ---- the secret ---- */

static void later_one_of_secret_and_secret_file_wins(void **state)
{
    (void)state;
    char text[600], path[300];
    snprintf(path, sizeof(path), "%s", scratch_write("secret", "fedcba9876543210\n"));
    snprintf(text, sizeof(text), "auth_secret = 0123456789abcdef\nsecret_file = %s\n", path);
    accept_file(text);
    assert_string_equal(config.limits.auth_secret, "fedcba9876543210");
    bi_config_free(&config);
    snprintf(text, sizeof(text), "secret_file = %s\nauth_secret = 0123456789abcdef\n", path);
    accept_file(text);
    assert_string_equal(config.limits.auth_secret, "0123456789abcdef");
    bi_config_free(&config);
    snprintf(text, sizeof(text), "secret_file = %s\n", scratch_write("secret", "two words\n"));
    refuse_file(text, "contains a space");
}

static void auth_is_for_other_machines_or_for_all(void **state)
{
    (void)state;
    accept_file("auth = always\nauth_secret = 0123456789abcdef\n");
    assert_true(config.limits.auth_always);
    bi_config_free(&config);
    accept_file("auth = remote\n");
    assert_false(config.limits.auth_always);
    bi_config_free(&config);
    refuse_file("auth = always\n", "no client could be served");
    refuse_flag("auth=sometimes", "remote or always");
}

static void secret_is_not_accepted_as_a_flag(void **state)
{
    (void)state;
    refuse(ARGS("--auth-secret=hush"), "belongs in the file");
    refuse(ARGS("--auth_secret", "hush"), "belongs in the file");
}

static void world_readable_secret_is_warned_about(void **state)
{
    (void)state;
    const char *flag = file_flag("auth_secret = 0123456789abcdef\n");
    const char *path = strchr(flag, '=') + 1;
    assert_int_equal(chmod(path, 0644), 0);
    accept(ARGS(flag));
    assert_true(was_noted(&notes, BIDE_LOG_WARN, "can be read by all users"));
    assert_int_equal(notes.count, 1);
    bi_config_free(&config);
    assert_int_equal(chmod(path, 0640), 0);
    accept(ARGS(flag));
    assert_int_equal(notes.count, 0);
    bi_config_free(&config);
}

static void file_without_a_secret_may_be_world_readable(void **state)
{
    (void)state;
    const char *flag = file_flag("sync = full\n");
    assert_int_equal(chmod(strchr(flag, '=') + 1, 0644), 0);
    accept(ARGS(flag));
    assert_int_equal(notes.count, 0);
    bi_config_free(&config);
}

static void weak_secret_is_warned_about(void **state)
{
    (void)state;
    const char *flag = file_flag("auth_secret = hush\n");
    assert_int_equal(chmod(strchr(flag, '=') + 1, 0600), 0);
    accept(ARGS(flag));
    assert_true(was_noted(&notes, BIDE_LOG_WARN, "guessed"));
    bi_config_free(&config);
}

static void secret_is_one_word_of_limited_length(void **state)
{
    (void)state;
    char text[300] = "auth_secret = ";
    refuse_file("auth_secret = two words\n", "space");
    refuse_file("auth_secret = bell\a\n", "control");
    memset(text + 14, 'x', 200);
    accept_file(text);
    assert_int_equal(strlen(config.limits.auth_secret), 200);
    bi_config_free(&config);
    memset(text + 14, 'x', 201);
    refuse_file(text, "at most 200");
    assert_null(strstr(error, "xxx"));
}

/* ---- reloading ---- */

static void reload_reports_settings_that_need_a_restart(void **state)
{
    (void)state;
    struct config old;
    accept_file("url = memory:\nlisten = 1\nlisten = 2\nlog_level = warn\nsync = full\n");
    old = config;
    accept_file("url = memory:\nlisten = 1\nlisten = 3\nlog_level = info\nmax_topics = 5\n"
                "auth_secret = 0123456789abcdef\nmax_connections = 3\n");
    notes.count = 0;
    bi_config_note_restarts(&old, &config, &notes);
    assert_int_equal(notes.count, 3);
    assert_true(was_noted(&notes, BIDE_LOG_WARN, "listen has changed"));
    assert_true(was_noted(&notes, BIDE_LOG_WARN, "max_topics has changed"));
    assert_true(was_noted(&notes, BIDE_LOG_WARN, "sync has changed"));
    notes.count = 0;
    bi_config_note_restarts(&config, &config, &notes);
    assert_int_equal(notes.count, 0);
    bi_config_free(&old);
    bi_config_free(&config);
}

static void notes_have_a_limit(void **state)
{
    (void)state;
    notes.count = 0;
    for (int i = 0; i < BI_NOTES_MAX + 5; i++)
        bi_config_add_note(&notes, BIDE_LOG_INFO, "note %d", i);
    assert_int_equal(notes.count, BI_NOTES_MAX);
    assert_string_equal(notes.list[BI_NOTES_MAX - 1].text, "note 31");
}

/* ---- the help ---- */

static void the_help_has_every_setting_and_every_letter(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    bi_help_print(file);
    fclose(file);
    for (size_t i = 0; i < BI_SETTINGS; i++) {
        const struct setting *setting = bi_setting_get(i);
        char name[80];
        snprintf(name, sizeof(name), "--%s ", setting->name);
        for (char *at = name; *at != 0; at++)
            *at = *at == '_' ? '-' : *at;
        bool shown = setting->group != NULL && (setting->traits & BI_SECRET) == 0;
        if ((strstr(text, name) != NULL) != shown)
            fail_msg("%s is %sin the help", name, shown ? "not " : "");
    }
    for (const char *letter = "lpzubfFsVvhcn"; *letter != 0; letter++) {
        char flag[] = {' ', '-', *letter, 0};
        if (strstr(text, flag) == NULL)
            fail_msg("-%c is not in the help", *letter);
    }
    assert_non_null(strstr(text, "(default: 64MiB)"));
    assert_null(strchr(text, '~'));
    free(text);
}

/* ---- pipes ---- */

static void *fill_pipe(void *arg)
{
    const int *ends = arg;
    static const char line[] = "# a comment of thirty-two bytes\n";
    size_t left = (size_t)ends[2];
    while (left > 0) {
        ssize_t put = write(ends[1], line, left < 32 ? left : 32);
        assert_true(put > 0);
        left -= (size_t)put;
    }
    close(ends[1]);
    return NULL;
}

/* Opens a pipe that has so many bytes; 0 or an errno. */
static int open_pipe_of(int size)
{
    int ends[3];
    char path[32];
    pthread_t writer;
    assert_int_equal(pipe(ends), 0);
    ends[2] = size;
    snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pthread_create(&writer, NULL, fill_pipe, ends), 0);
    FILE *file = bi_conffile_open(path, 60000, NULL);
    int number = file == NULL ? errno : 0;
    if (file != NULL)
        fclose(file);
    char rest[4096];
    while (read(ends[0], rest, sizeof(rest)) > 0)
        ;
    pthread_join(writer, NULL);
    close(ends[0]);
    return number;
}

static void a_pipe_may_have_a_megabyte(void **state)
{
    (void)state;
    assert_int_equal(open_pipe_of(1 << 20), 0);
    assert_int_equal(open_pipe_of((1 << 20) + 1), EFBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_may_have_a_megabyte),
        cmocka_unit_test(unset_options_have_their_default),
        cmocka_unit_test(every_option_of_the_queue_is_a_setting),
        cmocka_unit_test(every_setting_accepts_its_default),
        cmocka_unit_test(long_flags_have_their_value_behind_them_or_in_them),
        cmocka_unit_test(flags_of_beanstalkd_have_their_meaning),
        cmocka_unit_test(short_flags_can_be_in_one_word),
        cmocka_unit_test(of_two_flags_the_last_wins),
        cmocka_unit_test(a_job_size_beyond_the_limit_is_capped_with_a_warning_for_z_only),
        cmocka_unit_test(removed_flags_are_accepted_with_a_warning),
        cmocka_unit_test(invalid_flags_are_rejected),
        cmocka_unit_test(help_and_version_end_flag_parsing),
        cmocka_unit_test(too_many_flags_are_rejected),
        cmocka_unit_test(sizes_durations_and_numbers_are_parsed),
        cmocka_unit_test(unlimited_memory_can_be_set),
        cmocka_unit_test(invalid_values_are_rejected),
        cmocka_unit_test(url_and_directory_exclude_each_other),
        cmocka_unit_test(unknown_setting_suggests_the_nearest),
        cmocka_unit_test(a_file_has_names_values_and_comments),
        cmocka_unit_test(error_in_the_file_is_reported_with_its_line),
        cmocka_unit_test(lines_and_files_have_a_limit),
        cmocka_unit_test(nul_byte_in_the_file_is_rejected),
        cmocka_unit_test(named_file_must_exist),
        cmocka_unit_test(flags_override_the_file),
        cmocka_unit_test(addresses_accumulate_and_flags_replace_those_of_the_file),
        cmocka_unit_test(addresses_have_a_limit),
        cmocka_unit_test(networks_are_read_from_several_lines_and_flags_replace_them),
        cmocka_unit_test(later_one_of_secret_and_secret_file_wins),
        cmocka_unit_test(auth_is_for_other_machines_or_for_all),
        cmocka_unit_test(secret_is_not_accepted_as_a_flag),
        cmocka_unit_test(world_readable_secret_is_warned_about),
        cmocka_unit_test(file_without_a_secret_may_be_world_readable),
        cmocka_unit_test(weak_secret_is_warned_about),
        cmocka_unit_test(secret_is_one_word_of_limited_length),
        cmocka_unit_test(reload_reports_settings_that_need_a_restart),
        cmocka_unit_test(notes_have_a_limit),
        cmocka_unit_test(the_help_has_every_setting_and_every_letter),
    };
    return cmocka_run_group_tests_name("config", tests, scratch_make, scratch_remove);
}
