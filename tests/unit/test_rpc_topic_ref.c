/* SPDX-License-Identifier: MIT */
/* References to topics whose calls are under way when their connection ends. */
#include "stub_server.h"

#include "op/op_codec.h"

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
    struct op_bytes bytes = {0};
    char line[64];
    if (bi_op_codec_encode(&op, 0, &bytes) != BIDE_OK)
        abort();
    snprintf(line, sizeof(line), "call 1 topic_ref %zu\r\n", bytes.size);
    send_bytes(fd, line, strlen(line));
    send_bytes(fd, bytes.data, bytes.size);
    send_bytes(fd, "\r\n", 2);
    bi_op_codec_wire_free_bytes(&bytes);
}

/* How many ops about the topic have come that give back, or all of them. */
static size_t count_refs(bool back)
{
    size_t count = 0;
    pthread_mutex_lock(&stub->lock);
    for (size_t i = 0; i < stub->note_count; i++) {
        const struct stub_record *note = &stub->notes[i];
        count += note->kind == BIDE_OP_TOPIC_REF && strcmp(note->text, "t") == 0 &&
                 (!back || note->delta < 0);
    }
    pthread_mutex_unlock(&stub->lock);
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
    ping_server(holder);
    stub_rule(stub, BIDE_OP_TOPIC_REF, HELD, BIDE_OK);
    for (int i = 0; i < 2; i++)
        if (scene->deltas[i] != 0) {
            refer(holder, scene->deltas[i]);
            calls++;
        }
    send_bytes(holder, "list-tube-used\r\n",
               16); /* whose answer is not read: then the connection is reset */
    while (count_refs(false) < calls)
        ping_server(other);
    ping_server(other);
    stub_rule(stub, BIDE_OP_TOPIC_REF, AT_ONCE, BIDE_OK);
    close(holder);
    ping_server(other);
    for (int i = 0; i < 2; i++)
        if (scene->deltas[i] != 0)
            stub_release(stub, BIDE_OP_TOPIC_REF, scene->codes[i]);
    ping_server(other);
    given = count_refs(true);
    close(other);
    kill(getpid(), SIGTERM);
    return NULL;
}

static void play(const struct scene *what)
{
    scene = what;
    serve_stub(run_clients, 1 << 20);
    assert_int_equal(given, what->given);
}

/* ---- tests ---- */

static void ref_made_after_close_is_released(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1}, .codes = {BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {1, 1}, .codes = {BIDE_OK, BIDE_OK}, .given = 3});
}

static void ref_that_failed_is_not_released(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1}, .codes = {BIDE_CANCELLED}, .given = 0});
    play(&(struct scene){
        .owns = true, .deltas = {1, 1}, .codes = {BIDE_OK, BIDE_ENOMEM}, .given = 2});
}

static void ref_released_by_its_client_is_released_once(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1, -1}, .codes = {BIDE_OK, BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {-1}, .codes = {BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {-1, 1}, .codes = {BIDE_OK, BIDE_OK}, .given = 2});
}

static void failed_release_of_a_ref_is_retried(void **state)
{
    (void)state;
    play(&(struct scene){.owns = true, .deltas = {-1}, .codes = {BIDE_CANCELLED}, .given = 2});
    play(&(struct scene){.deltas = {1, -1}, .codes = {BIDE_OK, BIDE_CANCELLED}, .given = 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_made_after_close_is_released),
        cmocka_unit_test(ref_that_failed_is_not_released),
        cmocka_unit_test(ref_released_by_its_client_is_released_once),
        cmocka_unit_test(failed_release_of_a_ref_is_retried),
    };
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
