/* SPDX-License-Identifier: MIT */
/*
 * Work that must not be done twice: idempotent [URL]
 *
 * A queue promises that work is done at least once. Two things make that exactly once: a key, so
 * that an order is published once however often a customer clicks; and a handler that writes down
 * what it has done, under the same name, so that it notices when it is called again.
 */
#include <bide/task.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int ledger[10]; /* what was charged, by order: a table with a unique column */
static atomic_int charges;

struct payment {
    int64_t order;
    int32_t cents;
};
BIDE_TYPE(payment, struct payment, BIDE_FIELD(order), BIDE_FIELD(cents));

/* The key is held until the result is forgotten: a click that comes later is still noticed. */
BIDE_TASK(charge, payment, .key = "order", .retain_ms = 60000, .key_hold_retained = true,
          .backoff_base_ms = 50);

static int charge(bide_context *context, const struct payment *payment, void *arg)
{
    int nothing = 0;
    (void)arg;
    if (!atomic_compare_exchange_strong(&ledger[payment->order], &nothing, payment->cents)) {
        printf("order %" PRId64 " has been charged before\n", payment->order);
        return BIDE_DONE;
    }
    charges++;
    printf("order %" PRId64 " is charged\n", payment->order);
    /* The worst moment for something to go wrong: it is done, and the queue does not know. */
    return bide_context_retry(context, "the connection to the bank broke");
}

/* What every click does. Whoever comes second gets the id of the first, and can wait for it. */
static int click(bide *queue, struct payment payment, uint64_t *id)
{
    int code = bide_publish(queue, charge, payment, NULL, id);
    printf("click: job %" PRIu64 "%s\n", *id, code == BIDE_EXISTS ? ", again" : "");
    return code == BIDE_EXISTS ? BIDE_OK : code;
}

int main(int argc, char **argv)
{
    struct payment payment = {.order = 7, .cents = 1999};
    bide *queue;
    bide_worker *worker;
    uint64_t ids[3] = {0};

    if (bide_open(argc > 1 ? argv[1] : "memory:", NULL, &queue) || click(queue, payment, &ids[0]) ||
        click(queue, payment, &ids[1]) || bide_worker_new(queue, NULL, &worker) ||
        bide_handle(worker, charge, charge, NULL) || bide_worker_start(worker) ||
        bide_wait(queue, ids[1], 30000, NULL, NULL) || click(queue, payment, &ids[2])) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    bide_worker_free(worker);
    bide_close(queue);
    printf("three clicks, %d charge\n", charges);
    return charges == 1 && ids[0] == ids[1] && ids[1] == ids[2] ? EXIT_SUCCESS : EXIT_FAILURE;
}
