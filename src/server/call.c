/* SPDX-License-Identifier: MIT */
/*
 * call - any op of the library, as bytes; see backend/call.h.
 */
#include "server/inside.h"

void bi_beanstalk_call(struct conn *conn, const struct command *command)
{
    (void)command;
    bi_conn_say(conn, "UNKNOWN_COMMAND\r\n");
}

void bi_beanstalk_call_cancel(struct conn *conn, const struct command *command)
{
    (void)command;
    bi_conn_say(conn, "UNKNOWN_COMMAND\r\n");
}

void bi_call_drop(struct conn *conn)
{
    (void)conn;
}

void bi_call_pending(bide_op *op)
{
    (void)op;
}

void bi_call_refuse(struct conn *conn, uint64_t tag, int code, const char *sentence)
{
    (void)conn;
    (void)tag;
    (void)code;
    (void)sentence;
}

void bi_call_stop(struct conn *conn)
{
    (void)conn;
}
