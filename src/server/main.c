/* SPDX-License-Identifier: MIT */
/*
 * main - bided: settings, sockets, privileges, the queue, the server, in this order.
 *
 * Ordering   All settings are checked before anything is opened. Sockets are opened, and files
 *            given to the new user, before root privileges are dropped; the queue is opened after
 *            it. Signals are blocked until the loop handles them.
 */
#include "queue/queue.h"
#include "schedule/scheduler.h"
#include "server/beanstalk/beanstalk.h"
#include "server/config.h"
#include "server/listener.h"
#include "server/process.h"
#include "server/state_dir.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The exit codes of beanstalkd, where it has one. */
enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,     /* the queue cannot be opened, or out of memory */
    EXIT_SETTINGS = 5,   /* invalid flag or config file */
    EXIT_STATE_DIR = 10, /* another process uses the queue, or no such directory */
    EXIT_LISTEN = 111,   /* cannot listen on an address */
};

/* Descriptors besides those of clients: the log, the loop, the files of the queue, a backup. */
#define OTHER_FILES 64

struct program {
    struct logger logger;
    struct bi_log log;
    struct flags flags;
    struct config config; /* of the start; a reload changes limits only */
    struct server_limits limits;
    struct listeners listeners;
    struct server *server;
    bide *queue;
    bide_scheduler *scheduler; /* NULL: none */
    int64_t stop_began_us;     /* 0: not yet */
    char url[BI_URL_MAX];
    char display_url[BI_URL_MAX]; /* the same without a password */
    char status[300];             /* shown by systemctl status */
    bool is_public;               /* a listener is reachable from other machines */
    size_t max_job_size;          /* of the queue */
    int64_t opened_us;
    bide_phase phase; /* the last one logged */
};

static struct program program;

/* ---- errors ---- */

/* Reports an error on the command line, before the format of the log is known. */
static int report_early(struct program *p, int code, const char *error)
{
    if (p->logger.journal)
        bi_logger_write(&p->logger, BIDE_LOG_ERROR, error);
    else
        fprintf(stderr, "bided: %s\n", error);
    return code;
}

/* ---- settings ---- */

/* Returns true if there is a server to run, otherwise false with the exit code. */
static bool read_settings(struct program *p, const char *const *argv, int *code)
{
    char error[BI_ERRMSG_SIZE];

    if (!bi_flags_parse(&p->flags, argv, error)) {
        *code = report_early(p, EXIT_SETTINGS, error);
        fputs("Try \"bided --help\".\n", stderr);
        return false;
    }

    *code = EXIT_OK;
    if (p->flags.action == BI_ACTION_HELP)
        bi_help_print(stdout);
    if (p->flags.action == BI_ACTION_VERSION)
        printf("bided %s\n", bide_version());
    if (p->flags.action == BI_ACTION_HELP || p->flags.action == BI_ACTION_VERSION)
        return false;

    if (!bi_config_load(&p->config, &p->flags, &p->flags.notes, error)) {
        *code = report_early(p, EXIT_SETTINGS, error);
        return false;
    }
    if (p->flags.action == BI_ACTION_CHECK) {
        for (size_t i = 0; i < p->flags.notes.count; i++)
            fprintf(stderr, "bided: %s\n", p->flags.notes.list[i].text);
        puts("the settings are good");
        return false;
    }

    /* Notes were collected until the log has its format. */
    bi_logger_configure(&p->logger, p->config.log_format, p->config.log_level);
    bi_config_log_notes(&p->flags.notes, &p->log);
    return true;
}

/* ---- sockets ---- */

/* Logs which clients are served. */
static void log_access(const struct program *p)
{
    const struct server_limits *limits = &p->limits;
    char networks[1024] = "";
    size_t size = 0;

    for (size_t i = 0; i < limits->trust_count && size < sizeof(networks); i++) {
        char text[BI_CIDR_TEXT_SIZE];
        size +=
            (size_t)snprintf(networks + size, sizeof(networks) - size, "%s%s", i == 0 ? "" : ", ",
                             bi_address_format_cidr(&limits->trust[i], text));
    }

    if (limits->auth_always)
        bi_log(&p->log, BIDE_LOG_INFO, "every client must authenticate");
    else if (p->is_public && limits->trust_count > 0)
        bi_log(&p->log, BIDE_LOG_INFO,
               "trusted without authentication: clients on this machine, %s", networks);
    if (!p->is_public && limits->trust_count > 0)
        bi_log(
            &p->log, BIDE_LOG_WARN,
            "trust has no effect: bided listens on loopback addresses only (set listen = *:11300)");
    if (!p->is_public || limits->auth_always)
        return;

    if (limits->auth_secret[0] != 0)
        bi_log(&p->log, BIDE_LOG_INFO, "clients on other machines must authenticate");
    else if (limits->trust_count > 0)
        bi_log(&p->log, BIDE_LOG_INFO, "all other clients are rejected: auth_secret is not set");
    else if (p->server != NULL) /* at the start on_ready() logs this */
        bi_log(&p->log, BIDE_LOG_WARN,
               "neither auth_secret nor trust is set: only clients on this machine are served");
}

