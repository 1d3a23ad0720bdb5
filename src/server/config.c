/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* asprintf */
#include "server/config.h"

#include "queue/queue.h"
#include "server/place.h"
#include "util/settings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define START_MS  30000 /* that a file which is a pipe is waited for at the start, */
#define RELOAD_MS 100   /* and while clients are served */

/* ---- sentences ---- */

void bi_notes_add(struct notes *notes, bide_log_level level, const char *format, ...)
{
    if (notes->count == BI_NOTES_MAX)
        return;
    va_list args;
    va_start(args, format);
    notes->list[notes->count].level = level;
    vsnprintf(notes->list[notes->count].text, BI_SENTENCE_SIZE, format, args);
    va_end(args);
    notes->count++;
}

void bi_notes_tell(struct notes *notes, const struct bi_log *log)
{
    for (size_t i = 0; i < notes->count; i++)
        bi_log(log, notes->list[i].level, "%s", notes->list[i].text);
    notes->count = 0;
}

/* ---- setting ---- */

static bool is(size_t index, unsigned trait)
{
    return (bi_setting_get(index)->traits & trait) != 0;
}

/* What is said of a list is all of it, in one text, so that two configurations can be compared. */
static bool remember(char **said, const char *text, bool more)
{
    char *joined = NULL;
    if (!more || *said == NULL)
        joined = strdup(text);
    else if (asprintf(&joined, "%s\n%s", *said, text) < 0)
        joined = NULL;
    if (joined == NULL)
        return false;
    free(*said);
    *said = joined;
    return true;
}

static void forget_list(struct config *config, size_t index)
{
    if (!is(index, BI_LIST))
        return;
    bi_setting_clear(config, index);
    free(config->said[index]);
    config->said[index] = NULL;
}

static bool apply(struct config *config, size_t index, const char *text, char *error)
{
    if (!remember(&config->said[index], text, is(index, BI_LIST)))
        return bi_refuse(error, "out of memory");
    const char *own = is(index, BI_LIST) ? text : config->said[index];
    return bi_setting_set(config, index, own, error);
}

static bool apply_defaults(struct config *config, char *error)
{
    static const bide_options init = BIDE_OPTIONS_INIT;
    *config = (struct config){.options = init};
    for (size_t i = 0; i < BI_SETTINGS; i++) {
        const char *fallback = bi_setting_get(i)->fallback;
        if (fallback != NULL && !bi_setting_set(config, i, fallback, error))
            return false;
    }
    return true;
}

/* ---- the file ---- */

struct reading {
    struct config *config;
    bool seen[BI_SETTINGS]; /* which lists have begun in this file */
};

static bool apply_line(void *user, const char *name, const char *value, char *error)
{
    struct reading *reading = user;
    size_t index;
    if (!bi_setting_find(name, strlen(name), &index, error))
        return false;
    if (!reading->seen[index])
        forget_list(reading->config, index);
    reading->seen[index] = true;
    return apply(reading->config, index, value, error);
}

/* Where url and directory are both said, and are not the same queue, one of them would silently be
 * left out. place: the file or the command line, for the sentence. */
static bool check_one_queue(const struct config *config, const bool *seen, const char *place,
                            char *error)
{
    char same[BI_URL_MAX], reason[BI_SENTENCE_SIZE];
    size_t url = bi_setting_index("url"), directory = bi_setting_index("directory");
    if (!seen[url] || !seen[directory])
        return true;
    if (bi_place_url(same, config->said[directory], reason) && strcmp(same, config->said[url]) == 0)
        return true;
    return bi_refuse(error,
                     "%.200s: url and directory (-b) both say where the queue is; leave one of "
                     "them out",
                     place);
}

/* The file that has the secret in it. */
static void judge_secret(const struct config *config, FILE *file, const char *path,
                         struct notes *notes)
{
    struct stat info;
    const char *secret = config->limits.auth_secret;
    if (secret[0] == 0)
        return;
    if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & S_IROTH) != 0)
        bi_notes_add(notes, BIDE_LOG_WARN,
                     "%.200s has the auth_secret in it and can be read by everybody: chmod o-r",
                     path);
    if (strlen(secret) < 16)
        bi_notes_add(notes, BIDE_LOG_WARN,
                     "auth_secret is short enough to be guessed: "
                     "take 16 random characters or more");
}

/* One line; what is wrong with it is told without it. */
static bool read_secret_line(FILE *file, char *secret, size_t size, char *reason)
{
    ssize_t got = bi_settings_line(file, secret, size);
    if (got < 0)
        return bi_refuse(reason, "%s", ferror(file) ? strerror(errno) : "it is empty");
    if (got == 0)
        return bi_refuse(reason, "its first line is empty");
    if (strlen(secret) != (size_t)got)
        return bi_refuse(reason, "there is a NUL byte in it; it must be text");
    if (fgetc(file) != EOF)
        return bi_refuse(reason, "it has more than one line of at most %zu bytes", size - 3);
    return true;
}

