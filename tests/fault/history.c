/* SPDX-License-Identifier: MIT */
#include "history.h"

#define CALLS_MAX 400

static struct {
    struct snapshot *snapshot;
    size_t steps;
} calls[CALLS_MAX];
static size_t call_count;

void history_add(bide *queue)
{
    CHECK(call_count < CALLS_MAX);
    calls[call_count].steps = loss_steps();
    calls[call_count].snapshot = snapshot_take(queue);
    call_count++;
}

void history_forget(void)
{
    for (size_t i = 0; i < call_count; i++)
        snapshot_free(calls[i].snapshot);
    call_count = 0;
}

size_t history_count(void)
{
    return call_count;
}

size_t history_steps(size_t call)
{
    return calls[call].steps;
}

/* The last call that was acknowledged when the disk had taken so many steps; -1 if none. */
static int last_acknowledged(size_t steps)
{
    int last = -1;
    for (size_t i = 0; i < call_count; i++)
        if (calls[i].steps <= steps)
            last = (int)i;
    return last;
}

/* Is the picture that of one of these calls? Before the first there is nothing. */
static bool is_one_of(const struct snapshot *snapshot, int first, int last, char *text)
{
    static const struct snapshot nothing;
    for (int i = last; i >= first; i--)
        if (i < (int)call_count &&
            snapshot_survived(i < 0 ? &nothing : calls[i].snapshot, snapshot, text))
            return true;
    return false;
}

void history_check(size_t steps, enum loss_kind kind, bool back)
{
    char text[DIFFERENCE_SIZE] = "";
    int last = last_acknowledged(steps);
    loss_at(steps, kind, steps, fresh_folder("after"));
    bide *queue = open_url(url_of("after/jobs.db", ""));
    struct snapshot *snapshot = snapshot_take(queue);
    if (!is_one_of(snapshot, back ? -1 : last, last + 1, text))
        FAIL("the power went after %zu of %zu steps, loss %d, %d calls acknowledged: %s", steps,
             loss_steps(), (int)kind, last + 1, text);
    snapshot_free(snapshot);
    OK(bide_put(queue, "work", "new", 3, NULL, NULL));
    OK(bide_close(queue));
}
