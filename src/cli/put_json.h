/* SPDX-License-Identifier: MIT */
/*
 * put_json - a put as a line of JSON.
 *
 *     {"topic":"email","body":"hello","priority":10,"delay":"1h30m","key":"welcome-7"}
 *
 * The body is "body" (a text), "body_base64" (any bytes) or "body_json" (any value, which is written
 * as compact JSON); one of them must be there. The other names are those of bide_put_options, with
 * milliseconds as numbers; the ones without _ms (delay, ttr, backoff, backoff_max, retain, at,
 * expires, expires_in) take what the flags of the same names take. What a line does not say is as
 * the command line says. An unknown name, a value of another type, and two names that say the same
 * thing are refused.
 */
#ifndef BI_PUT_JSON_H
#define BI_PUT_JSON_H

#include "util/errmsg.h"

#include <bide/job.h>

/* What a put takes, all in one place. */
struct put_json {
    bide_put_options options; /* its key points to the one here, or to that of the defaults */
    char key[BIDE_KEY_MAX + 1];
    char topic[BIDE_TOPIC_MAX + 1];
    size_t topic_size; /* 0: not said */
    bide_buf *body;    /* the caller's to unref */
};

/* Reads a line; options has the defaults, now_ms is what time it is. False, with a sentence that
 * goes on "line 7: ", and without a body. */
bool bi_put_json_parse(bide_slice text, const bide_put_options *defaults, int64_t now_ms,
                       struct put_json *line, char *error);

/* Copies one to another place, with its key; the reference to the body goes along. */
void bi_put_json_move(struct put_json *to, const struct put_json *from);

#endif
