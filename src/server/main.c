/* SPDX-License-Identifier: MIT */
/*
 * main.c - bided: settings, sockets, privileges, the queue, the server, in this order.
 *
 * What needs root comes before it is given up, what can be refused before anything is opened.
 * Signals that arrive early are kept until the loop can take them.
 */
#include "queue/queue.h"
#include "server/become.h"
#include "server/config.h"
#include "server/listen.h"
#include "server/machine.h"
#include "server/notify.h"
#include "server/place.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Those of beanstalkd, where it has one. */
enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,   /* the queue cannot be opened, or there is no memory */
    EXIT_SETTINGS = 5, /* flags or file */
    EXIT_PLACE = 10,   /* another process has the queue, or the named directory is not there */
    EXIT_LISTEN = 111, /* an address cannot be listened on */
};

/* Descriptors besides those of clients: the log, the loop, the queue's files, a backup. */
#define OTHER_FILES 64

struct program {
    struct logger logger;
    struct bi_log log;
    struct flags flags;
    struct config config; /* as started; a reload changes limits only */
    struct server_limits limits;
    struct listeners listeners;
    struct server *server;
    bide *queue;
    char url[BI_URL_MAX];
    char shown[BI_URL_MAX]; /* the same without a password */
    char status[300];       /* what systemd shows */
    bool open;              /* it listens on addresses that other machines can reach */
    size_t max_job_size;    /* of the queue */
    int64_t opened_us;
    bide_phase phase; /* the last that was told */
};

static struct program program;

/* ---- saying what is wrong before there is a log ---- */

static int complain(struct program *p, int code, const char *error)
{
    if (p->logger.journal)
        bi_logger_write(&p->logger, BIDE_LOG_ERROR, error);
    else
        fprintf(stderr, "bided: %s\n", error);
    return code;
}

static int fail(struct program *p, int code, const char *error)
{
    bi_log(&p->log, BIDE_LOG_ERROR, "%s", error);
    return code;
}

/* ---- settings ---- */

static int check_config(struct program *p)
{
    const struct notes *notes = &p->flags.notes;
    for (size_t i = 0; i < notes->count; i++)
        fprintf(stderr, "bided: %s\n", notes->list[i].text);
    puts("the settings are good");
    return EXIT_OK;
}

/* True when there is a server to run; else *code is what to exit with. */
static bool read_settings(struct program *p, const char *const *argv, int *code)
{
    char error[BI_SENTENCE_SIZE];
    if (!bi_flags_parse(&p->flags, argv, error)) {
        *code = complain(p, EXIT_SETTINGS, error);
        fputs("Try \"bided --help\".\n", stderr);
        return false;
    }
    *code = EXIT_OK;
    if (p->flags.wish == BI_WISH_HELP)
        bi_help_print(stdout);
    if (p->flags.wish == BI_WISH_VERSION)
        printf("bided %s\n", bide_version());
    if (p->flags.wish == BI_WISH_HELP || p->flags.wish == BI_WISH_VERSION)
        return false;
    if (!bi_config_load(&p->config, &p->flags, &p->flags.notes, error)) {
        *code = complain(p, EXIT_SETTINGS, error);
        return false;
    }
    if (p->flags.wish == BI_WISH_CHECK) {
        *code = check_config(p);
        return false;
    }
    bi_logger_change(&p->logger, p->config.log_format, p->config.log_level);
    bi_notes_tell(&p->flags.notes, &p->log);
    return true;
}

/* ---- sockets ---- */