/*
 * A server started by systemd also listens on a unix socket in its runtime directory, for local
 * clients. Some requests, such as a backup, are accepted there only.
 */
static bool open_runtime_socket(struct program *p, char *error)
{
    const char *directory = getenv("RUNTIME_DIRECTORY");
    struct listen_address address = {.is_unix = true};
    if (directory == NULL || directory[0] == 0)
        return true;

    int size = snprintf(address.host, sizeof(address.host), "%.*s/bided.sock",
                        (int)strcspn(directory, ":"), directory);
    if (size < 0 || size >= BI_UNIX_PATH_SIZE)
        return bi_errmsg_set(error,
                             "RUNTIME_DIRECTORY is too long for the path of a socket; set listen");
    return bi_listener_open(&p->listeners, &address, p->config.unix_mode, error);
}

static bool open_sockets(struct program *p, char *error)
{
    const struct config *config = &p->config;
    struct listen_address address;
    bool given = config->address != NULL || config->port != NULL;

    if (!bi_listener_inherit(&p->listeners, error))
        return false;
    /* Sockets of systemd replace all configured addresses. */
    if (p->listeners.count > 0) {
        if (given || config->listen_count > 0)
            bi_log(&p->log, BIDE_LOG_WARN, "using the sockets of systemd; listen is ignored");
        return true;
    }

    for (size_t i = 0; i < config->listen_count; i++)
        if (!bi_listener_open(&p->listeners, &config->listen[i], config->unix_mode, error))
            return false;
    if (!given && config->listen_count > 0)
        return true;

    /* The address of -l and -p, or the default one. */
    return bi_address_from_flags(&address, config->address, config->port, error) &&
           bi_listener_open(&p->listeners, &address, config->unix_mode, error) &&
           (given || open_runtime_socket(p, error));
}

/* True if the server is reachable from other machines, but serves none of them. */
static bool refuses_all_remote(const struct program *p)
{
    return p->is_public && p->limits.auth_secret[0] == 0 && p->limits.trust_count == 0;
}

/* Lowers max_connections to what the limit of open files allows. A client beyond the limit is then
 * rejected with a reply, instead of waiting in the backlog. */
static void clamp_max_connections(struct program *p, struct server_limits *limits)
{
    uint64_t wanted = (uint64_t)limits->max_connections + p->listeners.count + OTHER_FILES;
    uint64_t files = bi_process_raise_file_limit(wanted);
    if (files == 0 || files >= wanted)
        return;

    uint64_t other = wanted - limits->max_connections;
    /* With very few files, half of them remain for connections. */
    uint32_t allowed_count = (uint32_t)(files > 2 * other ? files - other : files / 2);
    bi_log(&p->log, BIDE_LOG_WARN,
           "max_connections is %u, but only %llu open files are allowed: limited to %u connections "
           "(raise ulimit -n or LimitNOFILE=)",
           limits->max_connections, (unsigned long long)files, allowed_count);
    limits->max_connections = allowed_count;
}

/* One client that sends the largest job must not exhaust the buffers of all. */
#define JOBS_IN_BUFFERS 4

static void raise_max_client_bytes(const struct program *p, struct server_limits *limits)
{
    uint64_t minimum = (uint64_t)p->max_job_size * JOBS_IN_BUFFERS;
    char given[BI_SIZE_TEXT], raised[BI_SIZE_TEXT];
    if (limits->max_client_bytes >= minimum)
        return;

    bi_process_format_size(given, limits->max_client_bytes);
    bi_process_format_size(raised, minimum);
    bi_log(&p->log, BIDE_LOG_WARN, "max_client_bytes raised from %s to %s, %d times max_job_size",
           given, raised, JOBS_IN_BUFFERS);
    limits->max_client_bytes = minimum;
}

/* ---- location of the queue and user ---- */

