/* SPDX-License-Identifier: MIT */
/*
 * memory - the store that keeps nothing: the core's own memory is all there is.
 */
#include "store/store.h"
#include "util/clock.h"

#include <stdlib.h>

const char bi_store_unreadable[] = "a page of the file cannot be read";

/* Tokens of an earlier process must not be good in this one, whose ids begin at 1 again: their numbers
 * start with the time, and are given out more slowly than it passes on any long run; and the secret
 * that turns them into tokens is another one. */
static int memory_start(struct store *store, struct store_start *start, char *error)
{
    (void)store;
    (void)error;
    start->next_id = 1;
    start->next_token = (uint64_t)bi_clock_wall();
    start->token_from = 1;
    bi_secret_draw(&start->secret);
    return BIDE_OK;
}

static void memory_close(struct store *store)
{
    free(store);
}

static const struct store_ops memory_ops = {
    .name = "memory",
    .keeps = false,
    .start = memory_start,
    .close = memory_close,
};

struct store *bi_store_memory_new(void)
{
    struct store *store = calloc(1, sizeof(*store));
    if (store != NULL)
        store->ops = &memory_ops;
    return store;
}
