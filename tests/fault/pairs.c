/* SPDX-License-Identifier: MIT */
/*
 * pairs.c - several faults at a time under load (crew.h): syncs hang, commits and reads fail, the
 * disk is full, jobs are still being loaded, servers stop and start.
 */
#include "crew.h"
#include "fault.h"
#include "served.h"
#include "vfs.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOPIC CREW_TOPIC

static void check_reopened(void)
{
    bide_stats stats;
    bide *queue = open_jobs("");
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready + stats.jobs.reserved + stats.jobs.delayed + stats.jobs.buried, 0);
    OK(bide_close(queue));
}

static void run_local(const char *parameters, void (*spoil)(struct crew *))
{
    vfs_install();
    struct crew *crew = crew_new();
    bide *queue = open_jobs(parameters);
    crew->queues[0] = crew->queues[1] = queue;
    crew_run(crew, queue, spoil);
    OK(bide_close(queue));
    check_reopened();
    free(crew);
}

static void in_process(void)
{
    run_local("cache_bytes=1", crew_spoil);
}

static void in_process_with_the_wheel(void)
{
    run_local("cache_bytes=1&ticker=wheel&wheel_tick=5ms&batch_jobs=8", crew_spoil);
}

/* ---- commits of which nothing is known ---- */

/* Syncs fail, and the file cannot be opened again, for longer than the store is tried. */
static void spoil_for_long(struct crew *crew)
{
    int64_t limit = clock_us() + 3 * PATIENCE_MS * 1000;
    nap_ms(200);
    vfs_fail(&(struct vfs_fault){VFS_SYNC, "", 1, 0, SQLITE_IOERR_FSYNC, EIO});
    vfs_fail(&(struct vfs_fault){VFS_OPEN, "", 1, 0, SQLITE_CANTOPEN, EIO});
    while (atomic_load(&crew->unknown) == 0) { /* until some are told that nothing is known */
        CHECK(clock_us() < limit);
        nap_ms(10);
    }
    nap_ms(1500);
    vfs_heal();
    nap_ms(300);
}

static void in_process_with_commits_of_unknown_outcome(void)
{
    run_local("cache_bytes=1", spoil_for_long);
}

/* ---- while jobs are loaded ---- */

static void fail_commits_while_loading(struct crew *crew)
{
    bide_recovery recovery;
    unsigned failed = vfs_failed();
    CODE(bide_wait_recovered(crew->queues[0], 0, &recovery), BIDE_TIMED_OUT);
    for (unsigned i = 0; i < 20; i++) {
        vfs_fail(&(struct vfs_fault){i % 2 == 0 ? VFS_WRITE : VFS_SYNC, "", 1, 1 + i % 3,
                                     i % 2 == 0 ? SQLITE_IOERR_WRITE : SQLITE_IOERR_FSYNC, EIO});
        nap_ms(40);
        if (i % 5 == 4)
            vfs_fail(&(struct vfs_fault){VFS_READ, "jobs.db", 1, 5, SQLITE_IOERR_READ, EIO});
        nap_ms(20);
        vfs_heal();
    }
    CHECK(vfs_failed() > failed);
    vfs_slow_reads(0);
    OK(bide_wait_recovered(crew->queues[0], PATIENCE_MS, &recovery));
    EQ(recovery.failed, 0);
}

/* Commits fail while the jobs of an earlier process are being loaded and worked off. */
static void while_jobs_are_loaded(void)
{
    vfs_install();
    struct crew *crew = crew_new();
    bide *queue = open_jobs("sync=off");
    crew->queues[0] = crew->queues[1] = queue;
    crew_put(crew, 4000);
    OK(bide_close(queue));
    vfs_slow_reads(10000);
    OK(bide_open(url_of("jobs.db", "cache_bytes=1"), NULL, &queue));
    crew->queues[0] = crew->queues[1] = queue;
    crew_run(crew, queue, fail_commits_while_loading);
    OK(bide_close(queue));
    check_reopened();
    free(crew);
}

/* ---- kick and purge ---- */

#define MANY 3000

struct sliced {
    bide *queue;
    atomic_bool over;
    uint64_t kicked, purged; /* as the answers say */
};

