/* SPDX-License-Identifier: MIT */
/*
 * setting - the table of settings: name, help, default and the function that parses the value.
 *
 * After a failed set the configuration must be freed: a list may have part of its values.
 */
#include "server/config.h"

#include "backend/backend.h"
#include "queue/queue.h"
#include "util/message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static bool reject_value(const struct setting *setting, const char *text, const char *kind,
                         char *error)
{
    return bi_errmsg_set(error, "%s is \"%.100s\"; it takes %s", setting->name, text, kind);
}

static void store(struct config *config, const struct setting *setting, uint64_t value)
{
    void *member = (char *)config + setting->offset;
    uint32_t narrow = (uint32_t)value;
    assert(setting->width == sizeof(bool) || setting->width == sizeof(narrow) ||
           setting->width == sizeof(value));

    /* memcpy: enum types differ, and a pointer to uint32_t must not alias them. */
    if (setting->width == sizeof(bool))
        *(bool *)member = value != 0;
    else if (setting->width == sizeof(narrow))
        memcpy(member, &narrow, sizeof(narrow));
    else
        memcpy(member, &value, sizeof(value));
}

static bool set_number(struct config *config, const struct setting *setting, const char *text,
                       char *error)
{
    const char *name = setting->name;
    uint64_t value;

    if (!bi_options_parse(setting->unit, text, &value))
        return reject_value(setting, text, bi_options_type_text(setting->unit), error);
    if (value > setting->max)
        return bi_errmsg_set(error, "%s is %s; at most %llu is allowed", name, text,
                             (unsigned long long)setting->max);
    if (value < setting->min)
        return bi_errmsg_set(error, "%s is %s; at least %llu is needed", name, text,
                             (unsigned long long)setting->min);
    store(config, setting, value);
    return true;
}

static bool set_word(struct config *config, const struct setting *setting, const char *text,
                     char *error)
{
    size_t size = strlen(text);
    uint64_t value = 0;

    for (const char *word = setting->words; *word != 0; value++) {
        size_t word_size = strcspn(word, "|");
        if (word_size == size && memcmp(word, text, size) == 0) {
            store(config, setting, value);
            return true;
        }
        word += word_size + (word[word_size] == '|');
    }
    return reject_value(setting, text, setting->takes, error);
}

static bool set_text(struct config *config, const struct setting *setting, const char *text,
                     char *error)
{
    (void)error;
    memcpy((char *)config + setting->offset, &text, sizeof(text));
    return true;
}

static bool set_queue_option(struct config *config, const struct setting *setting, const char *text,
                             char *error)
{
    char reason[BIDE_ERROR_SIZE];

    return bi_options_set(&config->options, setting->name, text, reason) == BIDE_OK ||
           bi_errmsg_set(error, "%s", reason);
}

/* 0 means no limit, so a flag tells whether the default, a share of the memory, applies. */
static bool set_max_memory(struct config *config, const struct setting *setting, const char *text,
                           char *error)
{
    config->memory_given = strcmp(text, "auto") != 0;
    return !config->memory_given || set_queue_option(config, setting, text, error);
}

#ifdef BIDE_WITH_SQLITE
#define SUPPORTED_URLS "sqlite: and memory:"
#else
#define SUPPORTED_URLS "memory:"
#endif

static bool set_url(struct config *config, const struct setting *setting, const char *text,
                    char *error)
{
    (void)setting;
    struct bi_url url;
    const char *reason;

    if (!bi_url_parse(&url, text, &reason))
        return bi_errmsg_set(error, "the url %s", reason);
    if (strcmp(url.scheme, "beanstalk") == 0)
        return bi_errmsg_set(error,
                             "a bided keeps its queue itself; its url takes " SUPPORTED_URLS);
    if (bi_queue_find_backend(url.scheme, &reason) == NULL)
        return bi_errmsg_set(
            error, "there is no queue \"%.20s:\" here; this bided has " SUPPORTED_URLS, url.scheme);

    /* The later of url and directory wins, so that a flag overrides either of the file. */
    config->url = text;
    config->directory = NULL;
    return true;
}

static bool set_directory(struct config *config, const struct setting *setting, const char *text,
                          char *error)
{
    if (text[0] == 0)
        return reject_value(setting, text, "the name of a directory", error);
    config->directory = text;
    config->url = NULL;
    return true;
}

static bool set_listen(struct config *config, const struct setting *setting, const char *text,
                       char *error)
{
    (void)setting;
    struct listen_address address;
    char reason[BI_ERRMSG_SIZE];

    if (!bi_address_parse_listen(&address, text, reason))
        return bi_errmsg_set(error, "cannot listen on \"%.100s\": %s", text, reason);
    if (config->listen_count == BI_LISTEN_MAX)
        return bi_errmsg_set(error, "more than %d addresses to listen on", BI_LISTEN_MAX);
    config->listen[config->listen_count++] = address;
    return true;
}

