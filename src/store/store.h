/* SPDX-License-Identifier: MIT */
/*
 * store - where the local backend keeps what the core hands out.
 *
 * A store knows nothing of states and times: it stores a batch, all of it or nothing, and gives
 * back at start what it has. Every store is one const struct of functions.
 */
#ifndef BI_STORE_H
#define BI_STORE_H

#include "core/core.h"

struct store;

/* What a store found when it was opened. */
struct store_start {
    uint64_t next_id;
    uint64_t next_token;
};

/* Called for everything that is stored, jobs in the order of their ids: kind BI_INSERT or BI_PAUSE.
 * The image is the store's and valid during the call only. Not BIDE_OK: stop and pass it up. */
typedef int (*store_visit)(void *ctx, const struct bi_record *record);

struct store_ops {
    const char *name;

    /* False: nothing outlives the process, so nothing is handed out and no answer is held; the
     * functions below but start and close are then never called. */
    bool keeps;

    /* On the opening thread, first of all. A failure fails the open. */
    int (*start)(struct store *store, struct store_start *start, char *error);

    /* On the opening thread, before anything is served. A failure fails the open. */
    int (*scan)(struct store *store, store_visit visit, void *ctx, char *error);

    /* On the commit thread, no lock held; may block. BIDE_OK: it is stored and survives what the
     * store promises. Otherwise nothing of it is stored, error (BIDE_ERROR_SIZE bytes) has a
     * sentence, and the next commit may be tried. */
    int (*commit)(struct store *store, const struct bi_batch *batch, char *error);

    /* On the closing thread, after the last commit. Frees the store. */
    void (*close)(struct store *store);
};

struct store {
    const struct store_ops *ops;
};

/* NULL when out of memory. */
struct store *bi_store_memory_new(void);

#endif
