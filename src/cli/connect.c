/* SPDX-License-Identifier: MIT */
#include "cli/connect.h"

#include "cli/verb.h"
#include "remote/remote_socket.h"
#include "util/clock.h"
#include "util/conffile.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SYSTEM_CONFIG      "/etc/bide/bide.conf"
#define LOCAL_NAME         "127.0.0.1:11300"
#define LOCAL_PORT         11300
#define PEER_TRUSTED       "?peer=trusted"
#define SYSTEM_RUNTIME_DIR "/run/bide"
#define SYSTEM_WAIT_US     3000000                  /* for the system server to answer again */
#define SYSTEM_POLL_NS     100000000L               /* between two attempts */
#define CONFIG_TIMEOUT_MS  2000                     /* for a config file that is a pipe */
#define FULL_URL_MAX       ((size_t)2 * BI_URL_MAX) /* a URL that is too long is not cut to a valid one */

/* Settings of the config file. */
static char config_url[BI_URL_MAX];
static char config_secret_file[1200];

/* Where the secret file of the last URL came from, for error messages; NULL: the URL itself. */
static const char *secret_source;

/* ---- the config file ---- */

static bool set_url(struct cli *cli, const char *value, char *error)
{
    (void)cli;
    if (strlen(value) >= sizeof(config_url))
        return bi_errmsg_set(error, "the URL is too long");
    memcpy(config_url, value, strlen(value) + 1);
    return true;
}

static bool set_secret_file(struct cli *cli, const char *value, char *error)
{
    (void)cli;
    if (value[0] != '/' || strlen(value) >= sizeof(config_secret_file))
        return bi_errmsg_set(error, "secret_file is the full path of a file, not \"%.60s\"", value);
    memcpy(config_secret_file, value, strlen(value) + 1);
    return true;
}

static bool set_color(struct cli *cli, const char *value, char *error)
{
    if (cli->color != BI_COLOR_AUTO || strcmp(value, "auto") == 0)
        return true;
    if (strcmp(value, "always") != 0 && strcmp(value, "never") != 0)
        return bi_errmsg_set(error, "color is auto, always or never, not \"%.60s\"", value);
    cli->color = strcmp(value, "always") == 0 ? BI_COLOR_ALWAYS : BI_COLOR_NEVER;
    return true;
}

static const struct {
    const char *name;
    bool (*set)(struct cli *cli, const char *value, char *error);
} settings[] = {
    {"url", set_url},
    {"secret_file", set_secret_file},
    {"color", set_color},
};

static bool apply_setting(void *user, const char *name, const char *value, char *error)
{
    struct suggestion suggestion = BI_SUGGEST_INIT;

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (strcmp(settings[i].name, name) == 0)
            return settings[i].set(user, value, error);
        bi_suggest_consider(&suggestion, settings[i].name, name, strlen(name));
    }
    if (suggestion.best != NULL)
        return bi_errmsg_set(error, "unknown setting \"%.60s\"; did you mean %s?", name,
                             suggestion.best);
    return bi_errmsg_set(
        error, "unknown setting \"%.60s\"; the settings are url, secret_file and color", name);
}

/* Rejects a config file that another user could have written: it could name that user's server. */
static bool check_config_owner(const struct stat *info, const char *path, char *error)
{
    bool writable = (info->st_mode & S_IWOTH) != 0 && !S_ISCHR(info->st_mode); /* /dev/null */
    bool good = bi_user_server_trusts_uid(info->st_uid) && !writable;

    return good ||
           bi_errmsg_set(
               error,
               "refusing to read %.200s: it belongs to another user, or everyone can write to it; "
               "set HOME or XDG_CONFIG_HOME, or chown and chmod the file",
               path);
}

/* *exists: whether there is such a file. */
static bool read_config(struct cli *cli, const char *path, bool *exists, char *error)
{
    struct stat info;
    FILE *file = bi_conffile_open(path, CONFIG_TIMEOUT_MS, &info);

    *exists = file != NULL || (errno != ENOENT && errno != ENOTDIR);
    if (file == NULL)
        return !*exists ||
               bi_errmsg_set(error, "cannot read %.200s: %s", path, bi_conffile_strerror(errno));
    bool good = check_config_owner(&info, path, error) &&
                bi_conffile_parse(file, path, apply_setting, cli, error);
    fclose(file);
    return good;
}