/* What is open to which clients. open: other machines can connect. */
static void tell_access(const struct program *p, bool open)
{
    const struct server_limits *limits = &p->limits;
    char networks[1024] = "";
    size_t size = 0;
    for (size_t i = 0; i < limits->trust_count && size < sizeof(networks); i++) {
        char text[BI_NETWORK_TEXT];
        size += (size_t)snprintf(networks + size, sizeof(networks) - size, "%s%s",
                                 i == 0 ? "" : ", ", bi_network_show(&limits->trust[i], text));
    }
    if (limits->auth_always)
        bi_log(&p->log, BIDE_LOG_INFO, "every client must say the secret");
    else if (open && limits->trust_count > 0)
        bi_log(&p->log, BIDE_LOG_INFO, "clients are served without a secret from this machine, %s",
               networks);
    if (!open && limits->trust_count > 0)
        bi_log(&p->log, BIDE_LOG_WARN,
               "trust has no effect: bided listens on addresses of this machine only; say listen = "
               "*:11300");
    if (!open || limits->auth_always)
        return;
    if (limits->auth_secret[0] != 0)
        bi_log(&p->log, BIDE_LOG_INFO, "clients from other machines must say the secret first");
    else if (limits->trust_count > 0)
        bi_log(&p->log, BIDE_LOG_INFO,
               "clients from elsewhere are refused: there is no auth_secret");
    else if (p->server != NULL) /* at the start that is said instead of "ready" */
        bi_log(
            &p->log, BIDE_LOG_WARN,
            "there is no auth_secret in the config file, and no network in trust: only clients on "
            "this machine are served");
}

static void tell_listeners(struct program *p)
{
    bool open = false;
    for (size_t i = 0; i < p->listeners.count; i++) {
        const struct listener *listener = &p->listeners.list[i];
        bi_log(&p->log, BIDE_LOG_INFO, "listening on %s", listener->name);
        open = open || !listener->is_local;
    }
    p->open = open;
    tell_access(p, open);
}

/*
 * A server that systemd starts also has a unix socket in its runtime directory, for clients of this
 * machine: a backup, for one, can be asked for nowhere else.
 */
static bool open_runtime_socket(struct program *p, char *error)
{
    const char *directory = getenv("RUNTIME_DIRECTORY");
    struct address address = {.is_unix = true};
    if (directory == NULL || directory[0] == 0)
        return true;
    int size = snprintf(address.host, sizeof(address.host), "%.*s/bided.sock",
                        (int)strcspn(directory, ":"), directory);
    if (size < 0 || size >= BI_PATH_SIZE)
        return bi_refuse(error, "RUNTIME_DIRECTORY is too long for the path of a socket; say where "
                                "to listen");
    return bi_listen_open(&p->listeners, &address, p->config.unix_mode, error);
}

static bool open_sockets(struct program *p, char *error)
{
    const struct config *config = &p->config;
    struct address address;
    bool said = config->address != NULL || config->port != NULL;
    if (!bi_listen_inherit(&p->listeners, error))
        return false;
    if (p->listeners.count > 0) {
        if (said || config->listen_count > 0)
            bi_log(&p->log, BIDE_LOG_WARN,
                   "systemd has opened the sockets; other addresses to listen on are ignored");
        return true;
    }
    for (size_t i = 0; i < config->listen_count; i++)
        if (!bi_address_parse(&address, config->listen[i], error) ||
            !bi_listen_open(&p->listeners, &address, config->unix_mode, error))
            return false;
    if (!said && config->listen_count > 0)
        return true;
    return bi_address_of(&address, config->address, config->port, error) &&
           bi_listen_open(&p->listeners, &address, config->unix_mode, error) &&
           (said || open_runtime_socket(p, error));
}

/* Are all those refused that its addresses are for? */
static bool is_useless(const struct program *p)
{
    return p->open && p->limits.auth_secret[0] == 0 && p->limits.trust_count == 0;
}

/* A limit that the system does not allow is lowered: a client too many is then told so, instead of
 * waiting in the backlog. */
static void fit_connections(struct program *p, struct server_limits *limits)
{
    uint64_t wanted = (uint64_t)limits->max_connections + p->listeners.count + OTHER_FILES;
    uint64_t files = bi_machine_files(wanted);
    if (files == 0 || files >= wanted)
        return;
    uint64_t other = wanted - limits->max_connections;
    uint32_t fit = (uint32_t)(files > 2 * other ? files - other : files / 2);
    bi_log(&p->log, BIDE_LOG_WARN,
           "max_connections is %u, but only %llu files may be open; %u connections are allowed "
           "(see ulimit -n, LimitNOFILE=)",
           limits->max_connections, (unsigned long long)files, fit);
    limits->max_connections = fit;
}

