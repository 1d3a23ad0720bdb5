/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* asprintf */
#include "server/config.h"

#include "queue/queue.h"
#include "server/state_dir.h"
#include "util/conffile.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define START_TIMEOUT_MS  30000 /* wait for a file that is a pipe, at the start, */
#define RELOAD_TIMEOUT_MS 100   /* and while clients are served */

/* ---- notes ---- */

void bi_config_add_note(struct notes *notes, bide_log_level level, const char *format, ...)
{
    if (notes->count == BI_NOTES_MAX)
        return;

    va_list args;
    va_start(args, format);
    notes->list[notes->count].level = level;
    vsnprintf(notes->list[notes->count].text, BI_ERRMSG_SIZE, format, args);
    va_end(args);
    notes->count++;
}

void bi_config_log_notes(struct notes *notes, const struct bi_log *log)
{
    for (size_t i = 0; i < notes->count; i++)
        bi_log(log, notes->list[i].level, "%s", notes->list[i].text);
    notes->count = 0;
}

/* ---- sources ---- */

/* The settings of the file or of the command line. */
struct source {
    struct config *config;
    bool seen[BI_SETTINGS];
};

/* Sets a value and records its text, which bi_config_note_restarts() compares. */
static bool apply(struct source *source, size_t index, const char *text, char *error)
{
    struct config *config = source->config;
    char **given = &config->given[index], *joined = NULL;
    bool is_list = (bi_setting_get(index)->traits & BI_LIST) != 0;
    assert(index < BI_SETTINGS && text != NULL);

    /* The first value replaces the list of an earlier source; further ones accumulate. */
    if (is_list && !source->seen[index]) {
        bi_setting_clear(config, index);
        free(*given);
        *given = NULL;
    }
    source->seen[index] = true;

    if (!is_list || *given == NULL)
        joined = strdup(text);
    else if (asprintf(&joined, "%s\n%s", *given, text) < 0)
        joined = NULL;
    if (joined == NULL)
        return bi_errmsg_set(error, "out of memory");
    free(*given);
    *given = joined;

    /* A setting borrows the text, which must be the configuration's own; a list copies it. */
    return bi_setting_set(config, index, is_list ? text : joined, error);
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

static bool apply_line(void *user, const char *name, const char *value, char *error)
{
    size_t index;
    return bi_setting_find(name, strlen(name), &index, error) && apply(user, index, value, error);
}

/* Rejects a url and a directory that name different queues in the same source: one of them would be
 * ignored silently. name: the file or the command line, for the message. */
static bool check_one_queue(const struct source *source, const char *name, char *error)
{
    const struct config *config = source->config;
    char same[BI_URL_MAX], reason[BI_ERRMSG_SIZE];
    size_t url = bi_setting_index("url"), directory = bi_setting_index("directory");
    if (!source->seen[url] || !source->seen[directory])
        return true;
    if (bi_state_dir_url(same, config->given[directory], reason) &&
        strcmp(same, config->given[url]) == 0)
        return true;

    return bi_errmsg_set(error,
                         "%.200s: url and directory (-b) both say where the queue is; leave one of "
                         "them out",
                         name);
}

/* Warns of a secret that is short, or in a file that all users can read. */
static void warn_about_secret(const struct config *config, FILE *file, const char *path,
                              struct notes *notes)
{
    struct stat info;
    const char *secret = config->limits.auth_secret;
    if (secret[0] == 0)
        return;

    if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & S_IROTH) != 0)
        bi_config_add_note(
            notes, BIDE_LOG_WARN,
            "%.200s has the auth_secret in it and can be read by all users: chmod o-r", path);
    if (strlen(secret) < 16)
        bi_config_add_note(notes, BIDE_LOG_WARN,
                           "auth_secret is short enough to be guessed: "
                           "take 16 random characters or more");
}

/* Reads a single line. The message on failure does not contain the secret. */
static bool read_secret_line(FILE *file, char *secret, size_t size, char *reason)
{
    ssize_t got = bi_conffile_read_line(file, secret, size);
    if (got < 0)
        return bi_errmsg_set(reason, "%s", ferror(file) ? strerror(errno) : "the file is empty");
    if (got == 0)
        return bi_errmsg_set(reason, "the first line is empty");
    if (strlen(secret) != (size_t)got)
        return bi_errmsg_set(reason, "the file contains a NUL byte");
    if (fgetc(file) != EOF)
        return bi_errmsg_set(reason, "the file must have one line of at most %zu bytes", size - 3);
    return true;
}

#define CREDENTIALS "/run/credentials/"