int bi_connect_load_config(struct cli *cli)
{
    char path[1200], error[BI_ERRMSG_SIZE];
    bool exists = false;

    bool good = (!bi_user_server_config_path(path, sizeof(path), "bide.conf") ||
                 read_config(cli, path, &exists, error)) &&
                (exists || read_config(cli, SYSTEM_CONFIG, &exists, error));
    return good ? BI_EXIT_OK : bi_cli_error(cli, BI_EXIT_USAGE, "%s", error);
}

/* ---- opening ---- */

static int open_queue(struct cli *cli, const char *url, bide **queue)
{
    bide_options options = BIDE_OPTIONS_INIT;
    options.log = cli->verb->log;
    options.log_user = cli;
    return bide_open(url, &options, queue);
}

/* An invalid URL is a usage error; a queue that cannot be reached is BI_EXIT_NO_QUEUE. */
static int report_open_error(const struct cli *cli, int code, const char *url_source)
{
    char source[100] = "";

    int exit = code == BIDE_EINVAL ? BI_EXIT_USAGE
               : code == BIDE_EBUSY || code == BIDE_EIO || code == BIDE_EUNKNOWN
                   ? BI_EXIT_NO_QUEUE
                   : bi_cli_exit_code(code);
    const char *message = bide_last_error();
    if (strncmp(message, "open: ", 6) == 0)
        message += 6;

    /* A wrong value may come from a variable that was set long ago. */
    bool about_secret = secret_source != NULL && strstr(message, "secret") != NULL;
    if (about_secret)
        snprintf(source, sizeof(source), " (secret file from %s)", secret_source);
    else if (url_source != NULL)
        snprintf(source, sizeof(source), " (URL from %s)", url_source);
    return bi_cli_error(cli, exit, "%.300s%s", message, source);
}

/* Records the URL for child processes and messages. Messages do not show peer=trusted, which bide
 * adds itself. */
static void record_url(struct cli *cli, const char *url)
{
    bi_url_strip_secret(cli->child_url, url);
    bi_url_redact(cli->shown, url);
    char *suffix = strstr(cli->shown, PEER_TRUSTED);
    if (suffix != NULL)
        *suffix = 0;
}

/* Adds the secret file to a URL without a secret. The secret_file of the config file is used only
 * for servers that the command does not name: otherwise the secret could be sent to another server.
 * full: FULL_URL_MAX bytes. */
static void add_secret_file(char *full, const char *url, bool is_explicit)
{
    const char *file = getenv("BIDE_SECRET_FILE"), *source = "BIDE_SECRET_FILE";
    char param[BI_URL_MAX];

    secret_source = NULL;
    snprintf(full, FULL_URL_MAX, "%s", url);
    if ((file == NULL || file[0] == 0) && !is_explicit) {
        file = config_secret_file;
        source = "the config file";
    }
    if (file == NULL || file[0] == 0 || strncmp(url, "beanstalk:", strlen("beanstalk:")) != 0 ||
        bi_url_has_secret(url))
        return;

    const char *prefix = strchr(url, '?') == NULL ? "?secret_file=" : "&secret_file=";
    size_t size = strlen(full);
    if (bi_url_from_path(param, prefix, file) && size + strlen(param) < FULL_URL_MAX) {
        memcpy(full + size, param, strlen(param) + 1);
        secret_source = source;
    }
}

int bi_connect_open_url(struct cli *cli, const char *url, bide **queue)
{
    char full[FULL_URL_MAX];

    /* BIDE_SECRET_FILE is tried only if the server requires a secret: the other queue may be
     * another server. */
    int code = open_queue(cli, url, queue);
    add_secret_file(full, url, true);
    if (code == BIDE_EINVAL && strcmp(full, url) != 0)
        code = open_queue(cli, full, queue);
    return code == BIDE_OK ? BI_EXIT_OK : report_open_error(cli, code, NULL);
}

int bi_connect_check_file(const struct cli *cli, const char *url)
{
#ifndef BIDE_WITH_SQLITE
    return BI_EXIT_OK; /* the open reports the missing SQLite */
#endif
    struct bi_url parts;
    const char *reason;
    char path[BI_URL_MAX];
    if (strncmp(url, "sqlite:", 7) != 0 || !bi_url_parse(&parts, url, &reason))
        return BI_EXIT_OK;
    snprintf(path, sizeof(path), "%s", parts.location);
    if (!bi_url_decode(path) || path[0] == 0 || access(path, F_OK) == 0)
        return BI_EXIT_OK;
    return bi_cli_error(cli, BI_EXIT_NO_QUEUE,
                        "there is no file %.300s; only put, import, work, bench, schedule set and "
                        "schedule load create it",
                        path);
}

