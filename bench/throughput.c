/* SPDX-License-Identifier: MIT */
#include "throughput.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <bide/task.h>

#include "measure.h"

/* Who puts looks around after so many jobs, and rests that long while more than these are ready. */
#define CHECK_EVERY 64
#define READY_MAX   1000
#define THROTTLE_US 50

/* Where putting and taking alternate. */
#define ROUND_JOBS 20000

/* Between two looks at whether all is finished, and how long that may take. */
#define POLL_US     100
#define PATIENCE_NS 60000000000

struct throughput {
    bide *queue;
    const bide_put_options *options;
    int64_t duration_ns;
    void (*put)(struct throughput *throughput);
    bool throttled; /* who puts rests while many jobs are ready */
    pthread_barrier_t start;
    atomic_bool over;
    char body[BENCH_BODY_SIZE];

    /* Where handlers put. */
    int64_t end_ns;
    atomic_uint_fast64_t put_count;
};

struct producer {
    struct throughput *throughput;
    pthread_t thread;
    uint64_t count;
    int64_t began_ns;
};

static void init(struct throughput *throughput, bide *queue, const bide_put_options *options,
                 int64_t duration_ns)
{
    *throughput = (struct throughput){
        .queue = queue, .options = options, .duration_ns = duration_ns, .throttled = true};
    memset(throughput->body, 'x', sizeof(throughput->body));
}

static void start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    if (pthread_create(thread, NULL, run, argument) != 0)
        fail("no thread could be made");
}

/* ---- who puts ---- */

static void put_bytes(struct throughput *throughput)
{
    must("bide_put", bide_put(throughput->queue, BENCH_TOPIC, throughput->body,
                              sizeof(throughput->body), throughput->options, NULL));
}

static void await_consumers(bide *queue)
{
    bide_stats stats;

    for (;;) {
        must("bide_queue_stats", bide_queue_stats(queue, &stats));
        if (stats.jobs.ready <= READY_MAX)
            return;
        measure_sleep_us(THROTTLE_US);
    }
}

static void *produce(void *argument)
{
    struct producer *producer = argument;
    struct throughput *throughput = producer->throughput;

    pthread_barrier_wait(&throughput->start);
    producer->began_ns = measure_now_ns();
    do {
        throughput->put(throughput);
        if (++producer->count % CHECK_EVERY == 0 && throughput->throttled)
            await_consumers(throughput->queue);
    } while (measure_now_ns() - producer->began_ns < throughput->duration_ns);
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
        measure_sleep_us(POLL_US);
    }
}

/* Lets the others put for the time, and answers the jobs a second. */
static double put_all(struct throughput *throughput)
{
    struct producer producers[THROUGHPUT_THREADS] = {{0}};
    uint64_t count = 0;
    int64_t began = INT64_MAX;

    if (pthread_barrier_init(&throughput->start, NULL, THROUGHPUT_THREADS) != 0)
        fail("out of memory");
    for (size_t i = 0; i < THROUGHPUT_THREADS; i++) {
        producers[i].throughput = throughput;
        start_thread(&producers[i].thread, produce, &producers[i]);
    }
    for (size_t i = 0; i < THROUGHPUT_THREADS; i++) {
        pthread_join(producers[i].thread, NULL);
        count += producers[i].count;
        if (producers[i].began_ns < began)
            began = producers[i].began_ns;
    }
    wait_until_finished(throughput->queue);
    int64_t ended = measure_now_ns();
    pthread_barrier_destroy(&throughput->start);
    return (double)count * 1e9 / (double)(ended - began);
}

/* ---- who takes ---- */

static bide_worker *make_worker(bide *queue)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide_worker *worker;

    options.threads = THROUGHPUT_THREADS;
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

static double work(struct throughput *throughput)
{
    bide_worker *worker = make_worker(throughput->queue);

    throughput->put = put_bytes;
    must("bide_worker_handle", bide_worker_handle(worker, BENCH_TOPIC, do_nothing, NULL));
    must("bide_worker_start", bide_worker_start(worker));
    double rate = put_all(throughput);
    free_worker(worker);
    return rate;
}

double throughput_worker(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct throughput throughput;

    init(&throughput, queue, options, duration_ns);
    return work(&throughput);
}

double throughput_burst(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct throughput throughput;

    init(&throughput, queue, options, duration_ns);
    throughput.throttled = false;
    return work(&throughput);
}

static void *consume(void *argument)
{
    struct throughput *throughput = argument;

    for (;;) {
        bide_job job = {0};
        int code = bide_reserve(throughput->queue, BENCH_TOPIC, 100, &job);
        if (code == BIDE_TIMED_OUT) {
            if (atomic_load(&throughput->over))
                return NULL;
            continue;
        }
        must("bide_reserve", code);
        must("bide_delete", bide_delete(throughput->queue, job.id, job.token));
        bide_job_clear(&job);
    }
}