static bool set_address(struct config *config, const struct setting *setting, const char *text,
                        char *error)
{
    if (text[0] == 0)
        return bi_errmsg_set(error, "cannot listen: the address is empty");
    return set_text(config, setting, text, error);
}

static bool set_port(struct config *config, const struct setting *setting, const char *text,
                     char *error)
{
    if (!bi_address_is_port(text))
        return bi_errmsg_set(error, "invalid port: \"%.100s\" (0 to 65535)", text);
    return set_text(config, setting, text, error);
}

static bool set_unix_mode(struct config *config, const struct setting *setting, const char *text,
                          char *error)
{
    char *end;
    unsigned long mode = strtoul(text, &end, 8);

    /* The first character is tested because strtoul() accepts spaces and a sign. */
    if (text[0] < '0' || text[0] > '7' || *end != 0 || mode > 0777)
        return reject_value(setting, text, "an octal number from 0 to 0777", error);
    config->unix_mode = (uint32_t)mode;
    return true;
}

/* Parses networks separated by commas or spaces. */
static bool set_trust(struct config *config, const struct setting *setting, const char *text,
                      char *error)
{
    static const char separators[] = ", \t";
    struct server_limits *limits = &config->limits;
    char reason[BI_ERRMSG_SIZE];
    (void)setting;

    for (text += strspn(text, separators); *text != 0; text += strspn(text, separators)) {
        size_t size = strcspn(text, separators);
        if (limits->trust_count == BI_TRUST_MAX)
            return bi_errmsg_set(error, "trust has more than %d networks", BI_TRUST_MAX);
        if (!bi_address_parse_cidr(&limits->trust[limits->trust_count], text, size, reason))
            return bi_errmsg_set(error, "trust has \"%.*s\": %s", size < 100 ? (int)size : 100,
                                 text, reason);
        limits->trust_count++; /* only after the parse: a partial entry is never in the list */
        text += size;
    }
    return true;
}

/* The later of secret_file and auth_secret wins. */
static bool set_secret_file(struct config *config, const struct setting *setting, const char *text,
                            char *error)
{
    if (text[0] != 0)
        config->limits.auth_secret[0] = 0;
    return set_text(config, setting, text[0] == 0 ? NULL : text, error);
}

/* The secret is a word of a protocol line: no spaces, no control characters. */
static bool set_auth_secret(struct config *config, const struct setting *setting, const char *text,
                            char *error)
{
    (void)setting;
    size_t size = strlen(text);

    if (size >= sizeof(config->limits.auth_secret))
        return bi_errmsg_set(error, "auth_secret has %zu bytes; at most %zu are allowed", size,
                             sizeof(config->limits.auth_secret) - 1);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return bi_errmsg_set(error, "auth_secret contains a space or a control character");

    memcpy(config->limits.auth_secret, text, size + 1);
    config->secret_file = NULL;
    return true;
}

/* ---- table ---- */

#define GROUP_STORAGE "Queue"
#define GROUP_NETWORK "Network and access"
#define GROUP_LIMITS  "Limits"
#define GROUP_JOBS    "Jobs"
#define GROUP_DISK    "Storage (sqlite:)"
#define GROUP_TIMERS  "Timers"
#define GROUP_PROCESS "Process"

/* A setting of the queue. Its default is in the table of queue/options.c. */
#define QUEUE_OPTION(name, group, kind, help)                     \
    {                                                             \
        name, group, kind, NULL, help, 0, .set = set_queue_option \
    }

/* The columns of a row whose value is stored in a member of struct config. */
#define MEMBER(set_, member)                                  \
    .set = (set_), .offset = offsetof(struct config, member), \
    .width = sizeof(((struct config *)0)->member)
#define COUNT(member, min_, max_) \
    MEMBER(set_number, limits.member), .unit = BI_OPTION_COUNT, .min = (min_), .max = (max_)
#define BYTES(member) MEMBER(set_number, limits.member), .unit = BI_OPTION_BYTES, .max = INT64_MAX
#define DURATION(member) \
    MEMBER(set_number, limits.member), .unit = BI_OPTION_DURATION, .max = BIDE_TIME_MAX_MS
#define WORD(member, words_, takes_) MEMBER(set_word, member), .words = (words_), .takes = (takes_)

