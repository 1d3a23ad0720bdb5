/* SPDX-License-Identifier: MIT */
/*
 * memory - the store that persists nothing: the jobs exist in the memory of the core only.
 */
#include "store/store.h"
#include "util/clock.h"

#include <stdlib.h>

const char bi_store_unreadable[] = "a page of the file cannot be read";

/* Tokens of an earlier process must not be valid in this one, whose ids begin at 1 again. So
 * token numbers start at the current time, and are assigned more slowly than microseconds
 * pass; the secret that turns numbers into tokens is new as well. */
static int memory_start(struct store *store, struct store_start *start, char *error)
{
    (void)store;
    (void)error;

    start->next_id = 1;
    start->next_token = (uint64_t)bi_clock_wall();
    start->token_from = 1;
    bi_keyed_hash_generate_secret(&start->secret);
    return BIDE_OK;
}

static void memory_close(struct store *store)
{
    free(store);
}

static const struct store_ops memory_ops = {
    .name = "memory",
    .persistent = false,
    .start = memory_start,
    .close = memory_close,
};

struct store *bi_memory_store_new(void)
{
    struct store *store = calloc(1, sizeof(*store));
    if (store != NULL)
        store->ops = &memory_ops;
    return store;
}