static void put_many(bide *queue, const char *topic, const bide_put_options *options)
{
    static const char body[6000];
    bide_put_item items[100];
    memset(items, 0, sizeof items);
    for (int i = 0; i < MANY; i += (int)COUNT(items)) {
        size_t accepted;
        for (size_t k = 0; k < COUNT(items); k++)
            items[k] = (bide_put_item){
                .topic = slice_of(topic), .body = {body, sizeof body}, .options = options};
        OK(bide_put_many(queue, items, COUNT(items), &accepted));
        EQ(accepted, COUNT(items));
    }
}

static uint64_t delayed_in(bide *queue, const char *topic)
{
    bide_topic_stats stats;
    int code = bide_topic_get_stats(queue, topic, &stats);
    CHECK(code == BIDE_OK || code == BIDE_NOT_FOUND);
    return code == BIDE_OK ? stats.jobs.delayed : 0;
}

/* A call that fails answers how much of what it did is stored. */
static void *kick_and_purge(void *arg)
{
    struct sliced *sliced = arg;
    do {
        uint64_t count = 0;
        bide_kick(sliced->queue, "kicked", 2 * (uint64_t)MANY, &count);
        sliced->kicked += count;
        count = 0;
        bide_purge(sliced->queue, "purged", BIDE_STATE_DELAYED, &count);
        sliced->purged += count;
    } while (!atomic_load(&sliced->over));
    return NULL;
}

static void *take_kicked(void *arg)
{
    struct sliced *sliced = arg;
    bide_job job;
    while (!atomic_load(&sliced->over))
        if (bide_reserve(sliced->queue, "kicked", 5, &job) == BIDE_OK) {
            EQ(job.kicks, 1);
            while (bide_give_back(sliced->queue, job.id, job.token) < 0)
                nap_ms(1);
            bide_job_clear(&job);
        }
    return NULL;
}

static void kicks_and_purges_count_beside_failing_commits_and_reads(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct sliced sliced = {.kicked = 0};
    pthread_t threads[2];
    bide_stats stats;
    vfs_install();
    options.delay_ms = HOUR_MS;
    options.ttr_ms = HOUR_MS;
    bide *queue = open_jobs("sync=off");
    put_many(queue, "kicked", &options);
    put_many(queue, "purged", &options);
    OK(bide_close(queue));
    sliced.queue = queue = open_jobs("cache_bytes=1&batch_jobs=50");
    unsigned failed = vfs_failed();
    CHECK(pthread_create(&threads[0], NULL, kick_and_purge, &sliced) == 0);
    CHECK(pthread_create(&threads[1], NULL, take_kicked, &sliced) == 0);
    for (unsigned i = 0; i < 40; i++) {
        vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1 + i % 7, 1, SQLITE_IOERR_WRITE, EIO});
        vfs_fail(&(struct vfs_fault){VFS_READ, "jobs.db", 1 + i % 5, 2, SQLITE_IOERR_READ, EIO});
        nap_ms(20);
        vfs_heal();
    }
    CHECK(vfs_failed() > failed);
    UNTIL(delayed_in(queue, "kicked") + delayed_in(queue, "purged") == 0);
    atomic_store(&sliced.over, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    EQ(sliced.kicked, MANY);
    EQ(sliced.purged, MANY);
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, MANY);
    EQ(stats.jobs.reserved + stats.jobs.delayed + stats.jobs.buried, 0);
    OK(bide_close(queue));
    queue = open_jobs("");
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, MANY);
    OK(bide_close(queue));
}

/* ---- one pair at a time ---- */

static void *take_one(void *arg)
{
    bide_job job;
    bide_reserve(arg, TOPIC, PATIENCE_MS, &job);
    return NULL;
}

/* A thread is cancelled while its reserve is being stored, and the commit in which the job is given
 * back fails. */
