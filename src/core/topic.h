/* SPDX-License-Identifier: MIT */
/*
 * topic - a named queue: its jobs by state, its waiting calls, its pause, its policy and its
 * counters.
 *
 * Ready jobs are in a heap by (priority, id), delayed jobs in a heap by (due, id), one for each
 * clock. Every job is also in the list of its state, in order of entry: the oldest ready job, the
 * oldest burial and the oldest result are the heads of lists.
 *
 * Ordering   Topics are listed by serial, which is the order of their creation.
 * Ownership  The core creates a topic when an op first needs it, and destroys it when it has no
 *            member, waiting call, reference, pin, pause, policy or journal entry left.
 * Failure    Creating a topic, reserving room and beginning a kick can fail; the topic is then
 *            unchanged. Members enter and leave without allocating.
 */
#ifndef BI_TOPIC_H
#define BI_TOPIC_H

#include "core/job.h"
#include "core/policy.h"
#include "core/waiter.h"

struct ready_entry {
    uint32_t priority;
    uint32_t job;
    uint64_t id;
};

#define BI_HEAP_NAME              ready
#define BI_HEAP_ENTRY             struct ready_entry
#define BI_HEAP_LESS(a, b)        bi_ready_before(a, b)
#define BI_HEAP_MOVED(ctx, e, at) (((uint32_t *)(ctx))[(e)->job] = (at)) /* ctx: core->slots */

static inline bool bi_ready_before(const struct ready_entry *a, const struct ready_entry *b)
{
    /* No branches: random priorities make them unpredictable. */
    return (a->priority < b->priority) | ((a->priority == b->priority) & (a->id < b->id));
}

#include "core/heap.h"

struct due_entry {
    int64_t due;
    uint64_t id;
    uint32_t job;
};

#define BI_HEAP_NAME              due
#define BI_HEAP_ENTRY             struct due_entry
#define BI_HEAP_LESS(a, b)        bi_due_before(a, b)
#define BI_HEAP_MOVED(ctx, e, at) (((uint32_t *)(ctx))[(e)->job] = (at)) /* ctx: core->slots */

static inline bool bi_due_before(const struct due_entry *a, const struct due_entry *b)
{
    return (a->due < b->due) | ((a->due == b->due) & (a->id < b->id));
}

#include "core/heap.h"

/* The index of a clock. */
enum clock { DUE_MONO, DUE_WALL, DUE_CLOCKS };

/*
 * Delayed jobs, in a heap for each clock. A topic has one set for all of them. A long kick
 * separates the jobs that it works on from those that are delayed after it began: it finds the
 * soonest of them without scanning younger ones.
 */
struct due_set {
    struct due_set *older; /* of an earlier kick; NULL: none */
    struct due_heap heaps[DUE_CLOCKS];
    int64_t bound; /* its jobs were delayed at this time or before; BI_NEVER: the topic's own set */
    uint32_t kicks; /* active kicks with this bound; 0: to be merged into the next younger set */
};

/* The most kick sets of a topic. */
#define BI_KICK_SETS_MAX 16

struct topic {
    uint32_t self;
    uint64_t hash;   /* of the name */
    uint64_t serial; /* increases with every topic; the order of listing */
    struct ready_heap ready;
    struct due_set delayed;             /* its own set; those of kicks follow, youngest first */
    struct timer due_timer[DUE_CLOCKS]; /* the soonest delayed job on each clock */
    struct timer timer_pause;
    struct timer age;   /* in core->ages: at or before the since of the oldest ready job */
    struct timer serve; /* in core->serving: at or before the number of the first waiter */
    struct job_list lists[BIDE_STATE_DONE + 1];
    uint32_t members; /* its jobs, also the removed ones that the journal retains */
    uint32_t urgent;
    struct line_heap line; /* the calls that wait */
    uint32_t line_links;   /* links of waiters, also of parked ones: the room of the line */
    uint64_t references;
    uint32_t pins; /* operations in progress that need the topic */
    /* While finish_and_put prepares its changes, else 0: jobs that they add, and journal entries. */
    int32_t step_jobs;
    uint32_t step_entries;
    uint64_t fair_turn;    /* the last fair reserve that took a job from it */
    int64_t paused_until;  /* boot-time clock; 0: not paused; BI_NEVER: until resumed */
    int64_t pause;         /* requested duration; for display only */
    struct policy *policy; /* NULL: it never had one */
    uint64_t policy_batch; /* the last batch that changed the policy */
    uint32_t undo;         /* the journal's newest entry for pause and policy; 0: none */
    uint8_t limited;       /* LIMITED_*: why reserves skip the topic, apart from a pause */
    uint64_t changed;      /* the last batch that changed a job which existed before */
    bide_counters total;
    uint8_t name_size;
    char name[BIDE_TOPIC_MAX + 1];
};

