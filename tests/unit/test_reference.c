/* SPDX-License-Identifier: MIT */
/* References to topics whose calls are under way when their connection ends. */
#include "puppet_server.h"

#include "backend/call.h"

struct scene {
    bool owns;     /* the connection has a reference before */
    int deltas[2]; /* of the calls under way, 0: none */
    int codes[2];  /* with which they complete when the connection has gone */
    size_t
        given; /* references that the queue is asked to give back, the client's own calls included */
};

static const struct scene *scene;
static size_t given;

/* ---- clients ---- */

static void refer(int fd, int delta)
{
    bide_op op = {.kind = BIDE_OP_TOPIC_REF, .topic = {.topic = {"t", 1}, .delta = delta}};
    struct call_bytes bytes = {0};
    char line[64];
    if (bi_call_encode(&op, 0, &bytes) != BIDE_OK)
        abort();
    snprintf(line, sizeof(line), "call 1 topic_ref %zu\r\n", bytes.size);
    say(fd, line, strlen(line));
    say(fd, bytes.data, bytes.size);
    say(fd, "\r\n", 2);
    bi_call_bytes_free(&bytes);
}

/* How many ops about the topic have come that give back, or all of them. */
static size_t count_refs(bool back)
{
    size_t count = 0;
    pthread_mutex_lock(&puppet->lock);
    for (size_t i = 0; i < puppet->note_count; i++) {
        const struct puppet_note *note = &puppet->notes[i];
        count += note->kind == BIDE_OP_TOPIC_REF && strcmp(note->text, "t") == 0 &&
                 (!back || note->delta < 0);
    }
    pthread_mutex_unlock(&puppet->lock);
    return count;
}

static void *run_clients(void *arg)
{
    (void)arg;
    int holder = open_client();
    int other = open_client();
    size_t calls = scene->owns;
    if (scene->owns)
        refer(holder, 1);
    ask_often(holder);
    puppet_rule(puppet, BIDE_OP_TOPIC_REF, HELD, BIDE_OK);
    for (int i = 0; i < 2; i++)
        if (scene->deltas[i] != 0) {
            refer(holder, scene->deltas[i]);
            calls++;
        }
    say(holder, "list-tube-used\r\n",
        16); /* whose answer is not read: then the connection is reset */
    while (count_refs(false) < calls)
        ask_often(other);
    ask_often(other);
    puppet_rule(puppet, BIDE_OP_TOPIC_REF, AT_ONCE, BIDE_OK);
    close(holder);
    ask_often(other);
    for (int i = 0; i < 2; i++)
        if (scene->deltas[i] != 0)
            puppet_let_go(puppet, BIDE_OP_TOPIC_REF, scene->codes[i]);
    ask_often(other);
    given = count_refs(true);
    close(other);
    kill(getpid(), SIGTERM);
    return NULL;
}

static void play(const struct scene *what)
{
    scene = what;
    serve_puppet(run_clients, 1 << 20);
    assert_int_equal(given, what->given);
}

/* ---- tests ---- */

static void one_that_is_made_too_late_goes_back(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1}, .codes = {BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {1, 1}, .codes = {BIDE_OK, BIDE_OK}, .given = 3});
}

static void one_that_is_not_made_is_not_given_back(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1}, .codes = {BIDE_CANCELLED}, .given = 0});
    play(&(struct scene){
        .owns = true, .deltas = {1, 1}, .codes = {BIDE_OK, BIDE_ENOMEM}, .given = 2});
}

static void one_that_its_client_gives_back_goes_back_once(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1, -1}, .codes = {BIDE_OK, BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {-1}, .codes = {BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {-1, 1}, .codes = {BIDE_OK, BIDE_OK}, .given = 2});
}

static void one_that_could_not_be_given_back_is_given_back_again(void **state)
{
    (void)state;
    play(&(struct scene){.owns = true, .deltas = {-1}, .codes = {BIDE_CANCELLED}, .given = 2});
    play(&(struct scene){.deltas = {1, -1}, .codes = {BIDE_OK, BIDE_CANCELLED}, .given = 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_made_too_late_goes_back),
        cmocka_unit_test(one_that_is_not_made_is_not_given_back),
        cmocka_unit_test(one_that_its_client_gives_back_goes_back_once),
        cmocka_unit_test(one_that_could_not_be_given_back_is_given_back_again),
    };
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
