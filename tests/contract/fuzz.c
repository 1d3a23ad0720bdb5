/* SPDX-License-Identifier: MIT */
/* fuzz.c - ops of every kind with good and bad arguments: every one is answered, none does harm. */
#include "chaos.h"
#include "location.h"

#include <stdio.h>
#include <string.h>

static int64_t any_number(void)
{
    static const int64_t numbers[] = {
        0,
        1,
        -1,
        2,
        -2,
        10,
        1000,
        1001,
        60000,
        INT64_MIN,
        INT64_MAX,
        INT32_MIN,
        INT32_MAX,
        10001,
        UINT32_MAX,
        1700000000000,
        BIDE_TIME_MAX_MS,
        BIDE_TIME_MAX_MS + 1,
        BIDE_TIMESTAMP_MAX_MS,
        BIDE_TIMESTAMP_MAX_MS + 1,
    };
    return numbers[roll(COUNT(numbers))];
}

static bide_slice any_bytes(void)
{
    static char many[BIDE_TOPIC_MAX + 1];
    memset(many, 'a', sizeof many);
    switch (roll(10)) {
    case 0:
        return (bide_slice){NULL, roll(2) * 5};
    case 1:
        return (bide_slice){many, sizeof many - roll(2)};
    case 2:
        return (bide_slice){"a\0b", 3};
    case 3:
        return (bide_slice){"\xff-~/;.", 1 + roll(6)};
    case 4:
        return (bide_slice){"", 0};
    default:
        return slice(any_topic());
    }
}

/* An op with room for whatever it may point to. It may stay pending for a while. */
struct slot {
    bide_op op;
    int calls;
    bide_job jobs[4];
    bide_job exported;
    bide_put_item puts[3];
    bide_put_options options;
    bide_finish_item finishes[3];
    bide_touch_item touches[3];
    bide_slice topics[4];
    uint32_t weights[4];
    bide_topic_stats figures[4];
    bide_topic_policy policies[2];
    bide_event events[4];
    bide_stats stats;
    bide_check_report report;
    bide_announced workers[4];
    bide_explanation why;
    unsigned char worker[1000];
    char file[LOCATION_SIZE];
    char cursor[BIDE_CURSOR_SIZE];
};

static struct fuzz {
    bide *queue;
    bide_cq *cq;
    struct slot slots[14];
    bide_subscription *feeds[4];
    bide_lease_args leases[32]; /* some that were had lately */
    uint64_t last_id;
} fuzz;

static bide_lease_args any_lease(void)
{
    if (one_in(2))
        return fuzz.leases[roll(COUNT(fuzz.leases))];
    uint64_t id = fuzz.last_id - roll(100);
    return (bide_lease_args){one_in(9) ? (uint64_t)any_number() : id,
                             one_in(3) ? (uint64_t)any_number() : 0};
}

static void fill_options(bide_put_options *options)
{
    *options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    options->priority = (uint32_t)any_number();
    options->conflict = (bide_conflict)(one_in(20) ? 7 : roll(3));
    options->key = one_in(4) ? any_bytes() : (bide_slice){NULL, 0};
    options->delay_ms = one_in(4) ? any_number() : 0;
    options->run_at_ms = one_in(9) ? any_number() : 0;
    options->ttr_ms = one_in(4) ? any_number() : 0;
    options->max_retries = one_in(4) ? (int32_t)any_number() : 1;
    options->backoff_base_ms = one_in(9) ? any_number() : 1;
    options->backoff_max_ms = one_in(9) ? any_number() : 2;
    options->expires_at_ms = one_in(9) ? any_number() : 0;
    options->retain_ms = one_in(4) ? any_number() : 0;
    options->fallbacks = roll(2) + (one_in(30) ? 2 : 0);
    options->size = one_in(30) ? roll(200) : sizeof *options;
}

