/* SPDX-License-Identifier: MIT */
/* killserver.c - rounds of working, killing and comparing; see killserver.h. */
#include "killserver.h"

#include "../contract/isolated.h"
#include "../sim/rng.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIFE_MS 150 /* how long a server lives after its first answer */
#define KEEP    150 /* jobs that go on to the next round */
#define AT_ONCE 100

struct ledger ledger = {.lock = PTHREAD_MUTEX_INITIALIZER, .next = 1};

struct settings {
    unsigned rounds;
    uint64_t seed;
    unsigned chains; /* 0: rounds */
    bool in_file;    /* chains without a server */
};

/* Outlives the process of the test. */
struct outcome {
    struct trace trace;
    unsigned passed;
};

static struct settings settings = {.rounds = 10, .seed = 1};
static struct outcome *outcome;
static char base[PATH_MAX];

static const char usage[] =
    "usage: killserver [--server PROGRAM] [--parameters TEXT] [--seed N] [--rounds N]\n"
    "       killserver ... --chains N [--at server|file]\n"
    "\n"
    "Kills a server that keeps its jobs in a file, again and again, and looks whether everything\n"
    "that was acknowledged is there. With --chains it kills workers, too, and looks whether each\n"
    "step of N chains of jobs has put the next one exactly once; at a file there is no server.\n";

/* ---- what is there ---- */

static const char *const form_names[] = {"absent", "ready", "delayed", "buried"};

static enum form form_at(struct client *client, uint64_t id)
{
    char *text = NULL;
    enum form form = ABSENT;
    send_text(client, "stats-job %" PRIu64 "\r\n", id);
    const char *line = read_line(client);
    if (strcmp(line, "NOT_FOUND") == 0)
        return ABSENT;
    CHECK(strncmp(line, "OK ", 3) == 0);
    size_t size = strtoul(line + 3, NULL, 10);
    text = strndup(read_body(client, size), size);
    const char *state = text ? strstr(text, "\nstate: ") : NULL;
    CHECK(state != NULL);
    for (enum form i = READY; i <= BURIED; i++)
        if (strncmp(state + 8, form_names[i], strlen(form_names[i])) == 0)
            form = i;
    CHECK(form != ABSENT);
    free(text);
    return form;
}

/* Every job whose id was told is in a form that it may be in, and from now on in that one. */
static void compare_forms(struct client *client)
{
    for (uint64_t i = 1; i < ledger.next; i++) {
        struct entry *entry = &ledger.jobs[i];
        if (!entry->live || entry->id == 0)
            continue;
        enum form form = form_at(client, entry->id);
        if (form != entry->sure && form != entry->maybe)
            FAIL("job %" PRIu64 " is %s; acknowledged was %s, the last command makes it %s",
                 entry->id, form_names[form], form_names[entry->sure], form_names[entry->maybe]);
        entry->sure = entry->maybe = form;
        entry->live = form != ABSENT;
    }
}

/* ---- every job, one after another ---- */

static void kick_everything(struct client *client)
{
    for (int i = 0; i < TUBES; i++) {
        uint64_t kicked;
        send_text(client, "use kill-%d\r\nwatch kill-%d\r\n", i, i);
        EXPECT_NUMBER(client, "USING");
        EXPECT_NUMBER(client, "WATCHING");
        do {
            send_text(client, "kick 1000000\r\n");
            kicked = EXPECT_NUMBER(client, "KICKED");
        } while (kicked > 0);
    }
}

static void meet(const struct job_reply *job_reply, char *seen)
{
    uint64_t serial = read_numbered(job_reply->body, job_reply->size);
    CHECK(serial > 0 && serial < ledger.next);
    struct entry *entry = &ledger.jobs[serial];
    if (seen[serial]++)
        FAIL("job %" PRIu64 " (%" PRIu64 ") is there twice", serial, job_reply->id);
    if (entry->id != 0 && entry->id != job_reply->id)
        FAIL("job %" PRIu64 " is there under another id", serial);
    if (entry->sure == ABSENT && entry->maybe == ABSENT)
        FAIL("job %" PRIu64 " (%" PRIu64 ") came back", serial, job_reply->id);
    if (job_reply->id > ledger.highest_id)
        ledger.highest_id = job_reply->id;
    entry->id = job_reply->id;
    entry->sure = entry->maybe = READY;
    entry->told = entry->live = true;
}

static void reserve_everything(struct client *client, char *seen)
{
    struct job_reply job_reply;
    char line[64];
    for (bool more = true; more;) {
        for (int i = 0; i < AT_ONCE; i++)
            send_text(client, "reserve-with-timeout 0\r\n");
        for (int i = 0; i < AT_ONCE; i++) {
            if (read_job(client, "RESERVED", &job_reply, line)) {
                meet(&job_reply, seen);
                continue;
            }
            TEXT(line, strlen(line), "TIMED_OUT");
            more = false;
        }
    }
}

