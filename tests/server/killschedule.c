/* SPDX-License-Identifier: MIT */
/*
 * killschedule.c - every moment of every schedule has exactly one job, whatever is killed.
 *
 * A bided keeps its queue in a file. Four processes run a scheduler each, with wall clocks that are
 * seconds apart, four consume the jobs. Every other bided has a scheduler of its own beside them.
 * Each schedule fires every second. Again and again one of these processes, or the bided, is killed
 * (SIGKILL) and started again. The consumers write the id of each job to a table in shared memory,
 * by schedule and moment, before they delete it: a second id for a moment is a job too many. A job
 * must not come before its moment. When the last moment has passed nothing is killed any more, and
 * every place of the table must be filled.
 */
#include "../fault/fault.h"

#include "../contract/isolated.h"
#include "../sim/rng.h"

#include <bide/schedule.h>

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SCHEDULERS 4
#define CONSUMERS  4
#define PROCESSES  (SCHEDULERS + CONSUMERS + 1)
#define SERVER     (SCHEDULERS + CONSUMERS)
#define LEAD_S     5     /* from the start to the first moment */
#define DRAIN_MS   60000 /* for the jobs of the last moments */
#define TOPIC      "tick"

static struct {
    const char *server;
    unsigned schedules, seconds, kill_ms;
    uint64_t seed;
} settings = {"build/bided", 200, 60, 2000, 1};

/* In shared memory. */
struct table {
    struct trace trace;
    _Atomic uint64_t doubled, unknown, early, seen;
    int64_t begin_ms;
    _Atomic uint64_t ids[]; /* by schedule, then second; 0: no job yet */
};

/* What the wall clock of this process shows too much: the linker directs the library here. */
static int64_t clock_offset_s;

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    int code = __real_clock_gettime(id, now);
    if (id == CLOCK_REALTIME)
        now->tv_sec += clock_offset_s;
    return code;
}

static struct table *table;
static unsigned servers; /* that were started */
static char base[PATH_MAX], socket_path[PATH_MAX], url[PATH_MAX + 32];

static const char usage[] =
    "usage: killschedule [--server PROGRAM] [--schedules N] [--seconds N] [--kill-ms N] [--seed N]\n"
    "\n"
    "Kills schedulers, consumers and a server, again and again, and looks whether every moment of\n"
    "every schedule has exactly one job.\n";

static size_t place_count(void)
{
    return (size_t)settings.schedules * settings.seconds;
}

/* ---- processes ---- */

