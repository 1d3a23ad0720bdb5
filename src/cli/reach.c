/* SPDX-License-Identifier: MIT */
#include "cli/reach.h"

#include "backend/peer_owner.h"
#include "cli/start.h"
#include "cli/verb.h"
#include "util/clock.h"
#include "util/near.h"
#include "util/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SYSTEM_FILE    "/etc/bide/bide.conf"
#define LOCAL_NAME     "127.0.0.1:11300"
#define LOCAL_PORT     11300
#define ONLY_TRUSTED   "?peer=trusted"
#define SYSTEM_FOLDER  "/run/bide"
#define SYSTEM_US      3000000    /* for a server of the system that is set up to answer again, */
#define SYSTEM_STEP_NS 100000000L /* and between two looks */
#define CONFIG_MS      2000       /* that a config file which is a pipe may take */
#define FULL_MAX       ((size_t)2 * BI_URL_MAX) /* what is too long for a URL stays too long */

/* What a config file says; its text lives as long as the process. */
static char configured[BI_URL_MAX];
static char configured_secret[1200];

/* ---- the config file ---- */

static bool take_url(struct cli *cli, const char *value, char *error)
{
    (void)cli;
    if (strlen(value) >= sizeof(configured))
        return bi_refuse(error, "the URL is too long");
    memcpy(configured, value, strlen(value) + 1);
    return true;
}

static bool take_secret_file(struct cli *cli, const char *value, char *error)
{
    (void)cli;
    if (value[0] != '/' || strlen(value) >= sizeof(configured_secret))
        return bi_refuse(error, "secret_file is the full path of a file, not \"%.60s\"", value);
    memcpy(configured_secret, value, strlen(value) + 1);
    return true;
}

static bool take_color(struct cli *cli, const char *value, char *error)
{
    if (cli->color != BI_COLOR_AUTO || strcmp(value, "auto") == 0)
        return true;
    if (strcmp(value, "always") != 0 && strcmp(value, "never") != 0)
        return bi_refuse(error, "color is auto, always or never, not \"%.60s\"", value);
    cli->color = strcmp(value, "always") == 0 ? BI_COLOR_ALWAYS : BI_COLOR_NEVER;
    return true;
}

static const struct {
    const char *name;
    bool (*take)(struct cli *cli, const char *value, char *error);
} settings[] = {
    {"url", take_url},
    {"secret_file", take_secret_file},
    {"color", take_color},
};

static bool take_setting(void *user, const char *name, const char *value, char *error)
{
    struct near near = BI_NEAR_INIT;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (strcmp(settings[i].name, name) == 0)
            return settings[i].take(user, value, error);
        bi_near_look(&near, settings[i].name, name, strlen(name));
    }
    if (near.best != NULL)
        return bi_refuse(error, "there is no setting \"%.60s\"; did you mean %s?", name, near.best);
    return bi_refuse(error, "there is no setting \"%.60s\"; there are url, secret_file and color",
                     name);
}

/* False when there is none. */
static bool user_file(char *path, size_t size)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int length = 0;
    if (config != NULL && config[0] == '/')
        length = snprintf(path, size, "%s/bide/bide.conf", config);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, size, "%s/.config/bide/bide.conf", home);
    return length > 0 && (size_t)length < size;
}

/* A file of another user, or one that others can write to, could lead to a server of theirs. */
static bool check_owner(const struct stat *info, const char *path, char *error)
{
    bool writable = (info->st_mode & S_IWOTH) != 0 && !S_ISCHR(info->st_mode); /* /dev/null */
    bool good = bi_own_trusts(info->st_uid) && !writable;
    return good || bi_refuse(error,
                             "%.200s is not read: it belongs to another user, or everyone can "
                             "write to it; set HOME or XDG_CONFIG_HOME to a folder of your own, or "
                             "chown and chmod the file",
                             path);
}