/* One client with the largest job must not keep all others out. */
#define JOBS_IN_BUFFERS 4

static void fit_buffers(const struct program *p, struct server_limits *limits)
{
    uint64_t least = (uint64_t)p->max_job_size * JOBS_IN_BUFFERS;
    char said[BI_SIZE_TEXT], raised[BI_SIZE_TEXT];
    if (limits->max_client_bytes >= least)
        return;
    bi_machine_size(said, limits->max_client_bytes);
    bi_machine_size(raised, least);
    bi_log(&p->log, BIDE_LOG_WARN,
           "max_client_bytes is %s; it was raised to %s, %d times max_job_size", said, raised,
           JOBS_IN_BUFFERS);
    limits->max_client_bytes = least;
}

/* ---- the place of the queue, and who we are ---- */

static int find_place(struct program *p, bool *made, char *directory, char *error)
{
    const struct config *config = &p->config;
    struct surroundings around = bi_place_look();
    *made = false;
    if (config->url != NULL) {
        snprintf(p->url, sizeof(p->url), "%s", config->url);
        return EXIT_OK;
    }
    if (config->directory != NULL)
        return bi_place_check(config->directory, error) &&
                       bi_place_url(p->url, config->directory, error)
                   ? EXIT_OK
                   : EXIT_PLACE;
    bool good = bi_place_find(directory, &around, error) && bi_place_make(directory, made, error) &&
                bi_place_url(p->url, directory, error);
    return good ? EXIT_OK : EXIT_FAILED;
}

static int change_user(struct program *p, const char *made, char *error)
{
    struct account account;
    if (p->config.user[0] == 0)
        return EXIT_OK;
    enum become_code code = bi_become_find(&account, p->config.user, error);
    if (code != BI_BECOME_OK)
        return (int)code;
    if (geteuid() == 0) {
        if (made != NULL && chown(made, account.uid, account.gid) != 0) {
            bi_refuse(error, "cannot give away %s: %s", made, strerror(errno));
            return BI_BECOME_REFUSED;
        }
        if (!bi_listen_give(&p->listeners, account.uid, account.gid, error))
            return BI_BECOME_REFUSED;
    }
    return (int)bi_become(&account, error);
}

static int settle(struct program *p, char *error)
{
    bool made;
    char directory[BI_PLACE_SIZE];
    int code = find_place(p, &made, directory, error);
    if (code != EXIT_OK)
        return code;
    bi_url_show(p->shown, p->url);
    snprintf(p->status, sizeof(p->status), "serving %.120s on %.60s%s", p->shown,
             p->listeners.list[0].name, is_useless(p) ? ", for clients on this machine only" : "");
    code = change_user(p, made ? directory : NULL, error);
    if (code != EXIT_OK)
        return code;
    bi_become_seal();
    if (geteuid() == 0)
        bi_log(&p->log, BIDE_LOG_WARN,
               "bided runs as root: say which user it is to become with --user, or user = in the "
               "config file");
    return EXIT_OK;
}

/* ---- the queue ---- */

/* Phases are told in the log, and steps in between where details are wanted. */
static void tell_progress(struct program *p, const bide_recovery *progress)
{
    char text[160];
    snprintf(text, sizeof(text), "%s stored jobs: %llu of %llu", bide_phase_name(progress->phase),
             (unsigned long long)progress->loaded, (unsigned long long)progress->total);
    bi_notify_status(text);
    bool step = progress->phase == p->phase || progress->total == 0;
    bi_log(&p->log, step ? BIDE_LOG_DEBUG : BIDE_LOG_INFO, "%s", text);
    p->phase = progress->phase;
}