static void fill_exported(bide_job *job)
{
    bide_slice body = any_bytes(), key = any_bytes(), result = any_bytes(), error = any_bytes();
    *job = (bide_job){.state = (bide_state)roll(7), .max_retries = -1};
    snprintf(job->topic, sizeof job->topic, "%s", any_topic());
    if (one_in(9))
        memset(job->topic, 'x', sizeof job->topic);
    job->body = body.data;
    job->body_size = body.size;
    job->key = one_in(4) ? key.data : NULL;
    job->key_size = job->key ? key.size : 0;
    job->last_error = error.data;
    job->last_error_size = error.size;
    job->result = result.data;
    job->result_size = result.size;
    job->left_ms = one_in(2) ? 1000 : any_number();
    job->ttr_ms = one_in(2) ? 10 : any_number();
    job->run_at_ms = one_in(2) ? 0 : any_number();
    job->created_ms = one_in(2) ? 0 : any_number();
}

/* Whatever the op may need is made up anew. */
static void fill_slot(struct slot *slot)
{
    memset(slot, 0, sizeof *slot);
    fill_options(&slot->options);
    fill_exported(&slot->exported);
    for (size_t i = 0; i < COUNT(slot->puts); i++) {
        bide_lease_args lease = any_lease();
        slot->puts[i].topic = one_in(6) ? any_bytes() : slice(any_topic());
        slot->puts[i].body = any_bytes();
        slot->puts[i].options = one_in(3) ? NULL : &slot->options;
        slot->finishes[i] = (bide_finish_item){.id = lease.id, .token = lease.token};
        slot->finishes[i].keep = one_in(2);
        slot->finishes[i].result = any_bytes();
        slot->finishes[i].retain_ms = any_number();
        slot->touches[i] = (bide_touch_item){.id = lease.id, .token = lease.token};
        slot->touches[i].extend_ms = one_in(2) ? 0 : any_number();
        slot->touches[i].progress = any_bytes();
    }
    for (size_t i = 0; i < COUNT(slot->topics); i++) {
        slot->topics[i] = one_in(20) ? any_bytes() : slice(any_topic());
        slot->weights[i] = (uint32_t)(one_in(9) ? 0 : 1 + roll(9));
    }
    for (size_t i = 0; one_in(4) && i + 1 < sizeof slot->cursor; i++)
        slot->cursor[i] = "wit0123456789abcdef."[roll(20)];
}

static size_t any_count(size_t most)
{
    return one_in(20) ? roll(2) * 10001 : 1 + roll(most);
}

static bide_reserve_args any_reserve(struct slot *slot)
{
    bide_reserve_args args = reserve_args(one_in(30) ? NULL : slot->topics, any_count(4),
                                          one_in(3) ? any_number() : (int64_t)roll(3),
                                          one_in(30) ? NULL : slot->jobs, any_count(4));
    args.weights = one_in(2) ? NULL : slot->weights;
    args.strategy = (bide_strategy)(one_in(20) ? 99 : roll(4));
    args.holder = one_in(3) ? any_bytes() : (bide_slice){NULL, 0};
    return args;
}

static bide_job *room_for_jobs(struct slot *slot)
{
    return one_in(30) ? NULL : slot->jobs;
}

