/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include "list.h"
#include "measure.h"

#define HOUR_MS INT64_C(3600000)

const char *fixture_name(enum resident resident)
{
    return resident == RESIDENT_READY ? "ready" : "delayed";
}

void fixture_options(enum resident resident, uint64_t random, bide_put_options *options)
{
    if (resident == RESIDENT_READY)
        options->priority = (uint32_t)random;
    else
        options->delay_ms = HOUR_MS + (int64_t)(random % (uint64_t)(24 * HOUR_MS));
}

bide *fixture_open(const char *url)
{
    static const bide_state states[] = {
        BIDE_STATE_READY,
        BIDE_STATE_DELAYED,
        BIDE_STATE_BURIED,
    };
    bide *queue = NULL;

    must("bide_open", bide_open(url, NULL, &queue));
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        must("bide_purge", bide_purge(queue, BENCH_TOPIC, states[i], NULL));
    return queue;
}

void fixture_close(bide *queue)
{
    must("bide_close", bide_close(queue));
}

void fixture_fill(bide *queue, enum resident resident, uint64_t count)
{
    struct list *list = list_new(queue);
    struct random random = {count};

    while (count > 0) {
        size_t n = count < LIST_SIZE ? (size_t)count : LIST_SIZE;
        for (size_t i = 0; i < n; i++)
            fixture_options(resident, random_next(&random), &list->options[i]);
        list_put(list, n);
        count -= n;
    }
    list_free(list);
}
