/* SPDX-License-Identifier: MIT */
/*
 * fuzz_op_codec - bytes from anywhere as calls: no crash, no leak, no memory out of proportion.
 *
 * An input is a list of calls: the kind, the size in two bytes, the arguments. Each is decoded; what
 * was understood is encoded again and must then be understood in the same way; then a fresh queue in
 * memory runs it, and its answer goes back. If the first byte is odd, the calls are answers instead:
 * the kind, the code, the size, the result.
 */
#include "fuzz/fuzz.h"
#include "op/op_codec.h"

#include <bide/bide.h>

#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 50
#define ROOM      8

struct input {
    const uint8_t *at, *end;
};

static size_t take_byte(struct input *input)
{
    return input->at == input->end ? 0 : *input->at++;
}

/* As many bytes as the next two say, or what there is. */
static bide_slice take_bytes(struct input *input)
{
    size_t size = take_byte(input);
    size |= take_byte(input) << 8;
    size_t left = (size_t)(input->end - input->at);
    bide_slice bytes = {input->at, size < left ? size : left};
    input->at += bytes.size;
    return bytes;
}

static bide_op_kind take_kind(struct input *input)
{
    bide_op_kind kind = (bide_op_kind)(1 + take_byte(input) % (BIDE_OP_COUNT - 1));
    return bi_op_is_kind(kind) ? kind : BIDE_OP_PING;
}

/* Memory that ends where the bytes do. */
static void *copy_of(bide_slice bytes)
{
    void *copy = malloc(bytes.size + (bytes.size == 0));
    if (copy != NULL && bytes.size > 0)
        memcpy(copy, bytes.data, bytes.size);
    return copy;
}

/* ---- calls ---- */

/* What was understood is sent as it is, and understood again. */
static void round_trip(const struct decoded_op *call)
{
    static struct decoded_op again;
    char error[BIDE_ERROR_SIZE];
    struct op_bytes first = {NULL, 0, 0};
    struct op_bytes second = {NULL, 0, 0};
    must(bi_op_codec_encode(&call->op, call->feed, &first) == BIDE_OK);
    must(bi_op_codec_decode(&again, call->op.kind, first.data, first.size, error) == BIDE_OK);
    must(bi_op_codec_encode(&again.op, again.feed, &second) == BIDE_OK);
    must(first.size == second.size);
    must(first.size == 0 || memcmp(first.data, second.data, first.size) == 0);
    bi_op_codec_free_op(&again);
    bi_op_codec_wire_free_bytes(&first);
    bi_op_codec_wire_free_bytes(&second);
}

/* Nothing here has a completion queue: what would wait is refused. */
static void run(bide *queue, struct decoded_op *call)
{
    bide_op *const list[] = {&call->op};
    must(bide_submit(queue, list, 1) == 0);
    struct op_bytes answer = {NULL, 0, 0};
    must(bi_op_codec_encode_result(call, &answer) == BIDE_OK);
    bi_op_codec_wire_free_bytes(&answer);
}

static void call_one(bide *queue, struct input *input)
{
    static struct decoded_op call;
    char error[BIDE_ERROR_SIZE] = "";
    bide_op_kind kind = take_kind(input);
    bide_slice bytes = take_bytes(input);
    void *copy = copy_of(bytes);
    int code =
        copy == NULL ? BIDE_ENOMEM : bi_op_codec_decode(&call, kind, copy, bytes.size, error);
    must(code == BIDE_OK || error[0] != 0 || copy == NULL);
    if (code == BIDE_OK) {
        /* 512 bytes for a job, at most 1,000 of them, or 10,000 events */
        must(call.bytes < 100 * bytes.size + ((size_t)3 << 20));
        round_trip(&call);
        run(queue, &call);
        bi_op_codec_free_op(&call);
    }
    free(copy);
}

static void run_all(struct input *input)
{
    bide_options options = BIDE_OPTIONS_INIT;
    options.max_memory = 4 << 20;
    options.seed = 1;
    bide *queue;
    must(bide_open("memory:", &options, &queue) == BIDE_OK);
    for (int i = 0; input->at < input->end && i < CALLS_MAX; i++)
        call_one(queue, input);
    must(bide_close(queue) == BIDE_OK);
}

/* ---- answers ---- */

static struct {
    bide_put_item puts[ROOM];
    bide_finish_item finishes[ROOM];
    bide_touch_item touches[ROOM];
    bide_job jobs[ROOM];
    bide_topic_stats topics[ROOM];
    bide_event events[ROOM];
    bide_stats stats;
    bide_check_report report;
    bide_announced workers[ROOM];
    bide_explanation why;
    bide_topic_policy policies[2];
    char cursor[BIDE_CURSOR_SIZE];
} place;