static int find_queue_url(struct program *p, bool *created, char *directory, char *error)
{
    const struct config *config = &p->config;
    struct state_dir_env env = bi_state_dir_environment();

    *created = false;
    if (config->url != NULL) {
        snprintf(p->url, sizeof(p->url), "%s", config->url);
        return EXIT_OK;
    }
    if (config->directory != NULL)
        return bi_state_dir_check(config->directory, error) &&
                       bi_state_dir_url(p->url, config->directory, error)
                   ? EXIT_OK
                   : EXIT_STATE_DIR;

    bool good = bi_state_dir_find(directory, &env, error) &&
                bi_state_dir_create(directory, created, error) &&
                bi_state_dir_url(p->url, directory, error);
    return good ? EXIT_OK : EXIT_FAILED;
}

static int change_user(struct program *p, const char *created, char *error)
{
    struct account account;
    if (p->config.user[0] == 0)
        return EXIT_OK;
    enum privileges_code code = bi_process_find_account(&account, p->config.user, error);
    if (code != BI_PRIVILEGES_OK)
        return (int)code;

    /* Only root can change owners, so this comes before the drop. */
    if (geteuid() == 0) {
        if (created != NULL && chown(created, account.uid, account.gid) != 0) {
            bi_errmsg_set(error, "cannot change the owner of %s: %s", created, strerror(errno));
            return BI_PRIVILEGES_DENIED;
        }
        if (!bi_listener_chown(&p->listeners, account.uid, account.gid, error))
            return BI_PRIVILEGES_DENIED;
    }

    return (int)bi_process_drop_privileges(&account, error);
}

static int prepare_storage(struct program *p, char *error)
{
    bool created;
    char directory[BI_STATE_DIR_SIZE];
    int code = find_queue_url(p, &created, directory, error);
    if (code != EXIT_OK)
        return code;

    bi_url_redact(p->display_url, p->url);
    snprintf(p->status, sizeof(p->status), "serving %.120s on %.60s%s", p->display_url,
             p->listeners.list[0].name,
             refuses_all_remote(p) ? ", for clients on this machine only" : "");

    /* Only a directory that was created here is given to the new user. */
    code = change_user(p, created ? directory : NULL, error);
    if (code != EXIT_OK)
        return code;
    bi_process_forbid_new_privileges();

    if (geteuid() == 0)
        bi_log(
            &p->log, BIDE_LOG_WARN,
            "bided runs as root: set an unprivileged user with --user, or user = in the config file");
    return EXIT_OK;
}

/* ---- queue ---- */

/* Called on a thread of the library, which waits for the return. */
static void on_recovery(void *user, const bide_recovery *progress)
{
    struct program *p = user;

    /* The begin of a phase is logged, and at debug level the steps in between. */
    if (progress->phase != BIDE_PHASE_RECOVERED) {
        bool step = progress->phase == p->phase || progress->total == 0;
        char text[160];
        snprintf(text, sizeof(text), "%s stored jobs: %llu of %llu",
                 bide_phase_name(progress->phase), (unsigned long long)progress->loaded,
                 (unsigned long long)progress->total);
        bi_process_notify("STATUS=%s", text);
        bi_log(&p->log, step ? BIDE_LOG_DEBUG : BIDE_LOG_INFO, "%s", text);
        p->phase = progress->phase;
        return;
    }

    bi_process_notify("STATUS=%s", p->status);
    bi_log(&p->log, BIDE_LOG_INFO, "loaded %llu stored %s in %lld ms",
           (unsigned long long)progress->loaded, progress->loaded == 1 ? "job" : "jobs",
           (long long)((bi_clock_boot() - p->opened_us) / 1000));
    if (progress->failed > 0)
        bi_log(&p->log, BIDE_LOG_ERROR,
               "cannot load stored jobs at %llu places of the file (run bide check)",
               (unsigned long long)progress->failed);
}

static void log_queue(const struct program *p, const bide_options *options)
{
    static const char *const syncs[] = {"full", "normal", "off"};
    bool stored = strncmp(p->url, "memory:", 7) != 0;

    bi_log(&p->log, BIDE_LOG_INFO, "queue: %.300s", p->display_url);
    char job[BI_SIZE_TEXT], memory[BI_SIZE_TEXT];
    bi_process_format_size(job, options->max_job_size);
    bi_process_format_size(memory, options->max_memory);
    bi_log(&p->log, BIDE_LOG_INFO, "%s%s%smax_job_size=%s max_memory=%s max_connections=%u",
           stored ? "sync=" : "jobs are lost when bided stops; ",
           stored ? syncs[options->sync] : "", stored ? " " : "", job, memory,
           p->limits.max_connections);
}

