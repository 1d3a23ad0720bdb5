/* SPDX-License-Identifier: MIT */
/* undecodable.c - jobs that are not what their task says. */
#include "task_topics.h"

#include <string.h>

struct visit {
    const char *host;
    uint8_t port;
};
BIDE_TYPE(visit, struct visit, BIDE_FIELD(host), BIDE_FIELD(port));
BIDE_TASK(visiting, visit, .topic = TASK_TOPIC_A, .backoff_base_ms = 1);

static int count_visits(bide_context *context, const struct visit *visit, void *arg)
{
    (void)context;
    CHECK(visit != NULL);
    enter(arg);
    return BIDE_DONE;
}

static void no_data(bide_context *context, const struct visit *visit, const char *error, void *arg)
{
    struct worker_fixture *fixture = arg;
    CHECK(visit == NULL);
    CHECK(error != NULL && error[0] != '\0');
    CHECK(bide_context_is_last(context));
    EQ(bide_context_attempt(context), 1);
    fixture->number++;
}

static struct worker_fixture *visitors(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    OK(bide_handle(fixture->worker, visiting, count_visits, fixture));
    OK(bide_fallback(fixture->worker, visiting, no_data, fixture));
    return fixture;
}

static const char *const bodies[] = {
    "",
    "hello",
    "{",
    "[]",
    "null",
    "{}",
    "{\"host\":\"a\"}",
    "{\"host\":7,\"port\":1}",
    "{\"host\":null,\"port\":1}",
    "{\"host\":\"a\",\"port\":256}",
    "{\"host\":\"a\",\"port\":-1}",
    "{\"host\":\"a\",\"port\":1.5}",
    "{\"host\":\"a\",\"port\":\"x\"}",
    "{\"host\":\"a\",\"port\":1} more",
    "{\"host\":\"\xff\",\"port\":1}",
};

static void undecodable_body_is_buried_with_an_error(void)
{
    struct worker_fixture *fixture = visitors();
    bide_put_options options = bide_defaults(visiting);
    uint64_t ids[COUNT(bodies)];
    for (size_t i = 0; i < COUNT(bodies); i++)
        ids[i] = put_as(fixture->queue, TASK_TOPIC_A, bodies[i], &options);
    OK(bide_worker_start(fixture->worker));
    for (size_t i = 0; i < COUNT(bodies); i++) {
        UNTIL(state_of(fixture->queue, ids[i]) == BIDE_STATE_BURIED);
        const bide_job *job = stat_job(fixture->queue, ids[i]);
        EQ(job->reserves, 1);
        CHECK(job->last_error_size > 0);
    }
    EQ(fixture->runs, 0);
}

static void error_message_names_the_field(void)
{
    struct worker_fixture *fixture = visitors();
    uint64_t id = put(fixture->queue, TASK_TOPIC_A, "{\"host\":\"a\",\"port\":300}");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    CHECK(strstr(stat_job(fixture->queue, id)->last_error, "visit.port") != NULL);
    CHECK(strstr(nth_event(fixture, BIDE_WORK_BURIED, 0)->text, "visit.port") != NULL);
    EQ(nth_event(fixture, BIDE_WORK_BURIED, 0)->id, id);
}

/* What the sentence quotes, and where, is in the body. */
static void decode_error_describes_the_body(void)
{
    static const struct {
        const char *body, *want;
    } cases[] = {
        {"{\"to\":1", "visit: not JSON at byte 7: '}' expected near end of file"},
        {"{\"to\":1]", "visit: not JSON at byte 8: '}' expected near ']'"},
        {"{\"to\" 1}", "visit: not JSON at byte 7: ':' expected near '1'"},
        {"{},{}", "visit: not JSON at byte 3: end of file expected near ','"},
        {"hello", "visit: not JSON at byte 5: invalid token near 'hello'"},
        {"{\"host\":\"a\nb\"}", "visit: not JSON at byte 10: unexpected newline near '\"a'"},
        {"{} more", "visit: not JSON at byte 7: end of file expected near 'more'"},
    };
    struct worker_fixture *fixture = visitors();
    uint64_t ids[COUNT(cases)];
    for (size_t i = 0; i < COUNT(cases); i++)
        ids[i] = put(fixture->queue, TASK_TOPIC_A, cases[i].body);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, COUNT(cases));
    for (size_t i = 0; i < COUNT(cases); i++)
        ERROR_OF(stat_job(fixture->queue, ids[i]), cases[i].want);
}

static void fallback_is_called_without_data(void)
{
    struct worker_fixture *fixture = visitors();
    put(fixture->queue, TASK_TOPIC_A, "nonsense");
    OK(bide_publish(fixture->queue, visiting, ((struct visit){"a", 1}), NULL, NULL));
    put(fixture->queue, TASK_TOPIC_A, "more nonsense");
    OK(bide_publish(fixture->queue, visiting, ((struct visit){"b", 2}), NULL, NULL));
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 2);
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 2);
    EQ(fixture->runs, 2);
    EQ(fixture->number, 2);
}

static const struct test tests[] = {
    TEST(undecodable_body_is_buried_with_an_error),
    TEST(error_message_names_the_field),
    TEST(decode_error_describes_the_body),
    TEST(fallback_is_called_without_data),
};

const struct theme undecodable_theme = {"undecodable", tests, COUNT(tests)};
