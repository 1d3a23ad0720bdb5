/* SPDX-License-Identifier: MIT */
#include "cli/long_op.h"

#include "cli/interrupt.h"

#include <poll.h>

int bi_long_op_submit(struct long_op *long_op, const struct cli *cli)
{
    bide_op *list[] = {&long_op->op};
    int code = bide_cq_new(&long_op->cq);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    long_op->op.cq = long_op->cq;
    code = bide_submit(cli->queue, list, 1);
    return code >= 0 ? BI_EXIT_OK : bi_cli_report_last(cli, code);
}

bool bi_long_op_wait(struct long_op *long_op, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = bide_cq_fd(long_op->cq), .events = POLLIN},
                           {.fd = bi_interrupt_fd(), .events = POLLIN}};
    if (long_op->op.status != BIDE_PENDING)
        return true;
    /* A signal is told once; its descriptor stays readable. */
    poll(fds, bi_interrupted() ? 1 : 2, timeout_ms);
    bide_cq_drain(long_op->cq, 0);
    return long_op->op.status != BIDE_PENDING;
}

void bi_long_op_end(struct long_op *long_op)
{
    if (long_op->cq != NULL && bide_cq_free(long_op->cq) == BIDE_OK)
        long_op->cq = NULL;
}