static void a_job_of_a_cancelled_thread_comes_back(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    pthread_t thread;
    bide_job job;
    vfs_install();
    options.ttr_ms = HOUR_MS;
    options.max_retries = 1;
    bide *queue = open_jobs("");
    OK(bide_put(queue, TOPIC, "x", 1, &options, NULL));
    vfs_hold_syncs(true);
    CHECK(pthread_create(&thread, NULL, take_one, queue) == 0);
    UNTIL(vfs_held_syncs() > 0);
    CHECK(pthread_cancel(thread) == 0);
    unsigned failed = vfs_failed();
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "", 1, 0, SQLITE_IOERR_WRITE, EIO});
    vfs_hold_syncs(false);
    UNTIL(vfs_failed() > failed);
    vfs_heal();
    CHECK(pthread_join(thread, NULL) == 0);
    OK(bide_reserve(queue, TOPIC, 0, &job));
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
    OK(bide_close(queue));
}

#ifdef FAULT_SERVER
static void run_served(bool directed, void (*spoil)(struct crew *))
{
    struct served served;
    vfs_install();
    struct crew *crew = crew_new();
    crew->directed = directed;
    serve_begin(&served, "cache_bytes=1");
    for (size_t i = 0; i < COUNT(crew->queues); i++)
        crew->queues[i] = serve_open(&served);
    snprintf(crew->socket, sizeof crew->socket, "%s", served.socket);
    crew_run(crew, served.queue, spoil);
    for (size_t i = 0; i < COUNT(crew->queues); i++)
        OK(bide_close(crew->queues[i]));
    serve_end(&served);
    check_reopened();
    free(crew);
}

static void at_a_server(void)
{
    run_served(false, crew_spoil);
}

/* Pauses and drains come and go, beside everything else. The commits of a server are deferred to the end
 * of a turn. */
static void at_a_server_with_pauses_and_drains(void)
{
    run_served(true, crew_spoil);
}

static void at_a_server_with_commits_of_unknown_outcome(void)
{
    run_served(false, spoil_for_long);
}

/* ---- a full disk over a restart ---- */

#define HOLDERS 20

static void fill(bide *client)
{
    static const char body[20000];
    int code = BIDE_OK;
    for (int i = 0; code == BIDE_OK; i++) {
        CHECK(i < 10000);
        code = bide_put(client, "filling", body, sizeof body, NULL, NULL);
    }
    EQ(code, BIDE_EFULL);
}

/* Leases that are held by token outlive an orderly stop also while the disk is full: every holder can
 * finish, and no job is given to another. */
static void leases_outlive_a_restart_on_a_full_disk(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_job held[HOLDERS], job;
    struct served served;
    bide_stats stats;
    vfs_install();
    options.ttr_ms = HOUR_MS;
    serve_begin(&served, "cache_bytes=1");
    bide *client = serve_open(&served);
    for (int i = 0; i < HOLDERS; i++) {
        options.max_retries = i % 2 == 0 ? 0 : BIDE_NO_RETRY_LIMIT;
        OK(bide_put(client, TOPIC, "x", 1, &options, NULL));
        OK(bide_reserve(client, TOPIC, 0, &held[i]));
    }
    vfs_limit(vfs_used() + 300000);
    fill(client);
    OK(bide_queue_stats(served.queue, &stats));
    uint64_t ready = stats.jobs.ready;
    serve_end(&served);
    serve_begin(&served, "cache_bytes=1");
    OK(bide_queue_stats(served.queue, &stats));
    EQ(stats.jobs.reserved, HOLDERS);
    EQ(stats.jobs.ready, ready);
    UNTIL(bide_ping(client) == BIDE_OK);
    CODE(bide_reserve(client, TOPIC, 0, &job), BIDE_TIMED_OUT);
    for (int i = 0; i < HOLDERS; i++) {
        OK(bide_touch(client, held[i].id, held[i].token, 0, NULL));
        OK(bide_delete(client, held[i].id, held[i].token));
        bide_job_clear(&held[i]);
    }
    vfs_limit(0);
    UNTIL(bide_put(client, TOPIC, "x", 1, NULL, NULL) == BIDE_OK);
    OK(bide_reserve(client, TOPIC, 0, &job));
    OK(bide_delete(client, job.id, job.token));
    bide_job_clear(&job);
    for (uint64_t i = 0; i < ready; i++) {
        OK(bide_reserve(client, "filling", 0, &job));
        OK(bide_delete(client, job.id, job.token));
        bide_job_clear(&job);
    }
    OK(bide_close(client));
    serve_end(&served);
    check_reopened();
}

