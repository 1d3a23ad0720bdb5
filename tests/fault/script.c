/* SPDX-License-Identifier: MIT */
#include "script.h"

#include "snapshot.h"

#include <stdio.h>
#include <string.h>

static const bide_put_options usual = BIDE_PUT_OPTIONS_INIT;

static bide_put_options long_ttr(void)
{
    bide_put_options options = usual;
    options.ttr_ms = HOUR_MS;
    return options;
}

/* An outcome means that there was nothing to do. */
static int failure_of(int code)
{
    return code < 0 ? code : BIDE_OK;
}

/* ---- putting ---- */

static int put_plain(struct script *script)
{
    bide_put_options options = long_ttr();
    options.priority = (uint32_t)(script->serial % 7);
    return failure_of(put_serial(script->queue, "work", ++script->serial, &options, NULL));
}

static int put_large(struct script *script)
{
    static unsigned char body[9000];
    bide_put_options options = long_ttr();
    memset(body, (int)(++script->serial % 251), sizeof(body));
    options.key = slice_of("large");
    return failure_of(bide_put(script->queue, "other", body, sizeof(body), &options, NULL));
}

static int put_replacing(struct script *script)
{
    bide_put_options options = long_ttr();
    options.key = slice_of("large");
    options.conflict = BIDE_REPLACE;
    return failure_of(put_serial(script->queue, "other", ++script->serial, &options, NULL));
}

static int put_delayed(struct script *script)
{
    bide_put_options options = long_ttr();
    options.delay_ms = HOUR_MS * (int64_t)(1 + script->serial % 3);
    return failure_of(put_serial(script->queue, "work", ++script->serial, &options, NULL));
}

static int put_limited(struct script *script)
{
    bide_put_options options = long_ttr();
    options.max_retries = (int32_t)(script->serial % 2);
    options.backoff_base_ms = options.backoff_max_ms = HOUR_MS;
    return failure_of(put_serial(script->queue, "limited", ++script->serial, &options, NULL));
}

static int put_five(struct script *script)
{
    static const char text[700] = "a body of seven hundred bytes";
    static const size_t sizes[5] = {0, 30, 512, 513, 700};
    bide_put_item items[5];
    bide_put_options options = long_ttr();
    memset(items, 0, sizeof(items));
    options.retain_ms = HOUR_MS;
    for (size_t i = 0; i < COUNT(items); i++) {
        items[i].topic = slice_of("work");
        items[i].body = (bide_slice){text, sizes[i]};
        items[i].options = &options;
    }
    int code = bide_put_many(script->queue, items, COUNT(items), NULL);
    for (size_t i = 0; code == BIDE_OK && i < COUNT(items); i++)
        code = items[i].status;
    return failure_of(code);
}

/* ---- with a lease ---- */

static int take_from(struct script *script, const char *topic)
{
    if (script->job.id != 0)
        return BIDE_OK;
    int code = bide_reserve(script->queue, topic, 0, &script->job);
    if (code != BIDE_OK)
        memset(&script->job, 0, sizeof(script->job));
    return failure_of(code);
}

static int take_work(struct script *script)
{
    return take_from(script, "work");
}

static int take_limited(struct script *script)
{
    return take_from(script, "limited");
}

/* The lease ends with the call, unless the call failed. */
static int let_go(struct script *script, int code)
{
    if (code >= 0)
        bide_job_clear(&script->job);
    return failure_of(code);
}

static int delete_it(struct script *script)
{
    const bide_job *job = &script->job;
    return job->id == 0 ? BIDE_OK : let_go(script, bide_delete(script->queue, job->id, job->token));
}

static int finish_it(struct script *script)
{
    const bide_job *job = &script->job;
    if (job->id == 0)
        return BIDE_OK;
    return let_go(script, bide_done(script->queue, job->id, job->token, "result", 6, HOUR_MS));
}

static int bury_it(struct script *script)
{
    const bide_job *job = &script->job;
    if (job->id == 0)
        return BIDE_OK;
    return let_go(script, bide_bury(script->queue, job->id, job->token, 5, "no use"));
}

static int release_it(struct script *script)
{
    const bide_job *job = &script->job;
    if (job->id == 0)
        return BIDE_OK;
    return let_go(script, bide_release(script->queue, job->id, job->token, 3, HOUR_MS));
}

static int fail_it(struct script *script)
{
    const bide_job *job = &script->job;
    if (job->id == 0)
        return BIDE_OK;
    return let_go(script,
                  bide_fail(script->queue, job->id, job->token, "went wrong", HOUR_MS, NULL, NULL));
}