/* *there says whether there is such a file. */
static bool read_file(struct cli *cli, const char *path, bool *there, char *error)
{
    struct stat info;
    FILE *file = bi_settings_open(path, CONFIG_MS, &info);
    *there = file != NULL || (errno != ENOENT && errno != ENOTDIR);
    if (file == NULL)
        return !*there || bi_refuse(error, "cannot read %.200s: %s", path, bi_settings_why(errno));
    bool good =
        check_owner(&info, path, error) && bi_settings_read(file, path, take_setting, cli, error);
    fclose(file);
    return good;
}

int bi_reach_configure(struct cli *cli)
{
    char path[1200], error[BI_SENTENCE_SIZE];
    bool there = false;
    bool good = (!user_file(path, sizeof(path)) || read_file(cli, path, &there, error)) &&
                (there || read_file(cli, SYSTEM_FILE, &there, error));
    return good ? BI_EXIT_OK : bi_cli_failed(cli, BI_EXIT_USAGE, "%s", error);
}

/* ---- opening ---- */

static int open_at(struct cli *cli, const char *url, bide **queue)
{
    bide_options options = BIDE_OPTIONS_INIT;
    options.log = cli->verb->log;
    options.log_user = cli;
    return bide_open(url, &options, queue);
}

/* A URL that is wrong is an argument; what cannot be had is not there. */
static int explain(const struct cli *cli, int code, const char *source)
{
    int exit = code == BIDE_EINVAL ? BI_EXIT_USAGE
               : code == BIDE_EBUSY || code == BIDE_EIO || code == BIDE_EUNKNOWN
                   ? BI_EXIT_NO_QUEUE
                   : bi_cli_exit(code);
    const char *sentence = bide_last_error();
    if (strncmp(sentence, "open: ", 6) == 0)
        sentence += 6;
    return bi_cli_failed(cli, exit, "%.300s%s%s%s", sentence,
                         source == NULL ? "" : " (the URL is of ", source == NULL ? "" : source,
                         source == NULL ? "" : ")");
}

/* The rule about owners goes without saying where a server was not named. */
static void remember(struct cli *cli, const char *url)
{
    bi_url_strip(cli->reached, url);
    bi_url_show(cli->shown, url);
    char *rule = strstr(cli->shown, ONLY_TRUSTED);
    if (rule != NULL)
        *rule = 0;
}

/* The URL with the file that the secret is in, if there is one and the URL says none. The file of the
 * config file is for servers that the command does not name: else a secret could go to another server
 * than it is of. FULL_MAX bytes. */
static void complete(char *full, const char *url, bool named)
{
    const char *file = getenv("BIDE_SECRET_FILE");
    char param[BI_URL_MAX];

    snprintf(full, FULL_MAX, "%s", url);
    if ((file == NULL || file[0] == 0) && !named)
        file = configured_secret;
    if (file == NULL || file[0] == 0 || strncmp(url, "beanstalk:", strlen("beanstalk:")) != 0 ||
        bi_url_has_secret(url))
        return;
    const char *prefix = strchr(url, '?') == NULL ? "?secret_file=" : "&secret_file=";
    size_t size = strlen(full);
    if (bi_url_make(param, prefix, file) && size + strlen(param) < FULL_MAX)
        memcpy(full + size, param, strlen(param) + 1);
}

int bi_reach_url(struct cli *cli, const char *url, bide **queue)
{
    char full[FULL_MAX];

    /* The secret of the environment is for a server that asks for one: there may be two servers. */
    int code = open_at(cli, url, queue);
    complete(full, url, true);
    if (code == BIDE_EINVAL && strcmp(full, url) != 0)
        code = open_at(cli, full, queue);
    return code == BIDE_OK ? BI_EXIT_OK : explain(cli, code, NULL);
}