/* A stop gives back what beanstalkd clients hold, also when a commit fails on the way: the next
 * process must not take their leases for good. */
static void a_stop_gives_back_although_a_commit_fails(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct served served;
    bide_stats stats;
    bide_job job;
    vfs_install();
    options.ttr_ms = HOUR_MS;
    options.max_retries = 1;
    serve_begin(&served, "");
    OK(bide_put(served.queue, TOPIC, "x", 1, &options, NULL));
    int fd = serve_connect(&served);
    serve_say(fd, "watch " TOPIC "\r\nreserve\r\n");
    serve_hear(fd, "RESERVED");
    unsigned failed = vfs_failed();
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 1, SQLITE_IOERR_WRITE, EIO});
    serve_end(&served);
    CHECK(vfs_failed() > failed);
    vfs_heal();
    close(fd);
    serve_begin(&served, "");
    OK(bide_queue_stats(served.queue, &stats));
    EQ(stats.jobs.delayed, 0);
    EQ(stats.jobs.reserved, 0);
    EQ(stats.jobs.ready, 1);
    OK(bide_reserve(served.queue, TOPIC, 0, &job));
    bide_job_clear(&job);
    serve_end(&served);
}

/* ---- some clients send much, another little ---- */

#define SENDERS 16
#define EACH    2000

static void *send_many(void *arg)
{
    static const char put[] = "put 0 0 100 1\r\nx\r\n";
    const int *fd = arg;
    for (int i = 0; i < EACH; i++)
        CHECK(send(*fd, put, sizeof put - 1, MSG_NOSIGNAL) == (ssize_t)sizeof put - 1);
    return NULL;
}

static uint64_t ready_jobs(bide *queue)
{
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    return stats.jobs.ready;
}

/* Hears the answers of so many puts; returns the last id. */
static uint64_t hear_ids(int fd, int count)
{
    char line[64] = "";
    size_t size = 0;
    while (count > 0) {
        CHECK(size < sizeof line - 1);
        CHECK(recv(fd, &line[size], 1, 0) == 1);
        if (line[size++] != '\n')
            continue;
        line[size] = 0;
        CHECK(memcmp(line, "INSERTED ", 9) == 0);
        size = 0;
        count--;
    }
    return strtoull(line + 9, NULL, 10);
}

static void send_all(int fd, const char *command, int count)
{
    char text[10000] = "";
    size_t size = strlen(command);
    CHECK(size * (size_t)count < sizeof text);
    for (int i = 0; i < count; i++)
        memcpy(text + (size_t)i * size, command, size + 1);
    serve_say(fd, text);
}

static void hear_lines(int fd, int count)
{
    char byte;
    while (count > 0) {
        CHECK(recv(fd, &byte, 1, 0) == 1);
        count -= byte == '\n';
    }
}

/* Waits until the server takes no more jobs; answers how many there are. */
static uint64_t await_still(const struct served *served)
{
    uint64_t ready = 0;
    for (int still = 0; still < 20;) {
        uint64_t now = ready_jobs(served->queue);
        still = now > 0 && now == ready ? still + 1 : 0;
        ready = now;
        nap_ms(10);
    }
    return ready;
}

struct senders {
    pthread_t threads[SENDERS];
    int fds[SENDERS];
};

/* The disk takes nothing, and some clients send much, until the server takes no more of it. Answers how
 * many jobs there are. */
static uint64_t begin_to_send(struct senders *senders, const struct served *served)
{
    vfs_hold_syncs(true);
    for (int i = 0; i < SENDERS; i++) {
        senders->fds[i] = serve_connect(served);
        CHECK(pthread_create(&senders->threads[i], NULL, send_many, &senders->fds[i]) == 0);
    }
    return await_still(served);
}

static void end_sending(struct senders *senders)
{
    for (int i = 0; i < SENDERS; i++) {
        hear_ids(senders->fds[i], EACH);
        CHECK(pthread_join(senders->threads[i], NULL) == 0);
        close(senders->fds[i]);
    }
}

