/* SPDX-License-Identifier: MIT */
/* badtask.c - what cannot be published, and tasks that are not sound. */
#include "../contract/sample_queue.h"
#include "task_topics.h"

#include <math.h>
#include <string.h>

struct note {
    const char *text;
    double value;
};
BIDE_TYPE(note, struct note, BIDE_FIELD(text), BIDE_FIELD(value));
BIDE_TASK(keep, note, .topic = TASK_TOPIC_A);
BIDE_TASK(keyed, note, .topic = TASK_TOPIC_A, .key = "text");
BIDE_TASK(strange, note, .topic = TASK_TOPIC_A, .key = "color");
BIDE_TASK(nowhere, note, .topic = "not a topic");

static int handle_note(bide_context *context, const struct note *note, void *arg)
{
    (void)context;
    (void)note;
    (void)arg;
    return BIDE_DONE;
}

/* A publish that must be refused: nothing is put, and the id is left as it was. */
#define REFUSED(queue, task_, note_, options_, want)                             \
    do {                                                                         \
        uint64_t refused_id_;                                                    \
        spoil(&refused_id_, sizeof refused_id_);                                 \
        CODE(bide_publish((queue), task_, note_, options_, &refused_id_), want); \
        SPOILED(refused_id_);                                                    \
        EQ(stats_of(queue).total.puts, 0);                                       \
    } while (0)

static void unencodable_value_is_not_published(void)
{
    bide *queue = open_with_task_topics("");
    REFUSED(queue, keep, ((struct note){NULL, 0}), NULL, BIDE_EINVAL);
    REFUSED(queue, keep, ((struct note){"\xff", 0}), NULL, BIDE_EINVAL);
    REFUSED(queue, keep, ((struct note){"", NAN}), NULL, BIDE_EINVAL);
    REFUSED(queue, keep, ((struct note){"", INFINITY}), NULL, BIDE_EINVAL);
}

static void error_message_names_the_field(void)
{
    bide *queue = open_with_task_topics("");
    CODE(bide_publish(queue, keep, ((struct note){"", NAN}), NULL, NULL), BIDE_EINVAL);
    CHECK(strstr(bide_last_error(), "note.value") != NULL);
}

static void oversized_body_is_rejected(void)
{
    static char text[300];
    bide *queue = open_with_task_topics("max_job_size=100");
    memset(text, 'x', sizeof text - 1);
    REFUSED(queue, keep, ((struct note){text, 0}), NULL, BIDE_TOO_BIG);
}

static void too_long_or_empty_key_is_rejected(void)
{
    static char text[BIDE_KEY_MAX + 2];
    bide *queue = open_with_task_topics("");
    memset(text, 'x', sizeof text - 1);
    REFUSED(queue, keyed, ((struct note){text, 0}), NULL, BIDE_EINVAL);
    REFUSED(queue, keyed, ((struct note){"", 0}), NULL, BIDE_EINVAL);
    text[BIDE_KEY_MAX] = '\0';
    OK(bide_publish(queue, keyed, ((struct note){text, 0}), NULL, NULL));
}

static void key_of_an_unknown_field_is_rejected(void)
{
    bide *queue = open_with_task_topics("");
    REFUSED(queue, strange, ((struct note){"", 0}), NULL, BIDE_EINVAL);
}

static void task_with_an_invalid_topic_is_rejected(void)
{
    bide *queue = open_with_task_topics("");
    struct worker_fixture *fixture = new_fixture(queue, NULL);
    REFUSED(queue, nowhere, ((struct note){"", 0}), NULL, BIDE_EINVAL);
    CODE(bide_handle(fixture->worker, nowhere, handle_note, NULL), BIDE_EINVAL);
}

static void invalid_options_are_rejected(void)
{
    bide *queue = open_with_task_topics("");
    bide_put_options options = bide_defaults(keep);
    options.size--;
    REFUSED(queue, keep, ((struct note){"", 0}), &options, BIDE_EINVAL);
    options = bide_defaults(keep);
    options.delay_ms = -2;
    REFUSED(queue, keep, ((struct note){"", 0}), &options, BIDE_EINVAL);
    options = bide_defaults(keep);
    options.max_retries = -4;
    REFUSED(queue, keep, ((struct note){"", 0}), &options, BIDE_EINVAL);
}