/* Returns the topic with this name, or NULL. */
struct topic *bi_topic_find(struct core *core, bide_slice name);

/* Prefetches for two lookups: the bucket of the later name, and the topic of the next one. */
void bi_topic_prefetch(const struct core *core, bide_slice later, bide_slice next);

/* Finds a topic, or creates it if there are fewer than max. BIDE_OK, TOO_MANY_TOPICS or ENOMEM. A
 * caller that does not use the topic after all calls bi_topic_cleanup(). */
int bi_topic_get(struct core *core, bide_slice name, uint64_t max, struct topic **topic);

/* Reserves room for so many more members in every heap, so that no later change of state allocates.
 * False when out of memory. */
bool bi_topic_reserve(struct core *core, struct topic *topic, uint32_t count);

/* True if something needs the topic: a member, a call, a reference, a pin, a pause, a policy, the
 * journal. */
bool bi_topic_is_in_use(const struct topic *topic);

/* Destroys the topic if it is not in use and the option topic_cleanup is on. */
void bi_topic_cleanup(struct core *core, struct topic *topic);

/* The same regardless of topic_cleanup: for a topic created for an operation that then failed. */
void bi_topic_destroy(struct core *core, struct topic *topic);

/* A pinned topic is not destroyed. The last unpin may destroy it. */
static inline void bi_topic_pin(struct topic *topic)
{
    topic->pins++;
}

void bi_topic_unpin(struct core *core, struct topic *topic);

void bi_topics_free(struct core *core);

/* Returns the topic with this serial or the next larger one; NULL if there is none. */
struct topic *bi_topic_at_or_after(const struct core *core, uint64_t serial);

static inline bool bi_topic_is_open(const struct topic *topic)
{
    return topic->paused_until == 0 && topic->limited == 0 && topic->ready.count > 0;
}

/* Return the heap in which a delayed job is to be inserted, and the heap that contains it (NULL:
 * none does). */
struct due_heap *bi_topic_insert_heap(struct topic *topic, const struct job *job);
struct due_heap *bi_topic_find_heap(const struct core *core, struct topic *topic,
                                    const struct job *job);

/* Returns the soonest entry on one clock among the jobs delayed at or before bound (BI_NEVER:
 * all); NULL if there is none. */
const struct due_entry *bi_topic_soonest_due(const struct topic *topic, enum clock clock,
                                             int64_t bound);

/*
 * Begins a kick that needs more than one slice: separates the jobs delayed at or before *bound from
 * later ones. If another kick is active and no job was delayed since, both share its set and *bound
 * is lowered to its bound. BIDE_OK, ENOMEM, or EBUSY if too many kicks are active; on failure the
 * topic is unchanged. The caller ends the kick with bi_topic_end_kick().
 */
int bi_topic_begin_kick(struct core *core, struct topic *topic, int64_t *bound);
void bi_topic_end_kick(struct core *core, struct topic *topic, int64_t bound);

/* Moves up to budget jobs out of kick sets that have no active kick. The budget limits
 * the time that a change of state takes under the lock. */
void bi_topic_merge_kick_sets(struct core *core, struct topic *topic, unsigned budget);

/* Sets the timer of each clock to its soonest delayed job. */
void bi_topic_arm_timers(struct core *core, struct topic *topic);

/* Pauses the topic until a time of the boot-time clock, BI_NEVER for no end; 0 resumes it and wakes
 * its waiting calls. */
void bi_topic_set_pause(struct core *core, struct topic *topic, int64_t until);

/* Number of jobs that count for max_jobs_per_topic: all but results. */
uint64_t bi_topic_live_count(const struct topic *topic);

#endif
