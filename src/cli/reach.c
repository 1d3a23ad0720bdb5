/* SPDX-License-Identifier: MIT */
#include "cli/reach.h"

#include "cli/start.h"
#include "cli/verb.h"
#include "util/near.h"
#include "util/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM_FILE "/etc/bide/bide.conf"
#define LOCAL_URL   "beanstalk://127.0.0.1:11300"

/* What a config file says; its text lives as long as the process. */
static char configured[BI_URL_MAX];

/* ---- the config file ---- */

static bool take_url(struct cli *cli, const char *value, char *error)
{
    (void)cli;
    if (strlen(value) >= sizeof(configured))
        return bi_refuse(error, "the URL is too long");
    memcpy(configured, value, strlen(value) + 1);
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
    return bi_refuse(error, "there is no setting \"%.60s\"; there are url and color", name);
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

/* *there says whether there is such a file. */
static bool read_file(struct cli *cli, const char *path, bool *there, char *error)
{
    FILE *file = fopen(path, "re");
    *there = file != NULL || (errno != ENOENT && errno != ENOTDIR);
    if (file == NULL)
        return !*there || bi_refuse(error, "cannot read %.200s: %s", path, strerror(errno));
    bool good = bi_settings_read(file, path, take_setting, cli, error);
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

int bi_reach_url(struct cli *cli, const char *url, bide **queue)
{
    int code = open_at(cli, url, queue);
    return code == BIDE_OK ? BI_EXIT_OK : explain(cli, code, NULL);
}

static void remember(struct cli *cli, const char *url)
{
    snprintf(cli->reached, sizeof(cli->reached), "%s", url);
    bi_url_show(cli->shown, url);
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

static int open_said(struct cli *cli, const char *url, const char *source)
{
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

/* Whoever answers. */
static bool open_found(struct cli *cli, const char *url)
{
    if (open_at(cli, url, &cli->queue) != BIDE_OK)
        return false;
    remember(cli, url);
    bi_cli_detail(cli, "the queue is %s", cli->shown);
    return true;
}

static int open_socket(struct cli *cli, const struct own_server *own)
{
    char url[BI_URL_MAX];
    if (!bi_url_make(url, "beanstalk://", own->socket))
        return bi_cli_failed(cli, BI_EXIT_FAILED, "%s is too long a name", own->socket);
    return open_said(cli, url, NULL);
}

static int open_own(struct cli *cli)
{
    struct own_server own;
    char error[BI_SENTENCE_SIZE];
    bool has_place = bi_own_look(&own, error);
    /* If it listens it is the one that is meant: what goes wrong there is said, and jobs do not go
     * to another queue. */
    if (has_place && bi_own_find(&own))
        return open_socket(cli, &own);
    if (open_found(cli, LOCAL_URL)) {
        if (has_place && access(own.file, F_OK) == 0)
            bi_cli_note(cli, "bide: the queue is %s; the one in %s is not served now", cli->shown,
                        own.file);
        return BI_EXIT_OK;
    }
    if (cli->no_start)
        return bi_cli_failed(cli, BI_EXIT_NO_QUEUE,
                             "no server answers on 127.0.0.1:11300, and none may be started "
                             "(--no-start); say where the queue is with --url or BIDE_URL");
    if (!has_place)
        return bi_cli_failed(cli, BI_EXIT_NO_QUEUE, "%s", error);
    int exit = bi_start(cli, &own);
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
    return url == NULL ? open_own(cli) : open_said(cli, url, source);
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
