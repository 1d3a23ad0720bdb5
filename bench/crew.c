/* SPDX-License-Identifier: MIT */
#include "crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <bide/task.h>

#include "measure.h"

/* Who puts looks around after so many jobs, and rests that long while more than these are ready. */
#define LOOK_EVERY 64
#define READY_MAX  1000
#define REST_US    50

/* Where putting and taking alternate. */
#define TURN_JOBS 20000

/* Between two looks at whether all is finished, and how long that may take. */
#define LOOK_US     100
#define PATIENCE_NS 60000000000

struct crew {
    bide *queue;
    const bide_put_options *options;
    int64_t duration_ns;
    void (*put)(struct crew *crew);
    bool rests; /* who puts rests while many jobs are ready */
    pthread_barrier_t start;
    atomic_bool over;
    char body[BENCH_BODY_SIZE];

    /* Where handlers put. */
    int64_t end_ns;
    atomic_uint_fast64_t put_count;
};

struct producer {
    struct crew *crew;
    pthread_t thread;
    uint64_t count;
    int64_t began_ns;
};

static void init(struct crew *crew, bide *queue, const bide_put_options *options,
                 int64_t duration_ns)
{
    *crew = (struct crew){
        .queue = queue, .options = options, .duration_ns = duration_ns, .rests = true};
    memset(crew->body, 'x', sizeof(crew->body));
}

static void start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    if (pthread_create(thread, NULL, run, argument) != 0)
        fail("no thread could be made");
}

/* ---- who puts ---- */

static void put_bytes(struct crew *crew)
{
    must("bide_put",
         bide_put(crew->queue, BENCH_TOPIC, crew->body, sizeof(crew->body), crew->options, NULL));
}

static void await_takers(bide *queue)
{
    bide_stats stats;

    for (;;) {
        must("bide_queue_stats", bide_queue_stats(queue, &stats));
        if (stats.jobs.ready <= READY_MAX)
            return;
        measure_sleep_us(REST_US);
    }
}

static void *produce(void *argument)
{
    struct producer *producer = argument;
    struct crew *crew = producer->crew;

    pthread_barrier_wait(&crew->start);
    producer->began_ns = measure_now_ns();
    do {
        crew->put(crew);
        if (++producer->count % LOOK_EVERY == 0 && crew->rests)
            await_takers(crew->queue);
    } while (measure_now_ns() - producer->began_ns < crew->duration_ns);
    return NULL;
}

/* No job is left, and no answer is owed to anybody. */
static void wait_until_finished(bide *queue)
{
    int64_t give_up_ns = measure_now_ns() + PATIENCE_NS;
    bide_stats stats;

    for (;;) {
        must("bide_queue_stats", bide_queue_stats(queue, &stats));
        if (stats.jobs.ready == 0 && stats.jobs.reserved == 0 &&
            stats.pending_ops == stats.waiting + stats.watching)
            return;
        if (measure_now_ns() > give_up_ns)
            fail("the jobs are not finished");
        measure_sleep_us(LOOK_US);
    }
}

/* Lets the others put for the time, and answers the jobs a second. */
static double put_all(struct crew *crew)
{
    struct producer producers[CREW_THREADS] = {{0}};
    uint64_t count = 0;
    int64_t began = INT64_MAX;

    if (pthread_barrier_init(&crew->start, NULL, CREW_THREADS) != 0)
        fail("out of memory");
    for (size_t i = 0; i < CREW_THREADS; i++) {
        producers[i].crew = crew;
        start_thread(&producers[i].thread, produce, &producers[i]);
    }
    for (size_t i = 0; i < CREW_THREADS; i++) {
        pthread_join(producers[i].thread, NULL);
        count += producers[i].count;
        if (producers[i].began_ns < began)
            began = producers[i].began_ns;
    }
    wait_until_finished(crew->queue);
    int64_t ended = measure_now_ns();
    pthread_barrier_destroy(&crew->start);
    return (double)count * 1e9 / (double)(ended - began);
}

/* ---- who takes ---- */

static bide_worker *make_worker(bide *queue)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide_worker *worker;

    options.threads = CREW_THREADS;
    must("bide_worker_new", bide_worker_new(queue, &options, &worker));
    return worker;
}

static void free_worker(bide_worker *worker)
{
    must("bide_worker_stop", bide_worker_stop(worker));
    must("bide_worker_free", bide_worker_free(worker));
}

static int do_nothing(bide_context *context, const bide_slice *body, void *arg)
{
    (void)context;
    (void)body;
    (void)arg;
    return BIDE_DONE;
}

static double work(struct crew *crew)
{
    bide_worker *worker = make_worker(crew->queue);

    crew->put = put_bytes;
    must("bide_worker_handle", bide_worker_handle(worker, BENCH_TOPIC, do_nothing, NULL));
    must("bide_worker_start", bide_worker_start(worker));
    double rate = put_all(crew);
    free_worker(worker);
    return rate;
}

double crew_work(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct crew crew;

    init(&crew, queue, options, duration_ns);
    return work(&crew);
}

double crew_burst(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct crew crew;

    init(&crew, queue, options, duration_ns);
    crew.rests = false;
    return work(&crew);
}

