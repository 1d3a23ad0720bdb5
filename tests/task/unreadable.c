/* SPDX-License-Identifier: MIT */
/* unreadable.c - jobs that are not what their task says. */
#include "fixed.h"

#include <string.h>

struct visit {
    const char *host;
    uint8_t port;
};
BIDE_TYPE(visit, struct visit, BIDE_FIELD(host), BIDE_FIELD(port));
BIDE_TASK(visiting, visit, .topic = FIXED_A, .backoff_base_ms = 1);

static int count_visits(bide_context *context, const struct visit *visit, void *arg)
{
    (void)context;
    CHECK(visit != NULL);
    enter(arg);
    return BIDE_DONE;
}

static void no_data(bide_context *context, const struct visit *visit, const char *error, void *arg)
{
    struct crew *crew = arg;
    CHECK(visit == NULL);
    CHECK(error != NULL && error[0] != '\0');
    CHECK(bide_context_is_last(context));
    EQ(bide_context_attempt(context), 1);
    crew->number++;
}

static struct crew *visitors(void)
{
    struct crew *crew = new_crew(open_fixed(""), NULL);
    OK(bide_handle(crew->worker, visiting, count_visits, crew));
    OK(bide_fallback(crew->worker, visiting, no_data, crew));
    return crew;
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

static void a_body_that_cannot_be_read_is_buried_at_once_with_a_sentence(void)
{
    struct crew *crew = visitors();
    bide_put_options options = bide_defaults(visiting);
    uint64_t ids[COUNT(bodies)];
    for (size_t i = 0; i < COUNT(bodies); i++)
        ids[i] = put_as(crew->queue, FIXED_A, bodies[i], &options);
    OK(bide_worker_start(crew->worker));
    for (size_t i = 0; i < COUNT(bodies); i++) {
        UNTIL(state_of(crew->queue, ids[i]) == BIDE_STATE_BURIED);
        const bide_job *job = stat_job(crew->queue, ids[i]);
        EQ(job->reserves, 1);
        CHECK(job->last_error_size > 0);
    }
    EQ(crew->runs, 0);
}

static void the_sentence_names_the_field(void)
{
    struct crew *crew = visitors();
    uint64_t id = put(crew->queue, FIXED_A, "{\"host\":\"a\",\"port\":300}");
    OK(bide_worker_start(crew->worker));
    UNTIL_TOLD(crew, BIDE_WORK_BURIED, 1);
    CHECK(strstr(stat_job(crew->queue, id)->last_error, "visit.port") != NULL);
    CHECK(strstr(nth_told(crew, BIDE_WORK_BURIED, 0)->text, "visit.port") != NULL);
    EQ(nth_told(crew, BIDE_WORK_BURIED, 0)->id, id);
}

/* What the sentence quotes, and where, is in the body. */
static void the_sentence_speaks_of_the_body_as_it_is(void)
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
    struct crew *crew = visitors();
    uint64_t ids[COUNT(cases)];
    for (size_t i = 0; i < COUNT(cases); i++)
        ids[i] = put(crew->queue, FIXED_A, cases[i].body);
    OK(bide_worker_start(crew->worker));
    UNTIL_TOLD(crew, BIDE_WORK_BURIED, COUNT(cases));
    for (size_t i = 0; i < COUNT(cases); i++)
        ERROR_OF(stat_job(crew->queue, ids[i]), cases[i].want);
}

static void the_fallback_is_called_without_data_and_the_worker_goes_on(void)
{
    struct crew *crew = visitors();
    put(crew->queue, FIXED_A, "nonsense");
    OK(bide_publish(crew->queue, visiting, ((struct visit){"a", 1}), NULL, NULL));
    put(crew->queue, FIXED_A, "more nonsense");
    OK(bide_publish(crew->queue, visiting, ((struct visit){"b", 2}), NULL, NULL));
    OK(bide_worker_start(crew->worker));
    UNTIL_TOLD(crew, BIDE_WORK_DONE, 2);
    UNTIL_TOLD(crew, BIDE_WORK_BURIED, 2);
    EQ(crew->runs, 2);
    EQ(crew->number, 2);
}

static const struct test tests[] = {
    TEST(a_body_that_cannot_be_read_is_buried_at_once_with_a_sentence),
    TEST(the_sentence_names_the_field),
    TEST(the_sentence_speaks_of_the_body_as_it_is),
    TEST(the_fallback_is_called_without_data_and_the_worker_goes_on),
};

const struct theme unreadable_theme = {"unreadable", tests, COUNT(tests)};