double throughput_reserve(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct throughput throughput;
    pthread_t threads[THROUGHPUT_THREADS];

    init(&throughput, queue, options, duration_ns);
    throughput.put = put_bytes;
    for (size_t i = 0; i < THROUGHPUT_THREADS; i++)
        start_thread(&threads[i], consume, &throughput);
    double rate = put_all(&throughput);
    atomic_store(&throughput.over, true);
    for (size_t i = 0; i < THROUGHPUT_THREADS; i++)
        pthread_join(threads[i], NULL);
    return rate;
}

/* ---- in turns ---- */

static void *put_share(void *argument)
{
    struct throughput *throughput = argument;

    for (size_t i = 0; i < ROUND_JOBS / THROUGHPUT_THREADS; i++)
        put_bytes(throughput);
    return NULL;
}

/* While the topic is paused the worker sleeps. */
static void run_round(struct throughput *throughput)
{
    pthread_t threads[THROUGHPUT_THREADS];

    must("bide_pause", bide_pause(throughput->queue, BENCH_TOPIC, BIDE_FOREVER));
    for (size_t i = 0; i < THROUGHPUT_THREADS; i++)
        start_thread(&threads[i], put_share, throughput);
    for (size_t i = 0; i < THROUGHPUT_THREADS; i++)
        pthread_join(threads[i], NULL);
    must("bide_resume", bide_resume(throughput->queue, BENCH_TOPIC));
    wait_until_finished(throughput->queue);
}

double throughput_alternating(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct throughput throughput;
    bide_worker *worker = make_worker(queue);
    uint64_t count = 0;

    init(&throughput, queue, options, duration_ns);
    must("bide_worker_handle", bide_worker_handle(worker, BENCH_TOPIC, do_nothing, NULL));
    must("bide_worker_start", bide_worker_start(worker));
    int64_t began = measure_now_ns();
    do {
        run_round(&throughput);
        count += ROUND_JOBS;
    } while (measure_now_ns() - began < duration_ns);
    int64_t ended = measure_now_ns();
    free_worker(worker);
    return (double)count * 1e9 / (double)(ended - began);
}

/* ---- handlers that put ---- */

static int put_another(bide_context *context, const bide_slice *body, void *arg)
{
    struct throughput *throughput = arg;

    (void)context;
    (void)body;
    if (measure_now_ns() >= throughput->end_ns)
        return BIDE_DONE;
    put_bytes(throughput);
    atomic_fetch_add_explicit(&throughput->put_count, 1, memory_order_relaxed);
    return BIDE_DONE;
}

double throughput_circulate(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct throughput throughput;
    bide_worker *worker = make_worker(queue);

    init(&throughput, queue, options, duration_ns);
    must("bide_worker_handle", bide_worker_handle(worker, BENCH_TOPIC, put_another, &throughput));
    int64_t began = measure_now_ns();
    throughput.end_ns = began + duration_ns;
    must("bide_worker_start", bide_worker_start(worker));
    for (size_t i = 0; i < THROUGHPUT_THREADS; i++)
        put_another(NULL, NULL, &throughput);
    /* They put until the time is over: before that there is nothing to look at. */
    measure_sleep_us(duration_ns / 1000);
    wait_until_finished(queue);
    int64_t ended = measure_now_ns();
    free_worker(worker);
    return (double)atomic_load(&throughput.put_count) * 1e9 / (double)(ended - began);
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

static void publish(struct throughput *throughput)
{
    struct parcel parcel = {
        .order = 1234567,
        .name = "Ada Lovelace",
        .street = "12 St James's Square, London",
        .weight = 2.5,
        .urgent = true,
    };

    must("bide_publish",
         bide_publish(throughput->queue, send_parcel, parcel, throughput->options, NULL));
}

static int send_nothing(bide_context *context, const struct parcel *parcel, void *arg)
{
    (void)context;
    (void)parcel;
    (void)arg;
    return BIDE_DONE;
}

double throughput_publish(bide *queue, const bide_put_options *options, int64_t duration_ns)
{
    struct throughput throughput;
    bide_worker *worker = make_worker(queue);

    init(&throughput, queue, options, duration_ns);
    throughput.put = publish;
    must("bide_handle", bide_handle(worker, send_parcel, send_nothing, NULL));
    must("bide_worker_start", bide_worker_start(worker));
    double rate = put_all(&throughput);
    free_worker(worker);
    return rate;
}

#endif