/* On a thread of the library, which waits meanwhile. */
static void recovering(void *user, const bide_recovery *progress)
{
    struct program *p = user;
    if (progress->phase != BIDE_PHASE_RECOVERED) {
        tell_progress(p, progress);
        return;
    }
    bi_notify_status(p->status);
    bi_log(&p->log, BIDE_LOG_INFO, "%llu stored %s loaded, after %lld ms",
           (unsigned long long)progress->loaded, progress->loaded == 1 ? "job is" : "jobs are",
           (long long)((bi_clock_boot() - p->opened_us) / 1000));
    if (progress->failed > 0)
        bi_log(&p->log, BIDE_LOG_ERROR,
               "in %llu places of the file stored jobs could not be loaded; bide check tells more",
               (unsigned long long)progress->failed);
}

static uint64_t default_memory(void)
{
    return bi_machine_memory("") / 10 * 8;
}

static void tell_queue(const struct program *p, const bide_options *options)
{
    static const char *const syncs[] = {"full", "normal", "off"};
    bool stored = strncmp(p->url, "memory:", 7) != 0;
    bi_log(&p->log, BIDE_LOG_INFO, "the queue is %.300s", p->shown);
    char job[BI_SIZE_TEXT], memory[BI_SIZE_TEXT];
    bi_machine_size(job, options->max_job_size);
    bi_machine_size(memory, options->max_memory);
    bi_log(&p->log, BIDE_LOG_INFO, "%s%s%smax_job_size=%s max_memory=%s max_connections=%u",
           stored ? "sync=" : "nothing is kept when bided stops; ",
           stored ? syncs[options->sync] : "", stored ? " " : "", job, memory,
           p->limits.max_connections);
}

static void tell_neighbourhood(const struct program *p, const struct neighbourhood *found)
{
    if (found->is_new)
        bi_log(&p->log, BIDE_LOG_INFO, "there was no such file: this is a new queue");
    if (found->binlog[0] != 0)
        bi_log(
            &p->log, BIDE_LOG_WARN,
            "beside it are log files of beanstalkd (%s), which are not read: see -b in man bided",
            found->binlog);
}

static int open_queue(struct program *p, bide_options *resolved, char *error)
{
    struct bi_url url;
    const char *reason;
    bide_options options = p->config.options;
    if (!p->config.memory_said)
        options.max_memory = default_memory();
    options.log = p->log.handler;
    options.log_user = p->log.user;
    options.recovery = recovering;
    options.recovery_user = p;
    if (!bi_url_parse(&url, p->url, &reason) ||
        bi_options_resolve(&options, &url, resolved) != BIDE_OK) {
        bi_refuse(error, "%s", bi_config_reason());
        return EXIT_SETTINGS;
    }
    struct neighbourhood found = {.is_new = false};
    if (strcmp(url.scheme, "sqlite") == 0)
        found = bi_place_survey(url.location);
    p->max_job_size = resolved->max_job_size;
    fit_buffers(p, &p->limits);
    tell_queue(p, resolved);
    p->opened_us = bi_clock_boot();
    umask(077); /* what is in the queue is nobody else's business */
    int code = bi_queue_open(p->url, &options, true, &p->queue);
    if (code == BIDE_OK) {
        tell_neighbourhood(p, &found);
        return EXIT_OK;
    }
    if (code == BIDE_EINVAL)
        bi_refuse(error, "%s", bi_config_reason());
    else
        bi_refuse(error, "cannot open %.250s: %s", p->shown, bi_config_reason());
    return code == BIDE_EBUSY ? EXIT_PLACE : EXIT_FAILED;
}

/* ---- the server ---- */

/* Those that the loop takes wait until it is there, and are not looked at any more when it has
 * ended. */
static void hold_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(how, &set, NULL);
}

static void on_ready(void *user)
{
    struct program *p = user;
    hold_signals(SIG_UNBLOCK);
    bi_notify_ready(p->status);
    if (is_useless(p))
        bi_log(&p->log, BIDE_LOG_WARN,
               "no client on another machine can use this server, although it listens there: set "
               "auth_secret or trust; ready for clients on this machine");
    else
        bi_log(&p->log, BIDE_LOG_INFO, "ready");
}