int bi_reach_exists(const struct cli *cli, const char *url)
{
#ifndef BIDE_WITH_SQLITE
    return BI_EXIT_OK; /* that it cannot be opened at all is more to the point */
#endif
    struct bi_url parts;
    const char *reason;
    char path[BI_URL_MAX];
    if (strncmp(url, "sqlite:", 7) != 0 || !bi_url_parse(&parts, url, &reason))
        return BI_EXIT_OK;
    snprintf(path, sizeof(path), "%s", parts.location);
    if (!bi_url_decode(path) || path[0] == 0 || access(path, F_OK) == 0)
        return BI_EXIT_OK;
    return bi_cli_failed(cli, BI_EXIT_NO_QUEUE,
                         "there is no file %.300s; put, import and work would make it", path);
}

/* named: by the command line or the environment, and not by the config file or not at all. */
static int open_said(struct cli *cli, const char *said, const char *source, bool named)
{
    char url[FULL_MAX];

    complete(url, said, named);
    remember(cli, url);
    if ((cli->verb->traits & BI_MAKES) == 0 && bi_reach_exists(cli, url) != BI_EXIT_OK)
        return BI_EXIT_NO_QUEUE;
    int code = open_at(cli, url, &cli->queue);
    if (code != BIDE_OK)
        return explain(cli, code, source);
    bi_cli_detail(cli, "the queue is %s", cli->shown);
    if ((cli->verb->traits & BI_MAKES) != 0 && strncmp(url, "memory:", 7) == 0)
        bi_cli_note(cli, "bide: a queue in memory: is gone when this command ends");
    return BI_EXIT_OK;
}

static int open_socket(struct cli *cli, const struct own_server *own)
{
    char url[BI_URL_MAX];
    if (!bi_own_url(own, url))
        return bi_cli_failed(cli, BI_EXIT_FAILED, "%s is too long a name", own->socket);
    return open_said(cli, url, NULL, false);
}

/* Does a server listen on the usual port that is used without being named? */
static bool finds_local(const struct cli *cli, bool looks_again)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(LOCAL_PORT)};
    struct peer_listener listener;
    char reason[BIDE_ERROR_SIZE];

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!bi_peer_find_listener((const struct sockaddr *)&to, &listener, reason)) {
        bi_cli_detail(cli, LOCAL_NAME ": %s", reason);
        return false;
    }
    if (listener.foreign && !looks_again)
        bi_cli_warn(cli,
                    "the server on " LOCAL_NAME " belongs to the user %u, and not to you, root or "
                    "bide: it is not used unless you name it, with --url beanstalk://" LOCAL_NAME,
                    (unsigned)listener.owner);
    return !listener.foreign;
}

/* What is wrong with a server of ours there is said; what is no server of jobs is none. */
static bool opens_local(struct cli *cli, bool looks_again, int *exit)
{
    char url[FULL_MAX];

    if (!finds_local(cli, looks_again))
        return false;
    complete(url, "beanstalk://" LOCAL_NAME ONLY_TRUSTED, false);
    int code = open_at(cli, url, &cli->queue);
    if (code != BIDE_OK && code != BIDE_EINVAL && code != BIDE_EBUSY)
        return false;
    remember(cli, url);
    *exit = code == BIDE_OK ? BI_EXIT_OK : explain(cli, code, NULL);
    if (code == BIDE_OK)
        bi_cli_detail(cli, "the queue is %s", cli->shown);
    return true;
}

/* Has this machine a bided of its own (bided.service)? Its runtime folder stays when it stops. */
static bool has_system_server(void)
{
    struct stat info;
    return lstat(SYSTEM_FOLDER, &info) == 0 && S_ISDIR(info.st_mode) && bi_peer_trusts(info.st_uid);
}

/* It may be about to start again. One of the user's own beside it would split the queue, unnoticed. */
static int await_system_server(struct cli *cli)
{
    int exit;
    int64_t end = bi_clock_boot() + SYSTEM_US;
    while (bi_clock_boot() < end) {
        nanosleep(&(struct timespec){.tv_nsec = SYSTEM_STEP_NS}, NULL);
        if (opens_local(cli, true, &exit))
            return exit;
    }
    return bi_cli_failed(
        cli, BI_EXIT_NO_QUEUE,
        "the bided of this machine does not answer on " LOCAL_NAME
        " (see: systemctl status bided), and none of your own is started beside it; "
        "say where the queue is with --url or BIDE_URL");
}