/* A job that no client has seen is lost, unless its put was never acknowledged. */
static void miss_nothing(const char *seen)
{
    for (uint64_t i = 1; i < ledger.next; i++) {
        struct entry *entry = &ledger.jobs[i];
        if (!entry->live || seen[i])
            continue;
        if (entry->sure != ABSENT)
            FAIL("job %" PRIu64 " (%" PRIu64 ") is lost", i, entry->id);
        entry->maybe = ABSENT;
        entry->live = false;
    }
}

static void make_room(struct client *client, const char *seen, struct rng *rng)
{
    uint64_t kept = 0;
    for (uint64_t i = 1; i < ledger.next; i++) {
        struct entry *entry = &ledger.jobs[i];
        if (!seen[i] || (kept < KEEP && rng_one_in(rng, 3) && ++kept))
            continue;
        send_text(client, "delete %" PRIu64 "\r\n", entry->id);
        EXPECT_LINE(client, "DELETED");
        entry->sure = entry->maybe = ABSENT;
        entry->live = false;
    }
}

void killserver_compare(const struct server *server, uint64_t seed)
{
    struct rng rng = {seed};
    struct client client;
    char *seen = calloc(ledger.next, 1);
    CHECK(seen != NULL);
    test_client_open(&client, server);
    compare_forms(&client);
    kick_everything(&client);
    reserve_everything(&client, seen);
    miss_nothing(seen);
    make_room(&client, seen, &rng);
    for (uint64_t i = 1; i < ledger.next; i++)
        if (ledger.jobs[i].id > ledger.highest_id)
            ledger.highest_id = ledger.jobs[i].id;
    /* What was kept goes back with the connection. */
    test_client_close(&client);
    free(seen);
}

/* ---- a round ---- */

/* A worker that is late must not find the server gone when it connects. */
static bool has_answered(void)
{
    pthread_mutex_lock(&ledger.lock);
    bool answered = ledger.acknowledged > 0 && ledger.connected == WORKERS;
    pthread_mutex_unlock(&ledger.lock);
    return answered;
}

static void work_and_kill(struct server *server, struct rng *rng)
{
    pthread_t threads[WORKERS];
    struct worker workers[WORKERS];
    ledger.acknowledged = 0;
    ledger.connected = 0;
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){server, i, rng_next(rng)};
        CHECK(pthread_create(&threads[i], NULL, killserver_work, &workers[i]) == 0);
    }
    UNTIL(has_answered());
    usleep((useconds_t)rng_below(rng, LIFE_MS * 1000));
    /* One time in five it is asked to end, which must lose as little. */
    if (rng_one_in(rng, 5))
        test_server_stop(server);
    else
        test_server_kill(server);
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* One time in four the server is killed once more while it starts, or just after. */
static void start_again(struct server *server, struct rng *rng)
{
    test_server_start(server, IN_FILE);
    if (rng_one_in(rng, 4)) {
        usleep((useconds_t)rng_below(rng, 5000));
        test_server_kill(server);
        test_server_start(server, IN_FILE);
    }
}

static void run_rounds(void)
{
    struct rng rng = {settings.seed};
    struct server server;
    ledger.jobs = mmap(NULL, JOBS_MAX * sizeof *ledger.jobs, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(ledger.jobs != MAP_FAILED);
    test_server_start(&server, IN_FILE);
    for (unsigned i = 0; i < settings.rounds; i++) {
        work_and_kill(&server, &rng);
        start_again(&server, &rng);
        killserver_compare(&server, rng_next(&rng));
        outcome->passed++;
    }
    test_server_stop(&server);
}

static void run_chains(void)
{
    killserver_chains(settings.chains, !settings.in_file, settings.seed);
    outcome->passed++;
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
        if (strcmp(argv[i], "--rounds") == 0)
            settings.rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            settings.seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--chains") == 0)
            settings.chains = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--at") == 0)
            settings.in_file = strcmp(argv[i + 1], "file") == 0;
        else if (!test_server_argument(argv[i], argv[i + 1]))
            return false;
    }
    return argc % 2 == 1 && settings.rounds > 0;
}

int main(int argc, char **argv)
{
    char test[64];
    if (argc == 5 && strcmp(argv[1], "--chain-worker") == 0)
        return killserver_chain_worker(&argv[2]);
    if (!parse(argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    const char *tmp = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/bide-killserver-XXXXXX", tmp ? tmp : "/tmp");
    outcome =
        mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcome == MAP_FAILED || mkdtemp(base) == NULL) {
        perror("killserver");
        return 2;
    }
    bool chains = settings.chains > 0;
    snprintf(test, sizeof test, "%s %u --seed %" PRIu64, chains ? "--chains" : "--rounds",
             chains ? settings.chains : settings.rounds, settings.seed);
    struct isolated_test isolated = {test_server_settings.program, "killserver", test, run_here,
                                     chains ? run_chains : run_rounds};
    unsigned patience_s = chains ? 120 + settings.chains / 2 : 60 + 10 * settings.rounds;
    bool passed = run_isolated(&isolated, &outcome->trace, (int)patience_s);
    remove_folder(base);
    printf("%u passed, %u failed\n", outcome->passed, passed ? 0 : 1);
    return passed ? 0 : 1;
}