/* is_explicit: the URL is that of --url or BIDE_URL. */
static int open_named(struct cli *cli, const char *named_url, const char *source, bool is_explicit)
{
    char url[FULL_URL_MAX];

    add_secret_file(url, named_url, is_explicit);
    record_url(cli, url);
    if (!cli->creates_file && bi_connect_check_file(cli, url) != BI_EXIT_OK)
        return BI_EXIT_NO_QUEUE;
    int code = open_queue(cli, url, &cli->queue);
    if (code != BIDE_OK)
        return report_open_error(cli, code, source);
    bi_cli_detail(cli, "the queue is %s", cli->shown);
    if (cli->creates_file && strncmp(url, "memory:", 7) == 0)
        bi_cli_note(cli,
                    "bide: the queue is in memory, and its jobs are lost when this command ends");
    return BI_EXIT_OK;
}

static int open_user_server(struct cli *cli, const struct user_server *server)
{
    assert(!server->unsafe);
    char url[BI_URL_MAX];
    if (!bi_user_server_url(server, url))
        return bi_cli_error(cli, BI_EXIT_FAILED, "the socket path %s is too long", server->socket);
    return open_named(cli, url, NULL, false);
}

/* Returns true if a trusted server listens on the usual port. listener->untrusted: a server of
 * another user listens there. */
static bool find_local_server(const struct cli *cli, struct peer_listener *listener)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(LOCAL_PORT)};
    char reason[BIDE_ERROR_SIZE];

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bi_peer_owner_find_listener((const struct sockaddr *)&to, listener, reason))
        return !listener->untrusted;
    bi_cli_detail(cli, LOCAL_NAME ": %s", reason);
    *listener = (struct peer_listener){.untrusted = false};
    return false;
}

/* Opens a trusted server on the usual port, and sets *exit. False: there is none, or it is not a
 * job queue. */
static bool open_local_server(struct cli *cli, struct peer_listener *listener, int *exit)
{
    char url[FULL_URL_MAX];

    if (!find_local_server(cli, listener))
        return false;
    add_secret_file(url, "beanstalk://" LOCAL_NAME PEER_TRUSTED, false);
    int code = open_queue(cli, url, &cli->queue);
    if (code != BIDE_OK && code != BIDE_EINVAL && code != BIDE_EBUSY)
        return false;
    record_url(cli, url);
    *exit = code == BIDE_OK ? BI_EXIT_OK : report_open_error(cli, code, NULL);
    if (code == BIDE_OK)
        bi_cli_detail(cli, "the queue is %s", cli->shown);
    return true;
}

/* Returns true if this machine has a bided.service: its runtime directory stays when it stops. */
static bool has_system_server(void)
{
    struct stat info;
    return lstat(SYSTEM_RUNTIME_DIR, &info) == 0 && S_ISDIR(info.st_mode) &&
           bi_peer_owner_is_trusted(info.st_uid);
}

/* The system server may be restarting. A user server beside it would split the queue unnoticed. */
static int wait_for_system_server(struct cli *cli)
{
    struct peer_listener listener;
    int exit;

    int64_t end = bi_clock_boot() + SYSTEM_WAIT_US;
    while (bi_clock_boot() < end) {
        nanosleep(&(struct timespec){.tv_nsec = SYSTEM_POLL_NS}, NULL);
        if (open_local_server(cli, &listener, &exit))
            return exit;
    }
    return bi_cli_error(cli, BI_EXIT_NO_QUEUE,
                        "the system's bided does not answer on " LOCAL_NAME
                        " (see: systemctl status bided), and no user server is started beside it; "
                        "set --url or BIDE_URL to use another queue");
}

/* The server on the usual port belongs to an untrusted user. It is an error with --no-start, else a
 * warning: a user server is used instead. */