static void ask_to_take_or_finish(struct slot *slot, bide_op *op)
{
    bide_lease_args lease = any_lease();
    switch ((int)op->kind) {
    case BIDE_OP_PUT:
        op->put = slot->puts[0];
        return;
    case BIDE_OP_PUT_MANY:
        op->put_many = (bide_put_many_args){one_in(30) ? NULL : slot->puts, any_count(3), 0};
        return;
    case BIDE_OP_FINISH_AND_PUT:
        op->finish_and_put =
            (bide_finish_and_put_args){.finish = slot->finishes[0],
                                       .ending = (bide_ending)(one_in(20) ? 9 : roll(3)),
                                       .priority = one_in(2) ? BIDE_KEEP : any_number(),
                                       .delay_ms = one_in(3) ? any_number() : 0,
                                       .run_at_ms = one_in(9) ? any_number() : 0,
                                       .reason = one_in(3) ? any_bytes() : (bide_slice){NULL, 0},
                                       .items = one_in(30) ? NULL : slot->puts,
                                       .count = any_count(3)};
        return;
    case BIDE_OP_RESTORE:
        op->restore.job = one_in(30) ? NULL : &slot->exported;
        return;
    case BIDE_OP_RESERVE:
        op->reserve = any_reserve(slot);
        return;
    case BIDE_OP_RESERVE_JOB:
        op->reserve_job = (bide_reserve_job_args){lease.id, room_for_jobs(slot),
                                                  one_in(3) ? any_bytes() : (bide_slice){NULL, 0}};
        return;
    case BIDE_OP_DONE:
        op->finish = slot->finishes[0];
        return;
    case BIDE_OP_FINISH_MANY:
        op->finish_many = (bide_finish_many_args){slot->finishes, any_count(3)};
        return;
    case BIDE_OP_FINISH_AND_RESERVE:
        op->finish_and_reserve.finish = slot->finishes[0];
        op->finish_and_reserve.reserve = any_reserve(slot);
        return;
    case BIDE_OP_TOUCH:
        op->touch = slot->touches[0];
        return;
    case BIDE_OP_TOUCH_MANY:
        op->touch_many = (bide_touch_many_args){slot->touches, any_count(3)};
        return;
    case BIDE_OP_RELEASE:
        op->release = (bide_release_args){lease.id, lease.token, any_number(), any_number()};
        return;
    case BIDE_OP_FAIL:
        op->fail = (bide_fail_args){.id = lease.id, .token = lease.token, .error = any_bytes()};
        op->fail.retry_in_ms = any_number();
        return;
    case BIDE_OP_BURY:
        op->bury = (bide_bury_args){lease.id, lease.token, any_number(), any_bytes()};
        return;
    default: /* delete, give_back, kick_job, cancel, body, result, or none at all */
        op->lease = lease;
    }
}

static int64_t any_setting(int64_t most)
{
    return one_in(3)   ? BIDE_KEEP
           : one_in(2) ? BIDE_NO_DEFAULT
           : one_in(9) ? any_number()
                       : (int64_t)roll((unsigned)most);
}

static bide_topic_policy any_policy(void)
{
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    policy.ttr_ms = any_setting(2000);
    policy.max_retries = any_setting(4);
    policy.backoff_base_ms = any_setting(9);
    policy.backoff_max_ms = any_setting(9);
    policy.retain_ms = any_setting(900);
    policy.expires_in_ms = any_setting(9000);
    policy.max_jobs = any_setting(50);
    policy.concurrency = any_setting(6);
    policy.rate = any_setting(2000);
    policy.rate_period_ms = any_setting(2000);
    policy.rate_burst = any_setting(20);
    policy.room_[4] = one_in(90);
    return policy;
}