static void become_server(void)
{
    char listen[PATH_MAX + 8];
    int log = open(test_path("server.log"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(log, 1);
    dup2(log, 2);
    snprintf(listen, sizeof listen, "unix:%s", socket_path);
    execlp(settings.server, settings.server, "--listen", listen, "--url", url_of("jobs.db", ""),
           "--schedules", servers % 2 == 1 ? "on" : "off", (char *)NULL);
    _exit(127);
}

/* The server may be away at any time. */
static bide *open_patiently(void)
{
    bide *queue = NULL;
    while (bide_open(url, NULL, &queue) != BIDE_OK)
        nap_ms(10);
    return queue;
}

static void be_scheduler(size_t number)
{
    static const int64_t offsets_s[SCHEDULERS] = {-7, -2, 3, 11};
    bide_scheduler *scheduler;
    clock_offset_s = offsets_s[number];
    if (bide_scheduler_start(open_patiently(), NULL, &scheduler) != BIDE_OK)
        _exit(1);
    for (;;)
        pause();
}

/* The moment of the key "s12@2026-11-20T06:00:00Z", as a place of the table. */
static bool find_place(const bide_job *job, size_t *place)
{
    char key[BIDE_KEY_MAX + 1];
    struct tm tm = {0};
    unsigned schedule;
    snprintf(key, sizeof key, "%.*s", (int)job->key_size,
             job->key == NULL ? "" : (const char *)job->key);
    if (sscanf(key, "s%u@%d-%d-%dT%d:%d:%dZ", &schedule, &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
               &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 7)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    int64_t second = (int64_t)timegm(&tm) - table->begin_ms / 1000;
    *place = (size_t)schedule * settings.seconds + (size_t)second;
    return schedule < settings.schedules && second >= 0 && second < settings.seconds;
}

static void note(const bide_job *job)
{
    size_t place;
    uint64_t none = 0;
    if (!find_place(job, &place)) {
        table->unknown++;
        return;
    }
    int64_t moment_ms = table->begin_ms + (int64_t)(place % settings.seconds) * 1000;
    table->early += wall_ms() < moment_ms;
    if (atomic_compare_exchange_strong(&table->ids[place], &none, job->id))
        table->seen++;
    else if (none != job->id)
        table->doubled++;
}

static void be_consumer(void)
{
    enum { AT_ONCE = 50 };
    static bide_job jobs[AT_ONCE];
    static bide_finish_item items[AT_ONCE];
    bide_slice topic = {TOPIC, strlen(TOPIC)};
    bide *queue = open_patiently();
    for (;;) {
        bide_reserve_args args = {.topics = &topic,
                                  .topic_count = 1,
                                  .timeout_ms = 1000,
                                  .jobs = jobs,
                                  .job_max = AT_ONCE};
        if (bide_reserve_many(queue, &args) != BIDE_OK) {
            nap_ms(1);
            continue;
        }
        for (size_t i = 0; i < args.count; i++) {
            note(&jobs[i]);
            items[i] = (bide_finish_item){.id = jobs[i].id, .token = jobs[i].token};
            bide_job_clear(&jobs[i]);
        }
        bide_finish_many(queue, items, args.count); /* one that fails comes again */
    }
}

static pid_t begin(size_t number)
{
    pid_t parent = getpid();
    servers += number == SERVER;
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    if (number == SERVER)
        become_server();
    else if (number < SCHEDULERS)
        be_scheduler(number);
    else
        be_consumer();
    _exit(127);
}

static void end(pid_t child)
{
    int status;
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- a run ---- */

static void set_schedules(bide *queue)
{
    char name[20];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_schedule schedule = BIDE_SCHEDULE_INIT;
    options.ttr_ms = 3000; /* the job of a consumer that was killed comes again */
    schedule.options = &options;
    schedule.name = name;
    schedule.when = "every 1s";
    schedule.topic = TOPIC;
    schedule.body = (bide_slice){"tick", 4};
    schedule.misfire = BIDE_MISFIRE_ALL;
    schedule.misfire_max = BIDE_SCHEDULE_MISSED_MAX;
    schedule.start_at_ms = table->begin_ms;
    schedule.end_at_ms = table->begin_ms + settings.seconds * INT64_C(1000);
    for (unsigned i = 0; i < settings.schedules; i++) {
        snprintf(name, sizeof name, "s%u", i);
        CHECK(bide_schedule_set(queue, &schedule, NULL) == BIDE_OK);
    }
}

/* Each schedule has ended, and has counted its jobs. */
static void check_schedules(bide *queue)
{
    for (unsigned i = 0; i < settings.schedules; i++) {
        char name[20];
        bide_schedule *schedule = NULL;
        snprintf(name, sizeof name, "s%u", i);
        CHECK(bide_schedule_get(queue, name, &schedule) == BIDE_OK);
        EQ(schedule->state, BIDE_SCHEDULE_ENDED);
        EQ(schedule->made, settings.seconds);
        bide_schedule_free(schedule);
    }
}

static unsigned kill_and_start(pid_t *processes)
{
    struct rng rng = {settings.seed};
    unsigned kills = 0;
    int64_t last_ms = table->begin_ms + settings.seconds * INT64_C(1000);
    for (int64_t next_ms = table->begin_ms; wall_ms() < last_ms;) {
        if (wall_ms() < next_ms) {
            nap_ms(1);
            continue;
        }
        next_ms += settings.kill_ms;
        size_t number = kills % 4 == 1 ? SERVER : rng_below(&rng, PROCESSES);
        end(processes[number]);
        processes[number] = begin(number);
        kills++;
    }
    return kills;
}

static void await_jobs(void)
{
    int64_t limit_us = clock_us() + DRAIN_MS * INT64_C(1000);
    while (table->seen < place_count() && clock_us() < limit_us)
        nap_ms(10);
}

static void check_table(void)
{
    uint64_t missing = 0;
    for (size_t i = 0; i < place_count(); i++)
        missing += table->ids[i] == 0;
    printf("%zu moments: %" PRIu64 " without a job, %" PRIu64 " jobs too many, %" PRIu64
           " of no moment, %" PRIu64 " early\n",
           place_count(), missing, table->doubled, table->unknown, table->early);
    EQ(missing, 0);
    EQ(table->doubled, 0);
    EQ(table->unknown, 0);
    EQ(table->early, 0);
}

static void run_once(void)
{
    pid_t processes[PROCESSES];
    snprintf(socket_path, sizeof socket_path, "%s", test_path("s"));
    snprintf(url, sizeof url, "beanstalk://%s", socket_path);
    processes[SERVER] = begin(SERVER);
    /* The library starts threads, so children that use it are forked before the first open here. */
    for (size_t i = 0; i < SERVER; i++)
        processes[i] = begin(i);

    int64_t now = wall_ms() / 1000;
    table->begin_ms = (now + LEAD_S + settings.schedules / 100) * 1000;
    pid_t setter = fork();
    CHECK(setter >= 0);
    if (setter == 0) {
        clock_offset_s = -20; /* the clock of the queue decides about the next moments */
        bide *queue = open_patiently();
        set_schedules(queue);
        _exit(0);
    }
    int status;
    CHECK(waitpid(setter, &status, 0) == setter && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(wall_ms() < table->begin_ms); /* else some moments would be past */

    unsigned kills = kill_and_start(processes);
    await_jobs();
    printf("%u schedules, %u s, %u kills; %u servers, every other with a scheduler\n",
           settings.schedules, settings.seconds, kills, servers);
    check_table();
    for (size_t i = 0; i < SERVER; i++)
        end(processes[i]);
    bide *queue = open_patiently();
    check_schedules(queue);
    CHECK(bide_close(queue) == BIDE_OK);
    end(processes[SERVER]);
}

/* ---- the runner ---- */

static void run_here(const struct isolated_test *isolated, struct trace *trace)
{
    checks_begin(isolated->url, isolated->theme, isolated->test, trace);
    test_dir_begin(base);
    isolated->body();
    fflush(stdout);
}

static bool parse(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--server") == 0)
            settings.server = value;
        else if (strcmp(argv[i], "--schedules") == 0)
            settings.schedules = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            settings.seconds = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--kill-ms") == 0)
            settings.kill_ms = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            settings.seed = strtoull(value, NULL, 10);
        else
            return false;
    }
    return argc % 2 == 1 && settings.schedules > 0 && settings.seconds > 0 && settings.kill_ms > 0;
}

int main(int argc, char **argv)
{
    char test[64];
    if (!parse(argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    const char *tmp = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/bide-killschedule-XXXXXX", tmp ? tmp : "/tmp");
    table = mmap(NULL, sizeof *table + place_count() * sizeof table->ids[0], PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED || mkdtemp(base) == NULL) {
        perror("killschedule");
        return 2;
    }
    snprintf(test, sizeof test, "--schedules %u --seconds %u --seed %" PRIu64, settings.schedules,
             settings.seconds, settings.seed);
    struct isolated_test isolated = {settings.server, "killschedule", test, run_here, run_once};
    bool passed = run_isolated(&isolated, &table->trace, (int)(180 + 2 * settings.seconds));
    remove_folder(base);
    printf("%u passed, %u failed\n", passed ? 1 : 0, passed ? 0 : 1);
    return passed ? 0 : 1;
}