/* An op that waits for its answer. */
static void run_request(bide_op *op, bide_op_kind kind)
{
    memset(&place, 0, sizeof(place));
    memset(op, 0, sizeof(*op));
    op->kind = kind;
    const bide_reserve_args reserve = {.jobs = place.jobs, .job_max = ROOM};
    if (kind == BIDE_OP_PUT_MANY)
        op->put_many = (bide_put_many_args){place.puts, ROOM, 0};
    else if (kind == BIDE_OP_FINISH_AND_PUT)
        op->finish_and_put = (bide_finish_and_put_args){.items = place.puts, .count = ROOM};
    else if (kind == BIDE_OP_FINISH_MANY)
        op->finish_many = (bide_finish_many_args){place.finishes, ROOM};
    else if (kind == BIDE_OP_TOUCH_MANY)
        op->touch_many = (bide_touch_many_args){place.touches, ROOM};
    else if (kind == BIDE_OP_RESERVE)
        op->reserve = reserve;
    else if (kind == BIDE_OP_FINISH_AND_RESERVE)
        op->finish_and_reserve.reserve = reserve;
    else if (kind == BIDE_OP_RESERVE_JOB)
        op->reserve_job.job = place.jobs;
    else if (kind == BIDE_OP_LIST)
        op->list = (bide_list_args){.cursor = place.cursor, .jobs = place.jobs, .job_max = ROOM};
    else if (kind == BIDE_OP_TOPICS || kind == BIDE_OP_WAITING)
        op->topics = (bide_topics_args){place.cursor, place.topics, ROOM, 0};
    else if (kind == BIDE_OP_WORKERS)
        op->workers = (bide_workers_args){place.cursor, place.workers, ROOM, 0};
    else if (kind == BIDE_OP_WHY)
        op->why.why = &place.why;
    else if (kind == BIDE_OP_TOPIC_GET)
        op->topic_get =
            (bide_topic_get_args){.policy = &place.policies[0], .in_force = &place.policies[1]};
    else if (kind == BIDE_OP_STATS)
        op->stats.stats = &place.stats;
    else if (kind == BIDE_OP_TOPIC_STATS)
        op->topic_stats.stats = place.topics;
    else if (kind == BIDE_OP_EVENTS)
        op->subscription = (bide_subscription_args){.events = place.events, .event_max = ROOM};
    else if (kind == BIDE_OP_CHECK)
        op->check.report = &place.report;
    else if (kind >= BIDE_OP_PEEK && kind <= BIDE_OP_JOB_STATS)
        op->query.job = place.jobs;
}

static void forget_worker(bide_announced *worker)
{
    static bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX];
    static bide_running_job jobs[BIDE_ANNOUNCED_JOBS_MAX];
    bide_worker_info info;
    if (bide_worker_decode(worker->data, worker->data_size, &info, topics,
                           BIDE_ANNOUNCED_TOPICS_MAX, jobs, BIDE_ANNOUNCED_JOBS_MAX)) {
        bide_buf *again = bide_worker_encode(&info);
        must(again != NULL);
        bide_buf_unref(again);
    }
    bide_announced_clear(worker);
}

static void forget(bide_op *op)
{
    bide_failure failures[BIDE_HISTORY_MAX];
    for (size_t i = 0; i < ROOM; i++) {
        must(bide_job_history(&place.jobs[i], failures, ROOM) <= ROOM);
        bide_job_clear(&place.jobs[i]);
        forget_worker(&place.workers[i]);
    }
    if (op->kind == BIDE_OP_BODY || op->kind == BIDE_OP_RESULT)
        bide_buf_unref(op->fetch.buf);
    else if (op->kind == BIDE_OP_WAIT)
        bide_buf_unref(op->wait.result);
}

static void decode_reply(struct input *input)
{
    static bide_op op;
    uint64_t feed;
    run_request(&op, take_kind(input));
    int code = (int)(take_byte(input) % 32) - 10;
    bide_slice bytes = take_bytes(input);
    void *copy = copy_of(bytes);
    if (copy != NULL && bi_op_codec_decode_result(&op, code, copy, bytes.size, &feed) == BIDE_OK) {
        must(op.private_.status == code);
        must(memchr(op.error, 0, sizeof(op.error)) != NULL);
        must(memchr(place.cursor, 0, sizeof(place.cursor)) != NULL);
    }
    free(copy);
    forget(&op);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};
    if (take_byte(&input) % 2 == 0)
        run_all(&input);
    else
        for (int i = 0; input.at < input.end && i < CALLS_MAX; i++)
            decode_reply(&input);
    return 0;
}
