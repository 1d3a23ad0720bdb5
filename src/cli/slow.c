/* SPDX-License-Identifier: MIT */
#include "cli/slow.h"

#include "cli/interrupt.h"

#include <poll.h>

int bi_slow_begin(struct slow *slow, const struct cli *cli)
{
    bide_op *list[] = {&slow->op};
    int code = bide_cq_new(&slow->cq);
    if (code != BIDE_OK)
        return bi_cli_answered(cli, code);
    slow->op.cq = slow->cq;
    code = bide_submit(cli->queue, list, 1);
    return code >= 0 ? BI_EXIT_OK : bi_cli_answered(cli, code);
}

bool bi_slow_wait(struct slow *slow, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = bide_cq_fd(slow->cq), .events = POLLIN},
                           {.fd = bi_interrupt_fd(), .events = POLLIN}};
    if (slow->op.status != BIDE_PENDING)
        return true;
    /* A signal is told once; its descriptor stays readable. */
    poll(fds, bi_interrupted() ? 1 : 2, timeout_ms);
    bide_cq_drain(slow->cq, 0);
    return slow->op.status != BIDE_PENDING;
}

void bi_slow_end(struct slow *slow)
{
    if (slow->cq != NULL && bide_cq_free(slow->cq) == BIDE_OK)
        slow->cq = NULL;
}