static void on_alive(void *user)
{
    (void)user;
    bi_notify_alive();
}

static void on_stopping(void *user)
{
    (void)user;
    bi_notify_stopping();
}

/* What was said at the start stays, but for limits, the secret and the log. */
static void on_reload(void *user)
{
    struct program *p = user;
    char error[BI_SENTENCE_SIZE];
    struct config config;
    bi_notify_reloading();
    p->flags.again = true;
    if (bi_config_load(&config, &p->flags, &p->flags.notes, error)) {
        bi_logger_change(&p->logger, config.log_format, config.log_level);
        bi_config_compare(&p->config, &config, &p->flags.notes);
        p->limits = config.limits;
        fit_connections(p, &p->limits);
        fit_buffers(p, &p->limits);
        bi_server_change(p->server, &p->limits);
        bi_config_free(&config);
        bi_log(&p->log, BIDE_LOG_INFO, "the settings were read again");
        tell_access(p, p->open);
    } else {
        bi_log(&p->log, BIDE_LOG_ERROR, "the old settings stay: %s", error);
    }
    bi_notes_tell(&p->flags.notes, &p->log);
    bi_notify_ready(p->status);
}

static int start_server(struct program *p, const bide_options *options, char *error)
{
    struct server_settings settings = {
        .queue = p->queue,
        .options = *options,
        .limits = p->limits,
        .log = p->log,
        .ready = on_ready,
        .stopping = on_stopping,
        .reload = on_reload,
        .alive = on_alive,
        .watchdog_us = bi_notify_watchdog(),
        .user = p,
    };
    if (bi_server_new(&settings, &p->server, error) != BIDE_OK)
        return EXIT_FAILED;
    for (size_t i = 0; i < p->listeners.count; i++) {
        if (bi_server_listen(p->server, p->listeners.list[i].fd) != BIDE_OK) {
            bi_refuse(error, "out of memory");
            return EXIT_FAILED;
        }
        p->listeners.list[i].fd = -1;
    }
    return EXIT_OK;
}

/* ---- in order ---- */

static int serve(struct program *p, char *error)
{
    bide_options resolved;
    int code = settle(p, error);
    if (code == EXIT_OK)
        code = open_queue(p, &resolved, error);
    if (code != EXIT_OK)
        return code;
    code = start_server(p, &resolved, error);
    if (code == EXIT_OK)
        bi_server_run(p->server);
    hold_signals(SIG_BLOCK); /* what is being stored is stored, however impatient somebody is */
    bi_server_free(p->server);
    bide_close(p->queue);
    return code;
}

static int run(struct program *p)
{
    char error[BI_SENTENCE_SIZE] = "";
    bi_log(&p->log, BIDE_LOG_INFO, "bided %s, process %d", bide_version(), (int)getpid());
    if (bi_notify_missing())
        bi_log(&p->log, BIDE_LOG_WARN,
               "systemd waits for a notification, but this bided was built without libsystemd-dev");
    int code = EXIT_LISTEN;
    hold_signals(SIG_BLOCK); /* as soon as a client can come, somebody may send one */
    if (open_sockets(p, error)) {
        p->limits = p->config.limits;
        tell_listeners(p);
        fit_connections(p, &p->limits);
        code = serve(p, error);
    }
    bi_listen_close(&p->listeners);
    if (code != EXIT_OK)
        return fail(p, code, error);
    bi_log(&p->log, BIDE_LOG_INFO, "stopped");
    return EXIT_OK;
}

/* Whoever was started without standard error must not have a file or socket in its place. */
static void fill_standard(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    int code;
    fill_standard();
    signal(SIGPIPE, SIG_IGN);
    bi_logger_init(&program.logger, STDERR_FILENO);
    program.log = bi_logger_log(&program.logger);
    if (read_settings(&program, (const char *const *)(argc > 0 ? argv + 1 : argv), &code))
        code = run(&program);
    bi_config_free(&program.config);
    return code;
}