static void ask_about_topics(struct slot *slot, bide_op *op)
{
    bide_slice topic = one_in(4) ? any_bytes() : slice(any_topic());
    bide_slice nothing = {NULL, 0};
    switch ((int)op->kind) {
    case BIDE_OP_KICK:
        op->kick = (bide_kick_args){
            .topic = topic, .max = (uint64_t)any_number(), .buried_only = one_in(3)};
        return;
    case BIDE_OP_PURGE:
        op->purge = (bide_purge_args){.topic = topic, .state = (bide_state)roll(30)};
        return;
    case BIDE_OP_LIST:
        op->list = (bide_list_args){.topic = one_in(2) ? nothing : topic,
                                    .state = (bide_state)roll(7),
                                    .filter = {.key = one_in(3) ? any_bytes() : nothing,
                                               .text = one_in(3) ? any_bytes() : nothing,
                                               .max_age_ms = one_in(3) ? any_number() : 0},
                                    .with_body = one_in(2),
                                    .cursor = slot->cursor,
                                    .jobs = room_for_jobs(slot),
                                    .job_max = any_count(4)};
        return;
    case BIDE_OP_TOPICS:
    case BIDE_OP_WAITING:
        op->topics = (bide_topics_args){slot->cursor, slot->figures, any_count(4), 0};
        return;
    case BIDE_OP_PAUSE:
    case BIDE_OP_RESUME:
    case BIDE_OP_TOPIC_REF:
        op->topic = (bide_topic_args){topic, one_in(2) ? 1 : any_number(), (int)roll(4) - 2};
        return;
    case BIDE_OP_STATS:
        op->stats.stats = one_in(9) ? NULL : &slot->stats;
        return;
    case BIDE_OP_TOPIC_STATS:
        op->topic_stats = (bide_topic_stats_args){topic, one_in(9) ? NULL : slot->figures};
        return;
    case BIDE_OP_DRAIN:
        op->drain.on = one_in(9);
        return;
    case BIDE_OP_TOPIC_SET:
        op->topic_set.topic = topic;
        op->topic_set.policy = any_policy();
        return;
    case BIDE_OP_TOPIC_GET:
        op->topic_get = (bide_topic_get_args){topic, one_in(9) ? NULL : &slot->policies[0],
                                              one_in(9) ? NULL : &slot->policies[1]};
        return;
    default:
        ask_to_take_or_finish(slot, op);
    }
}

/* A worker that may be announced, or any bytes. */
static bide_announce_args any_announcement(struct slot *slot)
{
    static const char *const names[] = {"one", "two", "three"};
    const bide_worker_info info = {.name = slice(names[roll(COUNT(names))]),
                                   .connection = roll(2),
                                   .topics = slot->topics,
                                   .topic_count = roll(COUNT(slot->topics))};
    bide_announce_args args = {.ttl_ms = one_in(3) ? any_number() : 20};
    bide_buf *worker = one_in(9) ? NULL : bide_worker_encode(&info);
    args.worker = any_bytes();
    if (worker != NULL && bide_buf_size(worker) <= sizeof slot->worker) {
        args.worker = (bide_slice){slot->worker, bide_buf_size(worker)};
        memcpy(slot->worker, bide_buf_data(worker), bide_buf_size(worker));
    }
    bide_buf_unref(worker);
    return args;
}

static void ask_about_workers(struct slot *slot, bide_op *op)
{
    switch ((int)op->kind) {
    case BIDE_OP_ANNOUNCE:
        op->announce = any_announcement(slot);
        return;
    case BIDE_OP_WORKERS:
        op->workers =
            (bide_workers_args){slot->cursor, one_in(30) ? NULL : slot->workers, any_count(4), 0};
        return;
    case BIDE_OP_WHY:
        op->why = (bide_why_args){one_in(3) ? 0 : any_lease().id, slice(any_topic()), any_bytes(),
                                  one_in(9) ? NULL : &slot->why};
        return;
    default:
        ask_about_topics(slot, op);
    }
}

/* About what is stored; a copy goes to a new file, where there is something to copy. */
static void ask_about_the_store(struct slot *slot, bide_op *op)
{
    static const char *const bad[] = {NULL, "", "/nowhere/at/all", "/"};
    switch ((int)op->kind) {
    case BIDE_OP_RECOVERED:
        op->recovered.timeout_ms = any_number();
        return;
    case BIDE_OP_BACKUP:
        op->backup.path = bad[roll(COUNT(bad))];
        if (is_persistent() && one_in(3))
            op->backup.path = new_file(slot->file, sizeof slot->file);
        return;
    case BIDE_OP_CHECK:
        op->check.report = one_in(9) ? NULL : &slot->report;
        return;
    default:
        ask_about_workers(slot, op);
    }
}

