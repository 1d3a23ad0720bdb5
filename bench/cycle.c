/* SPDX-License-Identifier: MIT */
#include "cycle.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "list.h"
#include "measure.h"

struct worker {
    pthread_t thread;
    pthread_barrier_t *start;
    bide *queue;
    enum by by;
    size_t count; /* a multiple of LIST_SIZE */
    struct random random;
    int64_t began_ns;
    int64_t ended_ns;
    int64_t cpu_ns;
};

/* What one run took, in microseconds per cycle. */
struct took {
    double wall;
    double cpu;
};

static void run_calls(struct worker *worker)
{
    char body[BENCH_BODY_SIZE];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_job job = {0};

    memset(body, 'x', sizeof(body));
    for (size_t i = 0; i < worker->count; i++) {
        options.priority = (uint32_t)random_next(&worker->random);
        must("bide_put", bide_put(worker->queue, BENCH_TOPIC, body, sizeof(body), &options, NULL));
        must("bide_reserve", bide_reserve(worker->queue, BENCH_TOPIC, 0, &job));
        must("bide_delete", bide_delete(worker->queue, job.id, job.token));
        bide_job_clear(&job);
    }
}

static void run_lists(struct worker *worker, struct list *list)
{
    for (size_t done = 0; done < worker->count; done += LIST_SIZE) {
        for (size_t i = 0; i < LIST_SIZE; i++)
            list->options[i].priority = (uint32_t)random_next(&worker->random);
        list_put(list, LIST_SIZE);
        list_reserve(list, LIST_SIZE);
        list_delete(list, LIST_SIZE);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct list *list = worker->by == BY_SUBMIT ? list_new(worker->queue) : NULL;

    pthread_barrier_wait(worker->start);
    worker->began_ns = measure_now_ns();
    worker->cpu_ns = -measure_cpu_ns();
    if (list != NULL)
        run_lists(worker, list);
    else
        run_calls(worker);
    worker->cpu_ns += measure_cpu_ns();
    worker->ended_ns = measure_now_ns();
    if (list != NULL)
        list_free(list);
    return NULL;
}

static struct took sum_up(const struct worker *workers, size_t threads)
{
    int64_t began = workers[0].began_ns;
    int64_t ended = workers[0].ended_ns;
    int64_t cpu = 0;
    double cycles = (double)(workers[0].count * threads);

    for (size_t i = 0; i < threads; i++) {
        if (workers[i].began_ns < began)
            began = workers[i].began_ns;
        if (workers[i].ended_ns > ended)
            ended = workers[i].ended_ns;
        cpu += workers[i].cpu_ns;
    }
    return (struct took){
        .wall = (double)(ended - began) / 1000 / cycles,
        .cpu = (double)cpu / 1000 / cycles,
    };
}

static struct took run(const struct cycle *cycle, size_t count)
{
    struct worker *workers = calloc(cycle->threads, sizeof(*workers));
    pthread_barrier_t start;
    size_t share = (count / cycle->threads + LIST_SIZE - 1) / LIST_SIZE * LIST_SIZE;

    assert(share > 0);
    if (workers == NULL || pthread_barrier_init(&start, NULL, (unsigned)cycle->threads) != 0)
        fail("out of memory");
    for (size_t i = 0; i < cycle->threads; i++) {
        workers[i] = (struct worker){
            .start = &start,
            .queue = cycle->queue,
            .by = cycle->by,
            .count = share,
            .random = {i * 1000003},
        };
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            fail("no thread could be made");
    }
    for (size_t i = 0; i < cycle->threads; i++)
        pthread_join(workers[i].thread, NULL);
    struct took took = sum_up(workers, cycle->threads);

    pthread_barrier_destroy(&start);
    free(workers);
    return took;
}

static void report(const struct settings *settings, const struct cycle *cycle, const char *time,
                   double *runs)
{
    const struct param params[] = {
        {"state", fixture_name(cycle->state), 0},
        {"resident", NULL, cycle->resident},
        {"threads", NULL, cycle->threads},
        {"by", cycle->by == BY_CALLS ? "calls" : "submit", 0},
        {"time", time, 0},
    };

    report_figure(settings->report, cycle->bench, params, sizeof(params) / sizeof(params[0]),
                  "us per cycle", runs, settings->repeat);
}

void cycle_measure(const struct settings *settings, const struct cycle *cycle)
{
    double wall[BENCH_MAX_REPEAT];
    double cpu[BENCH_MAX_REPEAT];

    run(cycle, cycle->count / 10 + 1);
    for (size_t i = 0; i < settings->repeat; i++) {
        struct took took = run(cycle, cycle->count);
        wall[i] = took.wall;
        cpu[i] = took.cpu;
    }
    report(settings, cycle, "wall", wall);
    report(settings, cycle, "cpu", cpu);
}
