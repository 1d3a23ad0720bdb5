/* SPDX-License-Identifier: MIT */
/*
 * A typed task: email [URL]
 *
 * Three letters are published and a worker sends them. One mail server is busy at first, so that
 * letter is tried again; one address is wrong, which no retry would mend, so that letter is buried.
 */
#include <bide/task.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct email {
    const char *to;
    const char *subject;
    const char *reply_to; /* may be NULL */
};
BIDE_TYPE(email, struct email, BIDE_FIELD(to), BIDE_FIELD(subject),
          BIDE_OPTIONAL_AS("replyTo", reply_to));

/* retain_ms: a letter that was sent is "done" for a minute, and only then gone. */
BIDE_TASK(send_email, email, .topic = "send-email", .max_retries = 5, .backoff_base_ms = 50,
          .retain_ms = 60000);

static int send_email(bide_context *context, const struct email *email, void *arg)
{
    (void)arg;
    if (strchr(email->to, '@') == NULL)
        return bide_context_bury(context, "%s is no address", email->to);
    if (strstr(email->to, "busy") != NULL && bide_context_attempt(context) == 1)
        return bide_context_retry(context, "the mail server is busy");
    printf("sent to %s: %s\n", email->to, email->subject);
    return BIDE_DONE;
}

/* Called whenever a letter could not be sent, before it is put back or buried. */
static void not_sent(bide_context *context, const struct email *email, const char *error, void *arg)
{
    (void)arg;
    printf("not sent to %s: %s; %s\n", email != NULL ? email->to : "anybody", error,
           bide_context_is_last(context) ? "given up" : "to be tried again");
}

static int print_error(void)
{
    fprintf(stderr, "%s\n", bide_last_error());
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static const struct email emails[] = {{"ada@example.org", "hello", "office@example.org"},
                                          {"bob@busy.example.org", "hello", NULL},
                                          {"nobody", "hello", NULL}};
    static const bide_state expected[] = {BIDE_STATE_DONE, BIDE_STATE_DONE, BIDE_STATE_BURIED};
    bide *queue;
    bide_worker *worker;
    int wrong = 0;

    if (bide_open(argc > 1 ? argv[1] : "memory:", NULL, &queue) ||
        bide_worker_new(queue, NULL, &worker) ||
        bide_handle(worker, send_email, send_email, NULL) ||
        bide_fallback(worker, send_email, not_sent, NULL) || bide_worker_start(worker))
        return print_error();
    for (int i = 0; i < 3; i++) {
        uint64_t id;
        bide_state state;
        if (bide_publish(queue, send_email, emails[i], NULL, &id) ||
            bide_wait(queue, id, 30000, &state, NULL))
            return print_error();
        printf("to %s: %s\n", emails[i].to, bide_state_name(state));
        wrong += state != expected[i];
    }
    bide_worker_free(worker);
    bide_close(queue);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