static bool read_secret_file(struct config *config, int patience_ms, struct notes *notes,
                             char *error)
{
    char secret[sizeof(config->limits.auth_secret) + 2], reason[BI_SENTENCE_SIZE];
    const char *path = config->secret_file;
    if (path == NULL)
        return true;
    FILE *file = bi_settings_open(path, patience_ms, NULL);
    if (file == NULL)
        return bi_refuse(error, "cannot read the secret_file %.200s: %s", path,
                         bi_settings_why(errno));
    bool good = read_secret_line(file, secret, sizeof(secret), reason) &&
                bi_setting_set(config, bi_setting_index("auth_secret"), secret, reason);
    explicit_bzero(secret, sizeof(secret));
    if (good)
        judge_secret(config, file, path, notes);
    else
        bi_refuse(error, "secret_file %.200s: %.200s", path, reason);
    fclose(file);
    return good;
}

/* For a file that is a pipe. */
static int patience_of(const struct flags *flags)
{
    return flags->again ? RELOAD_MS : START_MS;
}

static bool apply_file(struct config *config, const struct flags *flags, struct notes *notes,
                       char *error)
{
    const char *path = flags->file != NULL ? flags->file : BI_CONFIG_FILE;
    FILE *file = bi_settings_open(path, patience_of(flags), NULL);
    if (file == NULL) {
        if (flags->file == NULL && errno == ENOENT)
            return true;
        return bi_refuse(error, "cannot read %.200s: %s", path, bi_settings_why(errno));
    }
    struct reading reading = {.config = config};
    bool good = bi_settings_read(file, path, apply_line, &reading, error) &&
                check_one_queue(config, reading.seen, path, error);
    if (good)
        judge_secret(config, file, path, notes);
    fclose(file);
    return good;
}

/* ---- all together ---- */

static bool apply_flags(struct config *config, const struct flags *flags, char *error)
{
    bool seen[BI_SETTINGS] = {false};
    for (size_t i = 0; i < flags->count; i++) {
        size_t index = flags->list[i].setting;
        if (!seen[index])
            forget_list(config, index);
        seen[index] = true;
        if (!apply(config, index, flags->list[i].value, error))
            return false;
    }
    return check_one_queue(config, seen, "the command line", error);
}

const char *bi_config_reason(void)
{
    const char *text = bide_last_error();
    return strncmp(text, "open: ", 6) == 0 ? text + 6 : text;
}

/* What a queue would say when it is opened. */
static bool check_together(const struct config *config, char *error)
{
    struct bi_url url;
    const char *reason;
    bide_options resolved;
    if (!bi_url_parse(&url, config->url != NULL ? config->url : "memory:", &reason))
        return bi_refuse(error, "the url %s", reason);
    if (bi_options_resolve(&config->options, &url, &resolved) != BIDE_OK)
        return bi_refuse(error, "%s", bi_config_reason());
    if (config->limits.auth_always && config->limits.auth_secret[0] == 0)
        return bi_refuse(error, "auth is always, but there is no auth_secret or secret_file: no "
                                "client could be served");
#ifndef BIDE_WITH_SQLITE
    if (config->url == NULL)
        return bi_refuse(error,
                         "this bided was built without SQLite (libsqlite3-dev) and can keep no "
                         "queue in a file; say --url memory:");
#endif
    return true;
}

/* What is open to more than was perhaps meant. */
static void judge_trust(const struct config *config, struct notes *notes)
{
    const struct server_limits *limits = &config->limits;
    if (limits->auth_always && limits->trust_count > 0)
        bi_notes_add(notes, BIDE_LOG_WARN, "trust has no effect: auth is always");
    for (size_t i = 0; i < limits->trust_count; i++) {
        char text[BI_NETWORK_TEXT];
        const char *bits = strchr(bi_network_show(&limits->trust[i], text), '/');
        if (strcmp(bits, "/0") == 0)
            bi_notes_add(notes, BIDE_LOG_WARN,
                         "trust has %s: every client that can connect is served without a secret",
                         text);
    }
}

bool bi_config_load(struct config *config, const struct flags *flags, struct notes *notes,
                    char *error)
{
    if (apply_defaults(config, error) && apply_file(config, flags, notes, error) &&
        apply_flags(config, flags, error) &&
        read_secret_file(config, patience_of(flags), notes, error) &&
        check_together(config, error)) {
        judge_trust(config, notes);
        return true;
    }
    bi_config_free(config);
    return false;
}

void bi_config_free(struct config *config)
{
    for (size_t i = 0; i < BI_SETTINGS; i++) {
        forget_list(config, i);
        free(config->said[i]);
        config->said[i] = NULL;
    }
}

void bi_config_compare(const struct config *old, const struct config *new, struct notes *notes)
{
    for (size_t i = 0; i < BI_SETTINGS; i++) {
        const char *before = old->said[i], *now = new->said[i];
        bool same = before == NULL || now == NULL ? before == now : strcmp(before, now) == 0;
        if (!same && !is(i, BI_RELOAD))
            bi_notes_add(notes, BIDE_LOG_WARN, "%s has changed; that takes a restart",
                         bi_setting_get(i)->name);
    }
}