static int open_queue(struct program *p, char *error)
{
    struct bi_url url;
    const char *reason;
    bide_options options = p->config.options, resolved;

    /* The default is 80 % of the memory of the machine, or of its control group. */
    if (!p->config.memory_given)
        options.max_memory = bi_process_memory_limit("") / 10 * 8;
    options.log = p->log.handler;
    options.log_user = p->log.user;
    options.recovery = on_recovery;
    options.recovery_user = p;

    if (!bi_url_parse(&url, p->url, &reason) ||
        bi_options_resolve(&options, &url, &resolved) != BIDE_OK) {
        bi_errmsg_set(error, "%s", bi_config_queue_error());
        return EXIT_SETTINGS;
    }

    /* Before the open, which creates the file. */
    struct queue_dir_info found = {.is_new = false};
    if (strcmp(url.scheme, "sqlite") == 0)
        found = bi_state_dir_inspect(url.location);

    p->max_job_size = resolved.max_job_size;
    raise_max_client_bytes(p, &p->limits);
    log_queue(p, &resolved);

    /* The files of the queue are readable by their owner only. */
    p->opened_us = bi_clock_boot();
    umask(077);
    int code = bi_queue_open(p->url, &options, true, &p->queue);
    if (code != BIDE_OK) {
        if (code == BIDE_EINVAL)
            bi_errmsg_set(error, "%s", bi_config_queue_error());
        else
            bi_errmsg_set(error, "cannot open %.250s: %s", p->display_url, bi_config_queue_error());
        return code == BIDE_EBUSY ? EXIT_STATE_DIR : EXIT_FAILED;
    }

    if (found.is_new)
        bi_log(&p->log, BIDE_LOG_INFO, "the file did not exist: created a new queue");
    if (found.binlog[0] != 0)
        bi_log(
            &p->log, BIDE_LOG_WARN,
            "the directory has log files of beanstalkd (%s), which bided does not read: see -b in man "
            "bided",
            found.binlog);
    return EXIT_OK;
}

/* ---- server ---- */

/* Blocks or unblocks the signals of the loop. They stay pending until the loop runs, and have no
 * effect after it has ended. */
static void mask_signals(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(how, &set, NULL);
}

static void on_ready(struct program *p)
{
    mask_signals(SIG_UNBLOCK);
    bi_process_notify("READY=1\nSTATUS=%s", p->status);

    if (refuses_all_remote(p))
        bi_log(
            &p->log, BIDE_LOG_WARN,
            "clients on other machines are rejected, although bided listens on their network: set "
            "auth_secret or trust; ready for clients on this machine");
    else
        bi_log(&p->log, BIDE_LOG_INFO, "ready");
}

/* Reloads limits, the secret and the log settings. All others remain as they were at the start. On
 * an error nothing changes. */
