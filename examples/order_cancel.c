/* SPDX-License-Identifier: MIT */
/*
 * An order that is not paid in time is cancelled: order_cancel [URL]
 *
 * Each order publishes its own cancellation, to happen 30 minutes later (here: 300 ms). Whoever pays
 * takes it back, and finds it by its key, which is the number of the order.
 */
#include <bide/task.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { UNPAID, PAID, CANCELLED };
static atomic_int orders[3]; /* what has become of each: a table of your database */

struct order {
    int64_t number;
};
BIDE_TYPE(order, struct order, BIDE_FIELD(number));
BIDE_TASK(cancel_order, order, .topic = "cancel-order", .key = "number", .delay_ms = 300);

static int cancel_order(bide_context *context, const struct order *order, void *arg)
{
    int unpaid = UNPAID;
    (void)arg;
    /* The order decides, not the job: it may have been paid after the job was taken. */
    if (atomic_compare_exchange_strong(&orders[order->number], &unpaid, CANCELLED))
        printf("order %" PRId64 " was not paid within %" PRId64 " ms and is cancelled\n",
               order->number, bide_context_job(context)->age_ms);
    return BIDE_DONE;
}

static int pay(bide *queue, int64_t number)
{
    char key[24];
    int size = snprintf(key, sizeof key, "%" PRId64, number);
    int unpaid = UNPAID;
    bide_job job;

    if (!atomic_compare_exchange_strong(&orders[number], &unpaid, PAID))
        return BIDE_WRONG_STATE; /* too late */
    printf("order %" PRId64 " is paid\n", number);
    int code = bide_find(queue, "cancel-order", key, (size_t)size, &job);
    if (code != BIDE_OK)
        return code;
    code = bide_cancel(queue, job.id);
    bide_job_clear(&job);
    return code;
}

int main(int argc, char **argv)
{
    bide *queue;
    bide_worker *worker;
    uint64_t ids[3];

    int code = bide_open(argc > 1 ? argv[1] : "memory:", NULL, &queue);
    for (int i = 0; i < 3 && code == BIDE_OK; i++)
        code = bide_publish(queue, cancel_order, (struct order){.number = i}, NULL, &ids[i]);
    if (code || pay(queue, 1) || bide_worker_new(queue, NULL, &worker) ||
        bide_handle(worker, cancel_order, cancel_order, NULL) || bide_worker_start(worker) ||
        bide_wait(queue, ids[0], 30000, NULL, NULL) ||
        bide_wait(queue, ids[2], 30000, NULL, NULL)) {
        fprintf(stderr, "%s\n", bide_last_error());
        return EXIT_FAILURE;
    }
    bide_worker_free(worker);
    bide_close(queue);
    return orders[0] == CANCELLED && orders[1] == PAID && orders[2] == CANCELLED ? EXIT_SUCCESS
                                                                                 : EXIT_FAILURE;
}