static void NULL_is_rejected(void)
{
    bide *queue = open_with_task_topics("");
    struct worker_fixture *fixture = new_fixture(queue, NULL);
    struct note note = {"", 0};
    bide_function *function = (bide_function *)handle_note;
    bide_task task = bide_task_of_keep;
    CODE(bide_publish(NULL, keep, note, NULL, NULL), BIDE_EINVAL);
    CODE(bide_task_publish(queue, NULL, &note, NULL, NULL), BIDE_EINVAL);
    CODE(bide_task_publish(queue, &task, NULL, NULL, NULL), BIDE_EINVAL);
    CODE(bide_handle(NULL, keep, handle_note, NULL), BIDE_EINVAL);
    CODE(bide_worker_handle_task(fixture->worker, NULL, bide_handle_of_keep, function, NULL),
         BIDE_EINVAL);
    CODE(bide_worker_handle_task(fixture->worker, &task, NULL, function, NULL), BIDE_EINVAL);
    CODE(bide_worker_handle_task(fixture->worker, &task, bide_handle_of_keep, NULL, NULL),
         BIDE_EINVAL);
    CODE(bide_worker_fallback_task(fixture->worker, NULL, bide_fall_of_keep, function, NULL),
         BIDE_EINVAL);
    CODE(bide_worker_fallback_task(fixture->worker, &task, NULL, function, NULL), BIDE_EINVAL);
    CODE(bide_worker_start(fixture->worker), BIDE_EINVAL);
    EQ(stats_of(queue).total.puts, 0);
}

static void invalid_task_is_rejected(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    bide_function *function = (bide_function *)handle_note;
    struct note note = {"", 0};
    bide_task task = bide_task_of_keep;
    task.time_limit_ms = -2;
    CODE(bide_worker_handle_task(fixture->worker, &task, bide_handle_of_keep, function, NULL),
         BIDE_EINVAL);
    task = bide_task_of_keep;
    task.type = NULL;
    CODE(bide_worker_handle_task(fixture->worker, &task, bide_handle_of_keep, function, NULL),
         BIDE_EINVAL);
    CODE(bide_task_publish(fixture->queue, &task, &note, NULL, NULL), BIDE_EINVAL);
    task = bide_task_of_keep;
    task.topic = task.name = NULL;
    CODE(bide_task_publish(fixture->queue, &task, &note, NULL, NULL), BIDE_EINVAL);
}

static void invalid_expiry_is_rejected(void)
{
    bide *queue = open_with_task_topics("");
    static const int64_t times[] = {-1, BIDE_TIME_MAX_MS + 1, INT64_MIN, INT64_MAX};
    struct note note = {"", 0};
    for (size_t i = 0; i < COUNT(times); i++) {
        bide_task task = bide_task_of_keep;
        task.expires_in_ms = times[i];
        CODE(bide_task_publish(queue, &task, &note, NULL, NULL), BIDE_EINVAL);
    }
    EQ(stats_of(queue).total.puts, 0);
}

static void a_task_has_one_handler(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    OK(bide_handle(fixture->worker, keep, handle_note, NULL));
    CODE(bide_handle(fixture->worker, keep, handle_note, NULL), BIDE_EINVAL);
    CODE(bide_handle(fixture->worker, keyed, handle_note, NULL), BIDE_EINVAL);
    CODE(bide_worker_handle(fixture->worker, TASK_TOPIC_A, do_nothing, NULL), BIDE_EINVAL);
    OK(bide_worker_start(fixture->worker));
    CODE(bide_handle(fixture->worker, keep, handle_note, NULL), BIDE_EBUSY);
    OK(bide_publish(fixture->queue, keep, ((struct note){"", 0}), NULL, NULL));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static void draining_queue_rejects_publish(void)
{
    bide *queue = open_with_task_topics("");
    OK(bide_drain(queue, true));
    REFUSED(queue, keep, ((struct note){"", 0}), NULL, BIDE_DRAINING);
    OK(bide_drain(queue, false));
    OK(bide_publish(queue, keep, ((struct note){"", 0}), NULL, NULL));
}

static const struct test tests[] = {
    TEST(unencodable_value_is_not_published),
    TEST(error_message_names_the_field),
    TEST(oversized_body_is_rejected),
    TEST(too_long_or_empty_key_is_rejected),
    TEST(key_of_an_unknown_field_is_rejected),
    TEST(task_with_an_invalid_topic_is_rejected),
    TEST(invalid_options_are_rejected),
    TEST(NULL_is_rejected),
    TEST(invalid_task_is_rejected),
    TEST(invalid_expiry_is_rejected),
    TEST(a_task_has_one_handler),
    TEST(draining_queue_rejects_publish),
};

const struct theme badtask_theme = {"badtask", tests, COUNT(tests)};