static int open_own(struct cli *cli)
{
    struct own_server own;
    char error[BI_SENTENCE_SIZE];
    int exit;
    bool has_place = bi_own_look(&own, error);

    /* Another user may have made the folder, so that a server of his is used. */
    if (own.unsafe)
        return bi_cli_failed(cli, BI_EXIT_NO_QUEUE, "%s", error);
    /* If it listens it is the one that is meant: what goes wrong there is said, and jobs do not go
     * to another queue. */
    if (has_place && bi_own_find(&own))
        return open_socket(cli, &own);
    if (opens_local(cli, false, &exit)) {
        if (exit == BI_EXIT_OK && has_place && access(own.file, F_OK) == 0)
            bi_cli_note(cli,
                        "bide: the queue is %s; the one in %s is not served now (\"bide move "
                        "sqlite:%s %s\" copies its jobs)",
                        cli->shown, own.file, own.file, cli->shown);
        return exit;
    }
    if (has_system_server() && !cli->no_start)
        return await_system_server(cli);
    if (cli->no_start)
        return bi_cli_failed(cli, BI_EXIT_NO_QUEUE,
                             "no server answers on " LOCAL_NAME
                             ", and none is started; say where the "
                             "queue is with --url or BIDE_URL");
    if (!has_place)
        return bi_cli_failed(cli, BI_EXIT_NO_QUEUE, "%s", error);
    exit = bi_start(cli, &own);
    return exit == BI_EXIT_OK ? open_socket(cli, &own) : exit;
}

/* Who has said it goes into source; NULL: the command line. */
static const char *find_said(const struct cli *cli, const char **source)
{
    const char *environment = getenv("BIDE_URL");
    *source = NULL;
    if (cli->url != NULL)
        return cli->url;
    *source = "BIDE_URL";
    if (environment != NULL && environment[0] != 0)
        return environment;
    *source = "the config file";
    return configured[0] == 0 ? NULL : configured;
}

const char *bi_reach_said(const struct cli *cli)
{
    const char *source;
    return find_said(cli, &source);
}

int bi_reach_open(struct cli *cli)
{
    const char *source, *url = find_said(cli, &source);
    return url == NULL ? open_own(cli) : open_said(cli, url, source, url != configured);
}

/* ---- closing ---- */

uint64_t bi_reach_damage(bide *queue)
{
    bide_recovery recovery = {.failed = 0};
    if ((bide_capabilities(queue) & BIDE_CAN_SHARE) != 0)
        return 0;
    int code = bide_wait_recovered(queue, 0, &recovery);
    return code == BIDE_OK || code == BIDE_TIMED_OUT ? recovery.failed : 0;
}

/* A row is moved at the first opening only: later commands find nothing wrong with it. */
static void warn_of_damage(const struct cli *cli, bide *queue, const char *shown)
{
    uint64_t damage = bi_reach_damage(queue);
    if (damage == 0)
        return;
    bi_cli_warn(cli,
                "%llu row%s or page%s of %.120s could not be read, and the jobs there are missing; "
                "rows were moved to its table \"damaged\", pages left as they are; copy the file "
                "as it is, then run \"bide check\", and take the jobs from a backup",
                (unsigned long long)damage, damage == 1 ? "" : "s", damage == 1 ? "" : "s", shown);
}

int bi_reach_close(const struct cli *cli, bide *queue, const char *shown, int exit)
{
    if (queue == NULL)
        return exit;
    warn_of_damage(cli, queue, shown);
    int code = bide_close(queue);
    return exit == BI_EXIT_OK ? bi_cli_answered(cli, code) : exit;
}