/* While the disk takes nothing the server takes only a bounded part of what some clients send. So the
 * put of another one is not stored behind all of it. */
static void a_client_that_sends_little_goes_before_the_rest_of_much(void)
{
    struct served served;
    struct senders senders;
    vfs_install();
    serve_begin(&served, "sync=full");
    int little = serve_connect(&served);
    uint64_t ready = begin_to_send(&senders, &served);
    CHECK(send(little, "put 0 0 100 1\r\nx\r\n", 18, MSG_NOSIGNAL) == 18);
    UNTIL(ready_jobs(served.queue) > ready);
    vfs_hold_syncs(false);
    CHECK(hear_ids(little, 1) < SENDERS * EACH / 2);
    end_sending(&senders);
    EQ(ready_jobs(served.queue), SENDERS * EACH + 1);
    close(little);
    serve_end(&served);
}

#define AT_ONCE    50
#define LARGE_BODY 60000

/* Others that send one large job each, all at once, go before it, too, although a round of the server
 * does not read them all. */
static void so_do_many_that_send_one_large_job_each(void)
{
    static char put[LARGE_BODY + 100];
    struct served served;
    struct senders senders;
    int large[AT_ONCE];
    vfs_install();
    serve_begin(&served, "sync=full");
    for (int i = 0; i < AT_ONCE; i++)
        large[i] = serve_connect(&served);
    snprintf(put, sizeof put, "put 0 0 100 %d\r\n%0*d\r\n", LARGE_BODY, LARGE_BODY, 0);
    uint64_t ready = begin_to_send(&senders, &served);
    for (int i = 0; i < AT_ONCE; i++)
        serve_say(large[i], put);
    UNTIL(ready_jobs(served.queue) >= ready + AT_ONCE);
    vfs_hold_syncs(false);
    for (int i = 0; i < AT_ONCE; i++) {
        hear_ids(large[i], 1);
        close(large[i]);
    }
    end_sending(&senders);
    serve_end(&served);
}

#define BURSTS 60
#define BURST  500 /* commands */
/* What may wait of those that send much, and what each may send before it is one of them. */
#define TAKEN_MOST (4000 + 2 * 1024 + BURSTS * 128)

/* Many new connections send many puts each while the disk takes nothing. Answers how many were taken. */
static uint64_t begin_bursts(const struct served *served, int *fds)
{
    vfs_hold_syncs(true);
    for (int i = 0; i < BURSTS; i++) {
        fds[i] = serve_connect(served);
        send_all(fds[i], "put 0 0 100 1\r\nx\r\n", BURST);
    }
    return await_still(served);
}

/* The disk works again: every put is answered. */
static void end_bursts(int *fds)
{
    for (int i = 0; i < BURSTS; i++) {
        hear_ids(fds[i], BURST);
        close(fds[i]);
    }
}

/* Nor does it take all that new connections send at once, each in one read: it stays in their inputs. */
static void bursts_of_many_new_connections_are_taken_in_turn(void)
{
    struct served served;
    int fds[BURSTS];
    vfs_install();
    serve_begin(&served, "sync=full");
    int little = serve_connect(&served);
    uint64_t ready = begin_bursts(&served, fds);
    CHECK(ready < TAKEN_MOST);
    send_all(little, "put 0 0 100 1\r\nx\r\n", 1);
    UNTIL(ready_jobs(served.queue) > ready);
    vfs_hold_syncs(false);
    CHECK(hear_ids(little, 1) <= ready + 1);
    end_bursts(fds);
    EQ(ready_jobs(served.queue), BURSTS * BURST + 1);
    close(little);
    serve_end(&served);
}

/* Those whose rest waits for the disk are closed when their clients go, and cost no time. */
static void connections_that_wait_for_the_disk_are_closed_when_their_clients_go(void)
{
    static const struct linger reset = {.l_onoff = 1};
    struct served served;
    int fds[BURSTS];
    vfs_install();
    serve_begin(&served, "sync=full");
    int other = serve_connect(&served);
    begin_bursts(&served, fds);
    for (int i = 0; i < BURSTS; i++) {
        setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fds[i]);
    }
    serve_await(other, "stats\r\n", "\ncurrent-connections: 1\n");
    vfs_hold_syncs(false);
    close(other);
    serve_end(&served);
}

