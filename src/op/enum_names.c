/* SPDX-License-Identifier: MIT */
/*
 * enum_names - the names and texts of codes, states, events, failures, limits, phases and of the
 * policies of schedules.
 */
#include <bide/bide.h>
#include <bide/schedule.h>

#include <stddef.h>

static const struct {
    int code;
    const char *name;
    const char *text;
} codes[] = {
#define CODE(name, value, sentence) {value, #name, sentence},
    BIDE_CODES(CODE)
#undef CODE
};

#define CODE_COUNT (sizeof(codes) / sizeof(codes[0]))

const char *bide_code_name(int code)
{
    for (size_t i = 0; i < CODE_COUNT; i++)
        if (codes[i].code == code)
            return codes[i].name;
    return "BIDE_?";
}

const char *bide_code_text(int code)
{
    for (size_t i = 0; i < CODE_COUNT; i++)
        if (codes[i].code == code)
            return codes[i].text;
    return "a code that this library does not know";
}

const char *bide_state_name(bide_state state)
{
    static const char *const names[] = {"gone", "delayed", "ready", "reserved", "buried", "done"};
    return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

const char *bide_event_name(bide_event_kind kind)
{
    static const char *const names[BIDE_EVENT_KINDS] = {
        "put",    "ready",   "reserved",      "released", "failed",  "timed_out", "buried",
        "kicked", "updated", "cancel_wanted", "done",     "deleted", "expired",   "retired",
    };
    return (unsigned)kind < BIDE_EVENT_KINDS ? names[kind] : "?";
}

const char *bide_failure_name(bide_failure_kind kind)
{
    static const char *const names[BIDE_FAILURE_KINDS] = {"failed", "buried", "timed_out",
                                                          "disconnected", "restarted"};
    return (unsigned)kind < BIDE_FAILURE_KINDS ? names[kind] : "?";
}

const char *bide_limit_name(bide_limit limit)
{
    static const char *const names[] = {"none", "concurrency", "rate", "recovery"};
    return (unsigned)limit < sizeof(names) / sizeof(names[0]) ? names[limit] : "?";
}

const char *bide_why_name(bide_why_reason reason)
{
    static const char *const names[BIDE_WHY_REASONS] = {
        "none",        "gone", "unknown",   "done",  "reserved", "buried",   "delayed", "paused",
        "concurrency", "rate", "no_worker", "ahead", "key_held", "draining", "closing",
    };
    return (unsigned)reason < BIDE_WHY_REASONS ? names[reason] : "?";
}

const char *bide_phase_name(bide_phase phase)
{
    static const char *const names[] = {"counting", "loading", "ordering", "recovered"};
    return (unsigned)phase < sizeof(names) / sizeof(names[0]) ? names[phase] : "?";
}

const char *bide_schedule_state_name(bide_schedule_state state)
{
    static const char *const names[] = {"active", "paused", "ended", "damaged"};
    return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

const char *bide_misfire_name(bide_misfire misfire)
{
    static const char *const names[] = {"once", "skip", "all"};
    return (unsigned)misfire < sizeof(names) / sizeof(names[0]) ? names[misfire] : "?";
}

const char *bide_overlap_name(bide_overlap overlap)
{
    static const char *const names[] = {"allow", "skip", "replace"};
    return (unsigned)overlap < sizeof(names) / sizeof(names[0]) ? names[overlap] : "?";
}