static void *take(void *argument)
{
    struct crew *crew = argument;

    for (;;) {
        bide_job job = {0};
        int code = bide_reserve(crew->queue, BENCH_TOPIC, 100, &job);
        if (code == BIDE_TIMED_OUT) {
            if (atomic_load(&crew->over))
                return NULL;
            continue;
        }
        must("bide_reserve", code);
        must("bide_delete", bide_delete(crew->queue, job.id, job.token));
        bide_job_clear(&job);
    }
}

double crew_reserve(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct crew crew;
    pthread_t threads[CREW_THREADS];

    init(&crew, queue, options, duration_ns);
    crew.put = put_bytes;
    for (size_t i = 0; i < CREW_THREADS; i++)
        start_thread(&threads[i], take, &crew);
    double rate = put_all(&crew);
    atomic_store(&crew.over, true);
    for (size_t i = 0; i < CREW_THREADS; i++)
        pthread_join(threads[i], NULL);
    return rate;
}

/* ---- in turns ---- */

static void *put_share(void *argument)
{
    struct crew *crew = argument;

    for (size_t i = 0; i < TURN_JOBS / CREW_THREADS; i++)
        put_bytes(crew);
    return NULL;
}

/* While the topic is paused the worker sleeps. */
static void take_turn(struct crew *crew)
{
    pthread_t threads[CREW_THREADS];

    must("bide_pause", bide_pause(crew->queue, BENCH_TOPIC, BIDE_FOREVER));
    for (size_t i = 0; i < CREW_THREADS; i++)
        start_thread(&threads[i], put_share, crew);
    for (size_t i = 0; i < CREW_THREADS; i++)
        pthread_join(threads[i], NULL);
    must("bide_resume", bide_resume(crew->queue, BENCH_TOPIC));
    wait_until_finished(crew->queue);
}

double crew_turns(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct crew crew;
    bide_worker *worker = make_worker(queue);
    uint64_t count = 0;

    init(&crew, queue, options, duration_ns);
    must("bide_worker_handle", bide_worker_handle(worker, BENCH_TOPIC, do_nothing, NULL));
    must("bide_worker_start", bide_worker_start(worker));
    int64_t began = measure_now_ns();
    do {
        take_turn(&crew);
        count += TURN_JOBS;
    } while (measure_now_ns() - began < duration_ns);
    int64_t ended = measure_now_ns();
    free_worker(worker);
    return (double)count * 1e9 / (double)(ended - began);
}

/* ---- handlers that put ---- */

static int put_another(bide_context *context, const bide_slice *body, void *arg)
{
    struct crew *crew = arg;

    (void)context;
    (void)body;
    if (measure_now_ns() >= crew->end_ns)
        return BIDE_DONE;
    put_bytes(crew);
    atomic_fetch_add_explicit(&crew->put_count, 1, memory_order_relaxed);
    return BIDE_DONE;
}

double crew_circulate(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct crew crew;
    bide_worker *worker = make_worker(queue);

    init(&crew, queue, options, duration_ns);
    must("bide_worker_handle", bide_worker_handle(worker, BENCH_TOPIC, put_another, &crew));
    int64_t began = measure_now_ns();
    crew.end_ns = began + duration_ns;
    must("bide_worker_start", bide_worker_start(worker));
    for (size_t i = 0; i < CREW_THREADS; i++)
        put_another(NULL, NULL, &crew);
    /* They put until the time is over: before that there is nothing to look at. */
    measure_sleep_us(duration_ns / 1000);
    wait_until_finished(queue);
    int64_t ended = measure_now_ns();
    free_worker(worker);
    return (double)atomic_load(&crew.put_count) * 1e9 / (double)(ended - began);
}

/* ---- structs ---- */

#ifdef BIDE_WITH_JSON

struct parcel {
    uint64_t order;
    const char *name;
    const char *street;
    double weight;
    bool urgent;
};
BIDE_TYPE(parcel, struct parcel, BIDE_FIELD(order), BIDE_FIELD(name), BIDE_FIELD(street),
          BIDE_FIELD(weight), BIDE_FIELD(urgent));
BIDE_TASK(send_parcel, parcel, .topic = BENCH_TOPIC);

static void publish(struct crew *crew)
{
    struct parcel parcel = {
        .order = 1234567,
        .name = "Ada Lovelace",
        .street = "12 St James's Square, London",
        .weight = 2.5,
        .urgent = true,
    };

    must("bide_publish", bide_publish(crew->queue, send_parcel, parcel, crew->options, NULL));
}

static int send_nothing(bide_context *context, const struct parcel *parcel, void *arg)
{
    (void)context;
    (void)parcel;
    (void)arg;
    return BIDE_DONE;
}

double crew_publish(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct crew crew;
    bide_worker *worker = make_worker(queue);

    init(&crew, queue, options, duration_ns);
    crew.put = publish;
    must("bide_handle", bide_handle(worker, send_parcel, send_nothing, NULL));
    must("bide_worker_start", bide_worker_start(worker));
    double rate = put_all(&crew);
    free_worker(worker);
    return rate;
}

#endif