/* What stores nothing does not wait for the disk, however much of it comes at once. */
static void commands_that_only_look_do_not_wait_for_the_disk(void)
{
    struct served served;
    int fds[BURSTS];
    vfs_install();
    serve_begin(&served, "sync=full");
    begin_bursts(&served, fds);
    int looks = serve_connect(&served);
    send_all(looks, "list-tube-used\r\n", BURST);
    hear_lines(looks, BURST);
    vfs_hold_syncs(false);
    end_bursts(fds);
    close(looks);
    serve_end(&served);
}

/* A connection whose command was not read, because it had sent much before, is not idle. */
static void commands_that_wait_for_the_disk_keep_a_connection(void)
{
    struct served served;
    int fds[BURSTS], earlier[SENDERS];
    vfs_install();
    serve_idle(2000);
    serve_begin(&served, "sync=full");
    for (int i = 0; i < SENDERS; i++) {
        earlier[i] = serve_connect(&served);
        send_all(earlier[i], "put 0 0 100 1\r\nx\r\n", BURST);
        hear_ids(earlier[i], BURST);
    }
    begin_bursts(&served, fds);
    for (int i = 0; i < SENDERS; i++)
        send_all(earlier[i], "put 0 0 100 1\r\nx\r\n", 1);
    nap_ms(4000); /* the server looks each second */
    vfs_hold_syncs(false);
    for (int i = 0; i < SENDERS; i++) {
        hear_ids(earlier[i], 1);
        close(earlier[i]);
    }
    end_bursts(fds);
    serve_end(&served);
}

#define LITTLE_SENDERS 50
#define LITTLE         100 /* commands: fewer than what the server takes for many */
#define MUCH           200

/* The changes of many clients that send little wait for the disk. That does not keep the server from
 * reading another one that sends much. */
static void a_client_that_sends_much_is_read_beside_many_that_send_little(void)
{
    struct served served;
    int little[LITTLE_SENDERS];
    vfs_install();
    serve_begin(&served, "sync=full");
    int much = serve_connect(&served);
    vfs_hold_syncs(true);
    for (int i = 0; i < LITTLE_SENDERS; i++) {
        little[i] = serve_connect(&served);
        send_all(little[i], "put 0 0 100 1\r\nx\r\n", LITTLE);
    }
    UNTIL(ready_jobs(served.queue) == LITTLE_SENDERS * LITTLE);
    for (int i = 0; i < 3; i++) {
        send_all(much, "list-tube-used\r\n", MUCH);
        hear_lines(much, MUCH);
    }
    vfs_hold_syncs(false);
    for (int i = 0; i < LITTLE_SENDERS; i++) {
        hear_ids(little[i], LITTLE);
        close(little[i]);
    }
    close(much);
    serve_end(&served);
}
#endif

static const struct test tests[] = {
    TEST(in_process),
    TEST(in_process_with_the_wheel),
    TEST(in_process_with_commits_of_unknown_outcome),
    TEST(while_jobs_are_loaded),
    TEST(kicks_and_purges_count_beside_failing_commits_and_reads),
    TEST(a_job_of_a_cancelled_thread_comes_back),
#ifdef FAULT_SERVER
    TEST(at_a_server),
    TEST(at_a_server_with_pauses_and_drains),
    TEST(at_a_server_with_commits_of_unknown_outcome),
    TEST(leases_outlive_a_restart_on_a_full_disk),
    TEST(a_stop_gives_back_although_a_commit_fails),
    TEST(a_client_that_sends_little_goes_before_the_rest_of_much),
    TEST(so_do_many_that_send_one_large_job_each),
    TEST(bursts_of_many_new_connections_are_taken_in_turn),
    TEST(connections_that_wait_for_the_disk_are_closed_when_their_clients_go),
    TEST(commands_that_only_look_do_not_wait_for_the_disk),
    TEST(commands_that_wait_for_the_disk_keep_a_connection),
    TEST(a_client_that_sends_much_is_read_beside_many_that_send_little),
#endif
};
const struct theme pairs_theme = {"pairs", tests, COUNT(tests)};
