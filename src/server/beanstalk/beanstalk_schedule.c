/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_schedule - the verbs of schedules.
 *
 * A verb is a call of several ops (schedule/schedule.h). The request runs one after the other and
 * stays at the head of the pipeline meanwhile; the loop does not wait.
 */
#include "server/beanstalk/beanstalk.h"

#include <bide/schedule.h>

#ifdef BIDE_WITH_JSON

#include "schedule/schedule.h"
#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The extra part of a request. */
struct schedule_request {
    struct schedule_call call;
    enum verb verb;
    uint64_t count; /* schedule-next */
};

/* ---- replies ---- */

/* Writes "OK <bytes>" and the value, and releases it. */
static void write_json(struct output *output, json_t *value)
{
    char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT);
    json_decref(value);
    if (text == NULL) {
        bi_output_text(output, "OUT_OF_MEMORY\r\n");
        return;
    }
    bi_output_format(output, "OK %zu\r\n", strlen(text));
    bi_output_text(output, text);
    bi_output_text(output, "\r\n");
    free(text);
}

static void write_invalid(struct output *output, const char *reason)
{
    /* The reason may contain what the client has sent. */
    char line[BI_ERRMSG_SIZE];
    snprintf(line, sizeof(line), "%s", reason);
    for (char *at = line; *at != 0; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    bi_output_text(output, "INVALID ");
    bi_output_text(output, line);
    bi_output_text(output, "\r\n");
}

static void write_next(struct output *output, struct schedule *schedule, uint64_t count)
{
    int64_t moments[BIDE_BATCH_JOBS], now = bi_clock_wall() / 1000;
    char error[BI_ERRMSG_SIZE];
    assert(count <= BIDE_BATCH_JOBS);

    int code = BIDE_OK;
    if (schedule->def.when == NULL) {
        code = BIDE_EINVAL;
        bi_errmsg_set(error, "%s", schedule->problem);
    } else if (bi_schedule_needs_zone(schedule)) {
        code = bi_schedule_open_zone(schedule, error);
    }
    if (code != BIDE_OK) {
        write_invalid(output, error);
        return;
    }

    size_t found = bi_schedule_moments(schedule, bi_schedule_first(schedule, now), INT64_MAX,
                                       moments, (size_t)count);
    json_t *list = json_array();
    for (size_t i = 0; i < found; i++)
        json_array_append_new(list, json_integer(moments[i]));
    write_json(output, list);
}

static void write_result(struct request *request, const struct schedule_request *own)
{
    struct output *output = &request->conn->base.output;

    switch (own->verb) {
    case VERB_SCHEDULE_SET:
    case VERB_SCHEDULE_GET:
        write_json(output, bi_schedule_encode(&own->call.result->def, BI_SCHEDULE_FULL));
        break;
    case VERB_SCHEDULE_NEXT:
        write_next(output, own->call.result, own->count);
        break;
    case VERB_SCHEDULE_RUN:
        bi_output_format(output, "INSERTED %llu\r\n", (unsigned long long)own->call.id);
        break;
    default:
        bi_output_text(output, request->text);
    }
}

/* ---- calls ---- */

static void free_request(void *extra)
{
    struct schedule_request *own = extra;
    bi_schedule_call_done(&own->call);
    free(own);
}

static bool reply_call(struct request *request)
{
    struct schedule_request *own = request->extra;
    if (bi_schedule_call_next(&own->call, &request->op)) {
        bi_request_submit(request);
        return false;
    }

    struct output *output = &request->conn->base.output;
    int code = own->call.code;
    request->op.status = code;
    if (code == BIDE_OK)
        write_result(request, own);
    else if (code == BIDE_EINVAL)
        write_invalid(output, own->call.error);
    else if (code == BIDE_EXISTS)
        bi_output_format(output, "EXISTS %llu\r\n", (unsigned long long)own->call.id);
    else {
        bi_text_copy(request->op.error, own->call.error);
        return bi_beanstalk_verb_reject(request);
    }
    return true;
}

static const char *begin(struct request *request, const struct command *command,
                         enum schedule_call_kind kind, const char *name, struct schedule *wanted)
{
    struct schedule_request *own = calloc(1, sizeof(*own));
    if (own == NULL) {
        bi_schedule_free(wanted);
        return "OUT_OF_MEMORY\r\n";
    }
    own->verb = command->verb;
    own->count = command->count;
    request->extra = own;
    request->free_extra = free_request;
    request->reply = reply_call;
    request->has_steps = true;
    bi_schedule_call_begin(&own->call, kind, name, wanted, &request->op);
    return NULL;
}

const char *bi_beanstalk_schedule_call(struct request *request, const struct command *command)
{
    enum schedule_call_kind kind = command->verb == VERB_SCHEDULE_REMOVE   ? BI_SCHEDULE_REMOVE
                                   : command->verb == VERB_SCHEDULE_PAUSE  ? BI_SCHEDULE_PAUSE
                                   : command->verb == VERB_SCHEDULE_RESUME ? BI_SCHEDULE_RESUME
                                   : command->verb == VERB_SCHEDULE_RUN    ? BI_SCHEDULE_RUN
                                                                           : BI_SCHEDULE_GET;
    char name[BIDE_SCHEDULE_NAME_MAX + 1];

    if (!bi_schedule_name_valid(command->name.data, command->name.size))
        return "BAD_FORMAT\r\n";
    memcpy(name, command->name.data, command->name.size);
    name[command->name.size] = 0;
    return begin(request, command, kind, name, NULL);
}

/* A definition that is invalid is no error of the protocol: its reply has the reason, and is
 * written when the replies before it are. */
static bool reply_invalid(struct request *request)
{
    write_invalid(&request->conn->base.output, request->extra);
    return true;
}

static const char *reject_definition(struct request *request, const char *error)
{
    request->extra = strdup(error);
    if (request->extra == NULL)
        return "OUT_OF_MEMORY\r\n";
    request->reply = reply_invalid;
    request->op.kind = BIDE_OP_PING;
    return NULL;
}

const char *bi_beanstalk_schedule_set(struct request *request, const struct command *command)
{
    char error[BI_ERRMSG_SIZE];
    struct schedule *wanted = NULL;
    int64_t now = bi_clock_wall() / 1000;

    int code = bi_schedule_decode(command->body.data, command->body.size, now, &wanted, error);
    if (code == BIDE_OK)
        code = bi_schedule_open_zone(wanted, error);
    if (code == BIDE_OK)
        return begin(request, command, BI_SCHEDULE_SET, NULL, wanted);

    bi_schedule_free(wanted);
    return code == BIDE_ENOMEM ? "OUT_OF_MEMORY\r\n" : reject_definition(request, error);
}

/* ---- schedule-list ---- */

#define PAGE_MAX 100 /* schedules, whose bodies may be large */

struct schedule_page {
    char cursor[BIDE_CURSOR_SIZE];
    bide_job jobs[];
};

static void write_list(struct request *request)
{
    struct schedule_page *page = request->extra;
    json_t *object = json_object(), *list = json_array();
    char error[BI_ERRMSG_SIZE];
    bool ok = true;

    json_object_set_new(object, "cursor", json_string(page->cursor));
    for (size_t i = 0; i < request->op.list.count; i++) {
        struct schedule *schedule = NULL;
        ok = ok && bi_schedule_of_job(&page->jobs[i], &schedule, error) == BIDE_OK &&
             json_array_append_new(list, bi_schedule_encode(&schedule->def, BI_SCHEDULE_FULL)) == 0;
        bi_schedule_free(schedule);
        bide_job_clear(&page->jobs[i]);
    }
    ok = ok && json_object_set(object, "schedules", list) == 0;
    json_decref(list);
    if (!ok) {
        json_decref(object);
        object = NULL;
    }
    write_json(&request->conn->base.output, object);
}

const char *bi_beanstalk_schedule_list(struct request *request, const struct command *command)
{
    size_t count = command->count < PAGE_MAX ? (size_t)command->count : PAGE_MAX;
    struct schedule_page *page = calloc(1, sizeof(*page) + count * sizeof(bide_job));
    if (page == NULL)
        return "OUT_OF_MEMORY\r\n";
    memcpy(page->cursor, command->cursor, BIDE_CURSOR_SIZE);
    request->extra = page;
    request->write = write_list;
    request->expected_bytes = BIDE_BATCH_BYTES;
    request->op.list =
        (bide_list_args){.topic = {BIDE_SCHEDULE_TOPIC, sizeof(BIDE_SCHEDULE_TOPIC) - 1},
                         .with_body = true,
                         .cursor = page->cursor,
                         .jobs = page->jobs,
                         .job_max = count};
    return NULL;
}

#else /* without JSON */

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define WITHOUT_JSON(name)                                                   \
    const char *name(struct request *request, const struct command *command) \
    {                                                                        \
        return "UNKNOWN_COMMAND\r\n";                                        \
    }

WITHOUT_JSON(bi_beanstalk_schedule_set)
WITHOUT_JSON(bi_beanstalk_schedule_call)
WITHOUT_JSON(bi_beanstalk_schedule_list)

#endif