static void ask(struct slot *slot, bide_op *op)
{
    size_t feed = roll(COUNT(fuzz.feeds));
    uint64_t id = any_lease().id;
    switch ((int)op->kind) {
    case BIDE_OP_UPDATE:
        op->update = (bide_update_args){id,
                                        any_number(),
                                        one_in(2) ? BIDE_KEEP : any_number(),
                                        one_in(2) ? BIDE_KEEP : any_number(),
                                        any_number(),
                                        any_bytes(),
                                        {0}};
        return;
    case BIDE_OP_PEEK:
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
    case BIDE_OP_JOB_STATS:
        op->query = (bide_query_args){id, any_bytes(), any_bytes(), (bide_state)roll(7),
                                      room_for_jobs(slot)};
        return;
    case BIDE_OP_WAIT:
        op->wait = (bide_wait_args){.id = id, .timeout_ms = any_number()};
        return;
    case BIDE_OP_SUBSCRIBE:
        op->subscription.topic = one_in(2) ? any_bytes() : (bide_slice){NULL, 0};
        op->subscription.kinds = (uint32_t)(one_in(2) ? any_number() : 0);
        op->subscription.capacity = (uint32_t)(one_in(9) ? any_number() : 4);
        return;
    case BIDE_OP_UNSUBSCRIBE:
        op->subscription.handle = fuzz.feeds[feed];
        fuzz.feeds[feed] = NULL;
        return;
    case BIDE_OP_EVENTS:
        op->subscription =
            (bide_subscription_args){.handle = fuzz.feeds[feed], .event_max = any_count(4)};
        op->subscription.events = one_in(9) ? NULL : slot->events;
        op->subscription.timeout_ms = one_in(2) ? 1 : any_number();
        return;
    default:
        ask_about_the_store(slot, op);
    }
}

/* Takes what a successful op has brought. */
static void collect(struct slot *slot, const bide_op *op)
{
    size_t count = 0;
    if (op->kind == BIDE_OP_RESERVE)
        count = op->reserve.count;
    else if (op->kind == BIDE_OP_FINISH_AND_RESERVE)
        count = op->finish_and_reserve.reserve.count;
    else if (op->kind == BIDE_OP_LIST)
        count = op->list.count;
    else if (op->kind == BIDE_OP_RESERVE_JOB)
        count = 1;
    for (size_t i = 0; i < count; i++)
        if (op->kind != BIDE_OP_LIST)
            fuzz.leases[roll(COUNT(fuzz.leases))] =
                (bide_lease_args){slot->jobs[i].id, slot->jobs[i].token};
    clear_jobs(slot->jobs, COUNT(slot->jobs));
    for (size_t i = 0; op->kind == BIDE_OP_WORKERS && i < op->workers.count; i++)
        bide_announced_clear(&slot->workers[i]);
    if (op->kind == BIDE_OP_PUT)
        fuzz.last_id = op->put.id;
    else if (op->kind == BIDE_OP_BODY || op->kind == BIDE_OP_RESULT)
        bide_buf_unref(op->fetch.buf);
    else if (op->kind == BIDE_OP_WAIT)
        bide_buf_unref(op->wait.result);
    else if (op->kind == BIDE_OP_SUBSCRIBE)
        fuzz.feeds[roll(COUNT(fuzz.feeds))] = op->subscription.handle;
}

static void count_answer(bide_op *op)
{
    struct slot *slot = op->user;
    slot->calls++;
}

/* A list that was gone through says why the first of its items was refused, if one was. */
static bool has_refused_items(const bide_op *op)
{
    bool refused = false;
    for (size_t i = 0; op->kind == BIDE_OP_PUT_MANY && i < op->put_many.count; i++)
        refused |= op->put_many.items[i].status != BIDE_OK;
    for (size_t i = 0; op->kind == BIDE_OP_FINISH_MANY && i < op->finish_many.count; i++)
        refused |= op->finish_many.items[i].status != BIDE_OK;
    for (size_t i = 0; op->kind == BIDE_OP_TOUCH_MANY && i < op->touch_many.count; i++)
        refused |= op->touch_many.items[i].status != BIDE_OK &&
                   op->touch_many.items[i].status != BIDE_CANCEL_WANTED;
    return refused;
}