static bool read_secret_file(struct config *config, const struct flags *flags, struct notes *notes,
                             char *error)
{
    char secret[sizeof(config->limits.auth_secret) + 2], reason[BI_ERRMSG_SIZE];
    const char *path = config->secret_file;
    if (path == NULL)
        return true;

    FILE *file = bi_conffile_open(path, flags->reload ? RELOAD_TIMEOUT_MS : START_TIMEOUT_MS, NULL);
    /* systemd hides the credentials of a unit that has a mount namespace from its ExecReload= command;
     * the server itself can read them. */
    if (file == NULL && flags->action == BI_ACTION_CHECK &&
        strncmp(path, CREDENTIALS, sizeof(CREDENTIALS) - 1) == 0) {
        bi_config_add_note(notes, BIDE_LOG_INFO, "secret_file %.200s is not checked: %s", path,
                           bi_conffile_strerror(errno));
        return true;
    }
    if (file == NULL)
        return bi_errmsg_set(error, "cannot read secret_file %.200s: %s", path,
                             bi_conffile_strerror(errno));

    /* auth_secret is set as if it were in the config file, with the same checks. */
    bool good = read_secret_line(file, secret, sizeof(secret), reason) &&
                bi_setting_set(config, bi_setting_index("auth_secret"), secret, reason);
    explicit_bzero(secret, sizeof(secret));

    if (good)
        warn_about_secret(config, file, path, notes);
    else
        bi_errmsg_set(error, "secret_file %.200s: %.200s", path, reason);
    fclose(file);
    return good;
}

static bool apply_file(struct config *config, const struct flags *flags, struct notes *notes,
                       char *error)
{
    const char *path = flags->file != NULL ? flags->file : BI_CONFIG_FILE;
    FILE *file = bi_conffile_open(path, flags->reload ? RELOAD_TIMEOUT_MS : START_TIMEOUT_MS, NULL);

    if (file == NULL) {
        /* Only the default file may be missing. */
        if (flags->file == NULL && errno == ENOENT)
            return true;
        return bi_errmsg_set(error, "cannot read %.200s: %s", path, bi_conffile_strerror(errno));
    }

    struct source source = {.config = config};
    bool good = bi_conffile_parse(file, path, apply_line, &source, error) &&
                check_one_queue(&source, path, error);
    if (good)
        warn_about_secret(config, file, path, notes);
    fclose(file);
    return good;
}

/* ---- configuration ---- */

static bool apply_flags(struct config *config, const struct flags *flags, char *error)
{
    struct source source = {.config = config};

    for (size_t i = 0; i < flags->count; i++)
        if (!apply(&source, flags->list[i].setting, flags->list[i].value, error))
            return false;
    return check_one_queue(&source, "the command line", error);
}

const char *bi_config_queue_error(void)
{
    const char *text = bide_last_error();
    return strncmp(text, "open: ", 6) == 0 ? text + 6 : text;
}

/* Checks what the open of the queue would reject, so that --check-config and a reload report it. */
static bool check_combination(const struct config *config, char *error)
{
    struct bi_url url;
    const char *reason;
    bide_options resolved;

    if (!bi_url_parse(&url, config->url != NULL ? config->url : "memory:", &reason))
        return bi_errmsg_set(error, "the url %s", reason);
    if (bi_options_resolve(&config->options, &url, &resolved) != BIDE_OK)
        return bi_errmsg_set(error, "%s", bi_config_queue_error());
    if (config->limits.auth_always && config->limits.auth_secret[0] == 0)
        return bi_errmsg_set(error,
                             "auth is always, but there is no auth_secret or secret_file: no "
                             "client could be served");
#ifndef BIDE_WITH_SQLITE
    if (config->url == NULL)
        return bi_errmsg_set(error,
                             "this bided was built without SQLite (libsqlite3-dev) and can keep no "
                             "queue in a file; say --url memory:");
#endif
    return true;
}

/* Warns of trust without an effect, or for all clients. */
static void warn_about_trust(const struct config *config, struct notes *notes)
{
    const struct server_limits *limits = &config->limits;
    if (limits->auth_always && limits->trust_count > 0)
        bi_config_add_note(notes, BIDE_LOG_WARN, "trust has no effect: auth is always");

    for (size_t i = 0; i < limits->trust_count; i++) {
        char text[BI_CIDR_TEXT_SIZE];
        const char *bits = strchr(bi_address_format_cidr(&limits->trust[i], text), '/');
        if (strcmp(bits, "/0") == 0)
            bi_config_add_note(
                notes, BIDE_LOG_WARN,
                "trust has %s: every client that can connect is served without a secret", text);
    }
}

bool bi_config_load(struct config *config, const struct flags *flags, struct notes *notes,
                    char *error)
{
    if (apply_defaults(config, error) && apply_file(config, flags, notes, error) &&
        apply_flags(config, flags, error) && read_secret_file(config, flags, notes, error) &&
        check_combination(config, error)) {
        warn_about_trust(config, notes);
        return true;
    }

    bi_config_free(config);
    return false;
}

void bi_config_free(struct config *config)
{
    for (size_t i = 0; i < BI_SETTINGS; i++) {
        free(config->given[i]);
        config->given[i] = NULL;
    }
}

void bi_config_note_restarts(const struct config *old, const struct config *new,
                             struct notes *notes)
{
    for (size_t i = 0; i < BI_SETTINGS; i++) {
        const char *before = old->given[i], *now = new->given[i];
        bool same = before == NULL || now == NULL ? before == now : strcmp(before, now) == 0;
        if (!same && (bi_setting_get(i)->traits & BI_RELOAD) == 0)
            bi_config_add_note(notes, BIDE_LOG_WARN, "%s has changed; that takes a restart",
                               bi_setting_get(i)->name);
    }
}