static int report_untrusted(const struct cli *cli, const struct peer_listener *listener)
{
    static const char format[] =
        "the server on " LOCAL_NAME
        " belongs to user %u, not to you, root or bide, and is not used%s; "
        "to use it anyway, say --url beanstalk://" LOCAL_NAME;

    if (cli->no_start)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, format, (unsigned)listener->owner,
                            ", and no user server is started");
    bi_cli_warn(cli, format, (unsigned)listener->owner, "");
    return BI_EXIT_OK;
}

/* Mentions jobs in the file of the user server, which is not running. This is printed once, until
 * that server has run again: most commands have nothing to do with those jobs. */
static void note_unserved_file(const struct cli *cli, const struct user_server *server)
{
    if (!cli->quiet && access(server->file, F_OK) == 0 && bi_user_server_note_unserved(server))
        bi_cli_note(cli,
                    "bide: the queue is %s; jobs in %s are not served by it (\"bide move "
                    "sqlite:%s %s\" copies them). This note is printed once.",
                    cli->shown, server->file, server->file, cli->shown);
}

static int open_default(struct cli *cli)
{
    struct user_server server;
    struct peer_listener listener;
    char error[BI_ERRMSG_SIZE];
    int exit;
    bool located = bi_user_server_locate(&server, error);

    /* Another user may have created the directory with a server in it. */
    if (server.unsafe)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "%s", error);

    /* A user server that listens is used, also if it cannot be opened: jobs must not go to another
     * queue because of an error. */
    if (located && bi_user_server_find(&server))
        return open_user_server(cli, &server);
    if (open_local_server(cli, &listener, &exit)) {
        if (exit == BI_EXIT_OK && located)
            note_unserved_file(cli, &server);
        return exit;
    }

    exit = listener.untrusted ? report_untrusted(cli, &listener) : BI_EXIT_OK;
    if (exit != BI_EXIT_OK)
        return exit;
    if (has_system_server() && !cli->no_start)
        return wait_for_system_server(cli);
    if (cli->no_start)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE,
                            "no server answers on " LOCAL_NAME
                            ", and no user server is started; set --url or BIDE_URL");

    if (!located)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "%s", error);
    exit = bi_user_server_start(cli, &server);
    return exit == BI_EXIT_OK ? open_user_server(cli, &server) : exit;
}

/* Returns the URL that was given, and its source for messages; source NULL: the command line. */
static const char *find_url(const struct cli *cli, const char **source)
{
    const char *environment = getenv("BIDE_URL");

    *source = NULL;
    if (cli->url != NULL)
        return cli->url;
    *source = "BIDE_URL";
    if (environment != NULL && environment[0] != 0)
        return environment;
    *source = "the config file";
    return config_url[0] == 0 ? NULL : config_url;
}

const char *bi_connect_explicit_url(const struct cli *cli)
{
    const char *source;
    return find_url(cli, &source);
}

int bi_connect_open(struct cli *cli)
{
    assert(cli->queue == NULL);
    const char *source, *url = find_url(cli, &source);
    return url == NULL ? open_default(cli) : open_named(cli, url, source, url != config_url);
}

/* ---- closing ---- */

uint64_t bi_connect_damage_count(bide *queue)
{
    bide_recovery recovery = {.failed = 0};
    if ((bide_capabilities(queue) & BIDE_CAN_SHARE) != 0)
        return 0;
    int code = bide_wait_recovered(queue, 0, &recovery);
    return code == BIDE_OK || code == BIDE_TIMED_OUT ? recovery.failed : 0;
}

/* Damaged rows are moved at the first open; later commands find nothing wrong. */
static void warn_damage(const struct cli *cli, bide *queue, const char *shown)
{
    uint64_t damage = bi_connect_damage_count(queue);
    if (damage == 0)
        return;
    bi_cli_warn(cli,
                "%llu row%s or page%s of %.120s could not be read, and the jobs there are missing; "
                "rows were moved to its table \"damaged\", pages left as they are; copy the file "
                "as it is, then run \"bide check\", and take the jobs from a backup",
                (unsigned long long)damage, damage == 1 ? "" : "s", damage == 1 ? "" : "s", shown);
}

int bi_connect_close(const struct cli *cli, bide *queue, const char *shown, int exit)
{
    if (queue == NULL)
        return exit;
    warn_damage(cli, queue, shown);
    int code = bide_close(queue);
    return exit == BI_EXIT_OK ? bi_cli_report_last(cli, code) : exit;
}