/* Ends what is still pending in the slot. The answer has a code, and a sentence if it is not 0. */
static void settle(struct slot *slot)
{
    bide_op *op = &slot->op;
    if (op->status == BIDE_PENDING)
        EQ(bide_cancel_op(fuzz.queue, op), BIDE_OK);
    for (int i = 0; op->status == BIDE_PENDING && i < PATIENCE_MS / 100; i++)
        CHECK(bide_cq_wait(fuzz.cq, 100) >= 0);
    CHECK(op->status != BIDE_PENDING);
    CHECK(strcmp(bide_code_name(op->status), "BIDE_?") != 0);
    bool refused = op->status != BIDE_OK || has_refused_items(op);
    if (refused != (op->error[0] != '\0'))
        FAIL("%s answered %s with the sentence \"%s\"", bide_op_name(op->kind),
             bide_code_name(op->status), op->error);
    if (op->status == BIDE_OK)
        collect(slot, op);
    op->kind = BIDE_OP_NONE;
}

static void ask_at_random(struct slot *slot)
{
    bide_op *list[] = {&slot->op};
    fill_slot(slot);
    slot->op.kind =
        one_in(50) ? (bide_op_kind)roll(1000) : (bide_op_kind)(1 + roll(BIDE_OP_COUNT - 1));
    slot->op.cq = one_in(4) ? NULL : fuzz.cq;
    slot->op.done = count_answer;
    slot->op.user = slot;
    ask(slot, &slot->op);
    int pending = bide_submit(fuzz.queue, list, 1);
    EQ(pending, slot->op.status == BIDE_PENDING);
    CHECK(slot->op.cq || !pending);
}

static void play(uint64_t seed, const char *parameters)
{
    dice = seed;
    memset(&fuzz, 0, sizeof fuzz);
    fuzz.queue = open_queue(parameters);
    fuzz.cq = new_cq();
    for (int step = 0; step < 6000; step++) {
        struct slot *slot = &fuzz.slots[roll(COUNT(fuzz.slots))];
        int expected = slot->op.status == BIDE_PENDING || slot->calls > 0;
        if (slot->op.kind != BIDE_OP_NONE)
            settle(slot);
        EQ(slot->calls, expected);
        ask_at_random(slot);
        if (one_in(8))
            CHECK(bide_cq_drain(fuzz.cq, 0) >= 0);
    }
    for (size_t i = 0; i < COUNT(fuzz.slots); i++)
        settle(&fuzz.slots[i]);
    CHECK(stats_of(fuzz.queue).total.puts > 20);
    EQ(stats_of(fuzz.queue).waiting, 0);
    EQ(stats_of(fuzz.queue).watching, 0);
    figures_add_up(fuzz.queue);
}

#define SMALL_LIMITS                                                                         \
    "max_job_size=80&max_result_size=80&max_error_size=3&max_topics=8&max_jobs_per_topic=20" \
    "&max_done_per_topic=3&max_touches=3&default_ttr=20ms&max_waiters=2"

static void random_ops_complete_and_statistics_add_up(void)
{
    for (uint64_t seed = 1; seed <= 8; seed++)
        play(seed, seed % 2 ? SMALL_LIMITS : "default_ttr=20ms");
}

static void random_ops_complete_without_topic_cleanup(void)
{
    for (uint64_t seed = 11; seed <= 14; seed++)
        play(seed, SMALL_LIMITS "&topic_cleanup=off&wheel_tick=1ms&wheel_slots=1");
}

static const struct test tests[] = {
    TEST(random_ops_complete_and_statistics_add_up),
    TEST(random_ops_complete_without_topic_cleanup),
};

const struct theme fuzz_theme = {"fuzz", tests, COUNT(tests)};