static const struct setting table[] = {
    {"url", GROUP_STORAGE, "URL", NULL,
     "sqlite:PATH or memory: (default: bide.db in the state directory)", 0, .set = set_url},
    {"directory", GROUP_STORAGE, "DIR", NULL, "keep bide.db in DIR, which must exist", 0,
     .set = set_directory},

    {"listen", GROUP_NETWORK, "ADDRESS", NULL,
     "ADDR:PORT, [IPV6]:PORT, PORT or unix:PATH; repeatable (default: 127.0.0.1:11300)", BI_LIST,
     .set = set_listen},
    {"address", NULL, "ADDR", NULL, "", 0, MEMBER(set_address, address)},
    {"port", NULL, "PORT", NULL, "", 0, MEMBER(set_port, port)},
    {"unix_mode", GROUP_NETWORK, "MODE", "0660", "permissions of unix sockets", 0,
     .set = set_unix_mode},
    {"trust", GROUP_NETWORK, "NETWORK", NULL,
     "network, such as 10.0.0.0/8 or fd00::/8, whose clients need no secret; repeatable",
     BI_RELOAD | BI_LIST, .set = set_trust},
    {"auth", GROUP_NETWORK, "remote|always", "remote",
     "which clients need the secret: those on other machines, or all", BI_RELOAD,
     WORD(limits.auth_always, "remote|always", "remote or always")},
    {"auth_secret", GROUP_NETWORK, "SECRET", "",
     "secret of clients on other machines; without it only networks in trust are served; config "
     "file only",
     BI_RELOAD | BI_SECRET, .set = set_auth_secret},
    {"secret_file", GROUP_NETWORK, "FILE", "", "file that holds the auth_secret as its only line",
     BI_RELOAD, MEMBER(set_secret_file, secret_file)},

    {"max_connections", GROUP_LIMITS, "N", "10000", "maximum number of connections", BI_RELOAD,
     COUNT(max_connections, 1, 1000000)},
    {"max_connections_per_address", GROUP_LIMITS, "N", "2000",
     "maximum number of connections from one remote address; 0: no limit", BI_RELOAD,
     COUNT(max_connections_per_address, 0, 1000000)},
    {"max_waiters_per_connection", GROUP_LIMITS, "N", "20000",
     "maximum number of waiting calls of one connection", BI_RELOAD,
     COUNT(max_waiters_per_connection, 1, UINT32_MAX)},
    {"max_tubes_per_connection", GROUP_LIMITS, "N", "5000",
     "maximum number of tubes that one connection watches, up to 5000", BI_RELOAD,
     COUNT(max_topics_per_connection, 1, BIDE_RESERVE_TOPICS)},
    {"max_feeds_per_connection", GROUP_LIMITS, "N", "16",
     "maximum number of event streams of one connection, up to 100", BI_RELOAD,
     COUNT(max_feeds_per_connection, 1, BIDE_SUBSCRIPTIONS_MAX)},
    {"idle_timeout", GROUP_LIMITS, "TIME", "0",
     "close connections that are idle for this long; 0: never", BI_RELOAD,
     DURATION(idle_timeout_ms)},
    {"command_timeout", GROUP_LIMITS, "TIME", "60s",
     "close connections that stall in the middle of a command for this long; 0: never", BI_RELOAD,
     DURATION(command_timeout_ms)},
    {"stop_timeout", GROUP_LIMITS, "TIME", "10s",
     "how long a stop waits for slow clients, then for the disk", BI_RELOAD,
     DURATION(stop_timeout_ms)},
    {"max_client_bytes", GROUP_LIMITS, "SIZE", "256MiB",
     "maximum memory for the buffers of all connections", BI_RELOAD, BYTES(max_client_bytes)},
    {"max_memory", GROUP_LIMITS, "SIZE", "auto",
     "maximum memory for jobs and topics; auto: 80 % of the machine or control group; 0: no limit",
     0, .set = set_max_memory},
    QUEUE_OPTION("max_topics", GROUP_LIMITS, "N", "maximum number of topics (tubes)"),
    QUEUE_OPTION("max_waiters", GROUP_LIMITS, "N", "maximum number of waiting calls"),
    QUEUE_OPTION("max_jobs_per_topic", GROUP_LIMITS, "N",
                 "maximum number of jobs in a topic; 0: no limit"),
    QUEUE_OPTION("max_done_per_topic", GROUP_LIMITS, "N",
                 "maximum number of results kept in a topic; the oldest are dropped"),
    QUEUE_OPTION("max_pending_ops", GROUP_LIMITS, "N",
                 "maximum number of operations that wait for a commit"),
    QUEUE_OPTION("max_pending_bytes", GROUP_LIMITS, "SIZE",
                 "maximum size of the bodies of these operations"),

    QUEUE_OPTION("max_job_size", GROUP_JOBS, "SIZE", "maximum size of a body, up to 1GiB"),
    QUEUE_OPTION("max_result_size", GROUP_JOBS, "SIZE", "maximum size of a result"),
    QUEUE_OPTION("max_error_size", GROUP_JOBS, "SIZE",
                 "maximum size of an error text; longer ones are cut"),
    QUEUE_OPTION("default_ttr", GROUP_JOBS, "TIME", "time to run of jobs that are put without one"),
    QUEUE_OPTION("max_touches", GROUP_JOBS, "N",
                 "maximum number of touches of a lease; 0: no limit"),
    QUEUE_OPTION("max_touch_total", GROUP_JOBS, "TIME",
                 "maximum total time of a touched lease; 0: no limit"),
    QUEUE_OPTION("min_touch_interval", GROUP_JOBS, "TIME", "minimum time between two touches"),
    QUEUE_OPTION("topic_cleanup", GROUP_JOBS, "on|off",
                 "remove topics that have no jobs and no clients"),

    {"schedules", GROUP_JOBS, "on|off", "on", "put the jobs of schedules", 0,
     WORD(schedules, "off|on", "on or off")},

    QUEUE_OPTION(
        "sync", GROUP_DISK, "full|normal|off",
        "durability of acknowledged changes: full survives a power failure, normal a crash of "
        "bided, off may lose all jobs in a power failure"),
    QUEUE_OPTION("batch_jobs", GROUP_DISK, "N", "maximum number of jobs in a commit"),
    QUEUE_OPTION("batch_bytes", GROUP_DISK, "SIZE", "maximum size of a commit"),
    QUEUE_OPTION("cache_bytes", GROUP_DISK, "SIZE", "memory for recent bodies"),

    QUEUE_OPTION("ticker", GROUP_TIMERS, "dynamic|wheel",
                 "timer: sleep until the next deadline, or a timer wheel"),
    QUEUE_OPTION("ticker_min", GROUP_TIMERS, "TIME", "dynamic: the shortest sleep"),
    QUEUE_OPTION("ticker_max", GROUP_TIMERS, "TIME", "dynamic: the longest sleep; 0: no limit"),
    QUEUE_OPTION("wheel_tick", GROUP_TIMERS, "TIME", "wheel: duration of a slot"),
    QUEUE_OPTION("wheel_slots", GROUP_TIMERS, "N", "wheel: number of slots"),
    QUEUE_OPTION("seed", GROUP_TIMERS, "N", "random seed of the retry jitter; 0: random"),

    {"user", GROUP_PROCESS, "USER", "", "switch to this user after the sockets are open", 0,
     MEMBER(set_text, user)},
    {"log_format", GROUP_PROCESS, "text|json", "text", "format of log lines", BI_RELOAD,
     WORD(log_format, "text|json", "text or json")},
    {"log_level", GROUP_PROCESS, "LEVEL", "info", "error, warn, info or debug", BI_RELOAD,
     WORD(log_level, "error|warn|info|debug", "error, warn, info or debug")},
};

