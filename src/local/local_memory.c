/* SPDX-License-Identifier: MIT */
/*
 * local_memory - the backend of "memory:": the local backend on a store that is not persistent.
 */
#include "local/local.h"
#include "util/text.h"

static int open_memory(const struct backend_context *context, const struct bi_url *url,
                       struct backend **out, char *error)
{
    if (url->location[0] != 0) {
        bi_text_copy(error,
                     "open: nothing may follow memory: but parameters, as in memory:?ticker=wheel");
        return BIDE_EINVAL;
    }

    struct store *store = bi_memory_store_new();
    if (store == NULL) {
        bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
        return BIDE_ENOMEM;
    }

    return bi_local_open(context, &bi_backend_memory, store, out, error);
}

const struct backend_ops bi_backend_memory = {
    .scheme = "memory",
    .capabilities = BIDE_CAN_ALL_OPS,
    .open = open_memory,
    .submit = bi_local_submit,
    .cancel = bi_local_cancel,
    .shutdown = bi_local_shutdown,
    .close = bi_local_close,
    .free = bi_local_free,
};