/* ---- from outside ---- */

static uint64_t first_in(struct script *script, const char *topic, bide_state state)
{
    bide_job job;
    if (bide_peek_first(script->queue, topic, state, &job) != BIDE_OK)
        return 0;
    uint64_t id = job.id;
    bide_job_clear(&job);
    return id;
}

static int kick_one(struct script *script)
{
    uint64_t id = first_in(script, "work", BIDE_STATE_BURIED);
    return id == 0 ? BIDE_OK : failure_of(bide_kick_job(script->queue, id));
}

static int kick_all(struct script *script)
{
    return failure_of(bide_kick(script->queue, "limited", 10, NULL));
}

static int move_one(struct script *script)
{
    bide_update_args changes = BIDE_UPDATE_INIT;
    changes.id = first_in(script, "work", BIDE_STATE_READY);
    changes.priority = 99;
    changes.topic = slice_of("other");
    return changes.id == 0 ? BIDE_OK : failure_of(bide_update(script->queue, &changes));
}

static int delete_delayed(struct script *script)
{
    uint64_t id = first_in(script, "work", BIDE_STATE_DELAYED);
    return id == 0 ? BIDE_OK : failure_of(bide_delete(script->queue, id, 0));
}

static int purge_done(struct script *script)
{
    return failure_of(bide_purge(script->queue, "work", BIDE_STATE_DONE, NULL));
}

static int pause_other(struct script *script)
{
    return failure_of(bide_pause(script->queue, "other", HOUR_MS));
}

static int resume_other(struct script *script)
{
    return failure_of(bide_resume(script->queue, "other"));
}

/* ---- the steps ---- */

static const struct {
    const char *name;
    int (*run)(struct script *);
} steps[] = {
    {"put", put_plain},
    {"put large", put_large},
    {"put delayed", put_delayed},
    {"put five", put_five},
    {"reserve", take_work},
    {"delete", delete_it},
    {"put limited", put_limited},
    {"reserve limited", take_limited},
    {"fail", fail_it},
    {"put", put_plain},
    {"reserve", take_work},
    {"bury", bury_it},
    {"pause", pause_other},
    {"put replacing", put_replacing},
    {"reserve", take_work},
    {"done", finish_it},
    {"kick", kick_one},
    {"reserve", take_work},
    {"release", release_it},
    {"update", move_one},
    {"put limited", put_limited},
    {"reserve limited", take_limited},
    {"bury", bury_it},
    {"reserve limited", take_limited},
    {"resume", resume_other},
    {"delete delayed", delete_delayed},
    {"delete", delete_it},
    {"kick all", kick_all},
    {"put", put_plain},
    {"reserve", take_work},
    {"done", finish_it},
    {"purge", purge_done},
};

size_t script_length(void)
{
    return COUNT(steps);
}

const char *script_name(size_t step)
{
    return steps[step % COUNT(steps)].name;
}

void script_begin(struct script *script, bide *queue)
{
    *script = (struct script){.queue = queue};
}

void script_done(struct script *script)
{
    bide_job_clear(&script->job);
}

int script_run(struct script *script, size_t step)
{
    return steps[step % COUNT(steps)].run(script);
}

static void check_failure(const struct script *script, const char *name, int code,
                          const struct snapshot *before)
{
    char text[DIFFERENCE_SIZE];
    if (code != BIDE_EIO && code != BIDE_EFULL && code != BIDE_EUNKNOWN && code != BIDE_ENOMEM)
        FAIL("%s%s: expected a failure of the disk, got %s", script->note, name,
             bide_code_name(code));
    struct snapshot *after = snapshot_take(script->queue);
    if (code != BIDE_EUNKNOWN && !snapshot_same(before, after, text))
        FAIL("%s%s answered %s and has changed something: %s", script->note, name,
             bide_code_name(code), text);
    snapshot_free(after);
}

int script_try(struct script *script, size_t step, void (*arm)(void), void (*heal)(void))
{
    struct snapshot *before = snapshot_take(script->queue);
    if (arm != NULL)
        arm();
    int code = script_run(script, step);
    snprintf(script->error, sizeof script->error, "%s", bide_last_error());
    if (code != BIDE_OK && strstr(bide_last_error(), "jobs.db") == NULL)
        FAIL("%s%s: expected the name of the file in \"%s\" (%s)", script->note, script_name(step),
             bide_last_error(), bide_code_name(code));
    if (heal != NULL)
        heal();
    if (code != BIDE_OK)
        check_failure(script, script_name(step), code, before);
    snapshot_free(before);
    return code;
}