_Static_assert(sizeof(table) / sizeof(table[0]) == BI_SETTINGS, "config.h counts the settings");

const struct setting *bi_setting_get(size_t index)
{
    return index < BI_SETTINGS ? &table[index] : NULL;
}

/* ---- names ---- */

bool bi_setting_name_equals(const char *name, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bool separators = (name[i] == '-' || name[i] == '_') && (text[i] == '-' || text[i] == '_');
        if (name[i] == 0 || (name[i] != text[i] && !separators))
            return false;
    }
    return name[size] == 0;
}

size_t bi_setting_index(const char *name)
{
    size_t i = 0;
    while (i < BI_SETTINGS && strcmp(table[i].name, name) != 0)
        i++;
    assert(i < BI_SETTINGS);
    return i;
}

bool bi_setting_find(const char *name, size_t size, size_t *index, char *error)
{
    struct suggestion suggestion = BI_SUGGEST_INIT;
    int shown = size < 60 ? (int)size : 60;

    for (size_t i = 0; i < BI_SETTINGS; i++) {
        /* Without a group, a setting has only the short flag of beanstalkd. */
        if (table[i].group == NULL)
            continue;
        if (bi_setting_name_equals(table[i].name, name, size)) {
            *index = i;
            return true;
        }
        bi_suggest_consider(&suggestion, table[i].name, name, size);
    }

    if (suggestion.best == NULL)
        return bi_errmsg_set(error, "unknown setting \"%.*s\"; bided --help lists them", shown,
                             name);
    return bi_errmsg_set(error, "unknown setting \"%.*s\"; did you mean %s?", shown, name,
                         suggestion.best);
}

void bi_setting_clear(struct config *config, size_t index)
{
    assert(index < BI_SETTINGS && (table[index].traits & BI_LIST) != 0);
    assert(table[index].set == set_trust || table[index].set == set_listen);

    if (table[index].set == set_trust)
        config->limits.trust_count = 0;
    else
        config->listen_count = 0;
}

bool bi_setting_set(struct config *config, size_t index, const char *text, char *error)
{
    assert(index < BI_SETTINGS);
    return table[index].set(config, &table[index], text, error);
}
