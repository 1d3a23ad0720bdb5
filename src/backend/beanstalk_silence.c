/* SPDX-License-Identifier: MIT */
/*
 * A server that keeps its connection and says nothing: a process that was stopped, a machine that
 * went away without a word. Whoever waits for a job hears nothing for hours, and that is as it should
 * be; so when answers are awaited and nothing was heard for answer_timeout, the server is asked
 * whether it is there. If it says nothing for as long again, the connection counts as lost. A bided
 * whose disk is stuck answers a ping. While we have not even got rid of what we say, its reading is a
 * sign of life, too.
 */
#include "backend/beanstalk_tagged.h"
#include "util/clock.h"

#include <string.h>

void bi_silence_begin(struct tagged *tagged)
{
    tagged->asked = false;
    tagged->signs_before = tagged->signs;
    tagged->check_at = bi_clock_boot() + tagged->address.answer_timeout;
}

/* False: out of memory; it is asked at the next check. */
static bool ask(struct tagged *tagged)
{
    memset(&tagged->ping, 0, sizeof(tagged->ping));
    tagged->ping.kind = BIDE_OP_PING;
    struct request *request = bi_client_request_new(tagged, &tagged->ping, false);
    if (request == NULL)
        return false;
    request->internal = true;
    if (!bi_client_request_add(tagged, request)) {
        bi_client_request_free(request);
        return false;
    }
    bi_send_ping(tagged, request);
    bi_send_flush(tagged);
    return true;
}

bool bi_silence_check(struct tagged *tagged, int64_t now)
{
    if (!tagged->connected || now < tagged->check_at)
        return true;
    bool silent = tagged->first != NULL && tagged->signs == tagged->signs_before;
    bool asked = tagged->asked;
    bi_silence_begin(tagged);
    if (silent && !asked)
        tagged->asked = ask(tagged);
    return !silent || !asked;
}