static void reload(struct program *p)
{
    char error[BI_ERRMSG_SIZE];
    struct config config;
    struct timespec now;

    /* systemd needs the time of the reload to match the READY that ends it. */
    bi_clock_mono_deadline(&now, 0);
    bi_process_notify("RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading",
                      (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    p->flags.reload = true;
    if (bi_config_load(&config, &p->flags, &p->flags.notes, error)) {
        bi_logger_configure(&p->logger, config.log_format, config.log_level);
        bi_config_note_restarts(&p->config, &config, &p->flags.notes);

        /* The same corrections as at the start. */
        p->limits = config.limits;
        clamp_max_connections(p, &p->limits);
        raise_max_client_bytes(p, &p->limits);
        bi_server_set_limits(p->server, &p->limits);
        bi_config_free(&config);
        bi_log(&p->log, BIDE_LOG_INFO, "settings reloaded");
        log_access(p);
    } else {
        bi_log(&p->log, BIDE_LOG_ERROR, "cannot reload settings, the old ones stay: %s", error);
    }

    bi_config_log_notes(&p->flags.notes, &p->log);
    bi_process_notify("READY=1\nSTATUS=%s", p->status);
}

static void on_server_event(void *user, enum server_event event)
{
    struct program *p = user;

    switch (event) {
    case SERVER_READY:
        on_ready(user);
        break;
    case SERVER_ALIVE:
        bi_process_notify("WATCHDOG=1");
        break;
    case SERVER_RELOAD:
        reload(user);
        break;
    case SERVER_STOPPING:
        p->stop_began_us = bi_clock_boot();
        bi_scheduler_quit(p->scheduler);
        bi_process_notify("STOPPING=1\nSTATUS=stopping");
        break;
    }
}

static void on_schedule(void *user)
{
    const struct program *p = user;
    if (p->scheduler != NULL)
        bi_scheduler_notice(p->scheduler);
}

static int start_server(struct program *p, char *error)
{
    struct server_settings settings = {
        .queue = p->queue,
        .limits = p->limits,
        .log = p->log,
        .notify = on_server_event,
        .noted_topic = BIDE_SCHEDULE_TOPIC,
        .note = p->config.schedules ? on_schedule : NULL,
        .watchdog_us = bi_process_watchdog_us(),
        .user = p,
    };
    if (bi_server_new(&settings, &p->server, error) != BIDE_OK)
        return EXIT_FAILED;

    /* A socket that the server has taken is not closed here any more. */
    for (size_t i = 0; i < p->listeners.count; i++) {
        int fd = p->listeners.list[i].fd;
        if (bi_server_listen(p->server, &bi_beanstalk_protocol, fd, error) != BIDE_OK)
            return EXIT_FAILED;
        p->listeners.list[i].fd = -1;
    }
    return EXIT_OK;
}

/* ---- schedules ---- */

static int start_scheduler(struct program *p, char *error)
{
    if (!p->config.schedules)
        return EXIT_OK;
    int code = bi_scheduler_start(p->queue, NULL, true, &p->scheduler);
    if (code == BIDE_OK || code == BIDE_ENOTSUP)
        return EXIT_OK;
    bi_errmsg_set(error, "%s", bide_last_error());
    return EXIT_FAILED;
}

/* The disk may hang: then the thread is left behind, and the queue is closed nevertheless. A stop
 * may take twice its timeout, of which the server has used a part. */
static void stop_scheduler(struct program *p)
{
    int64_t now = bi_clock_boot(), began = p->stop_began_us == 0 ? now : p->stop_began_us;
    int64_t left = began + 2 * p->limits.stop_timeout_ms * 1000 - now;

    bi_scheduler_quit(p->scheduler);
    if (!bi_scheduler_join(p->scheduler, left))
        bi_scheduler_abandon(p->scheduler);
}

/* ---- start ---- */

static int serve(struct program *p, char *error)
{
    int code = prepare_storage(p, error);
    if (code == EXIT_OK)
        code = open_queue(p, error);
    if (code != EXIT_OK)
        return code;

    code = start_server(p, error);
    if (code == EXIT_OK)
        code = start_scheduler(p, error);
    if (code == EXIT_OK)
        bi_server_run(p->server);

    /* The loop does not handle signals any more: their default would kill the last commits. */
    mask_signals(SIG_BLOCK);
    stop_scheduler(p);
    bi_server_free(p->server);
    bide_close(p->queue);
    return code;
}

static int run(struct program *p)
{
    char error[BI_ERRMSG_SIZE] = "";

    bi_log(&p->log, BIDE_LOG_INFO, "bided %s, pid %d", bide_version(), (int)getpid());
    if (bi_process_cannot_notify())
        bi_log(&p->log, BIDE_LOG_WARN,
               "systemd waits for a notification, but this bided was built without libsystemd-dev");

    /* Before the sockets exist: a program that sees them may already send a signal. */
    int code = EXIT_LISTEN;
    mask_signals(SIG_BLOCK);
    if (open_sockets(p, error)) {
        p->limits = p->config.limits;
        for (size_t i = 0; i < p->listeners.count; i++) {
            bi_log(&p->log, BIDE_LOG_INFO, "listening on %s", p->listeners.list[i].name);
            p->is_public = p->is_public || !p->listeners.list[i].is_local;
        }
        log_access(p);
        clamp_max_connections(p, &p->limits);
        code = serve(p, error);
    }

    bi_listener_close_all(&p->listeners);
    if (code != EXIT_OK)
        bi_log(&p->log, BIDE_LOG_ERROR, "%s", error);
    else
        bi_log(&p->log, BIDE_LOG_INFO, "stopped");
    return code;
}

/* Opens closed standard descriptors: otherwise a file of the queue or a socket could become
 * standard error, and log lines would be written to it. */
static void reserve_standard_fds(void)
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

    /* First, before any descriptor is opened. A write to a closed socket must return EPIPE, and one
     * beyond the file size limit EFBIG: a log that is full must not end the server. */
    reserve_standard_fds();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    bi_logger_init(&program.logger, STDERR_FILENO);
    program.log = bi_logger_log(&program.logger);
    if (read_settings(&program, (const char *const *)(argc > 0 ? argv + 1 : argv), &code))
        code = run(&program);
    bi_config_free(&program.config);
    return code;
}
