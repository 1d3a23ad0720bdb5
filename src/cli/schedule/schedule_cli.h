/* SPDX-License-Identifier: MIT */
/*
 * schedule_cli - the parts of `bide schedule`.
 *
 *     cmd_schedule.c    flags, and the actions on single schedules
 *     schedule_show.c   schedules as tables, properties and JSON
 *     schedule_load.c   load and export
 *     schedule_file.c   reads a file of schedules: lines of JSON, or a crontab
 */
#ifndef BI_SCHEDULE_CLI_H
#define BI_SCHEDULE_CLI_H

#include "cli/print.h"
#include "cli/verb.h"
#include "schedule/schedule.h"

/* What the flags say; the members that are not of a schedule are those of load and next. */
struct schedule_flags {
    bide_schedule def;
    bide_put_options options;
    const char *topic; /* of the jobs of a crontab */
    bool crontab, yes, dry_run;
    uint64_t count;
};

/* A list of schedules, sorted by name once it is complete. */
struct schedule_list {
    struct schedule **items;
    size_t count, capacity;
};

/* Takes the schedule over. False: out of memory, and the schedule is freed. */
bool bi_schedule_list_add(struct schedule_list *list, struct schedule *schedule);
/* Sorts by name. Of several with a name, which a list has if they change meanwhile, the one with
 * the highest id stays. Returns such a name; NULL: none. */
const char *bi_schedule_list_sort(struct schedule_list *list);
void bi_schedule_list_free(struct schedule_list *list);

/* Reads all schedules of the queue. Returns BI_EXIT_OK, or prints an error. */
int bi_schedule_list_fetch(const struct cli *cli, struct schedule_list *list);

/* Prints the names of all actions, for the completion. */
void bi_schedule_offer_actions(void);

/* ---- schedule_show.c ---- */

/* A moment in the zone of a schedule; NULL: in that of the process. 0 is "-". */
struct text bi_schedule_text_moment(const char *zone, int64_t at_ms);
int bi_schedule_show_list(const struct cli *cli, const struct schedule_list *list);
int bi_schedule_show(const struct cli *cli, const bide_schedule *def);
/* "report: next 2026-11-20 06:30:00 (Europe/Berlin)" as a note, or the schedule with --json. */
int bi_schedule_show_set(const struct cli *cli, const bide_schedule *def);
int bi_schedule_show_moments(const struct cli *cli, const char *zone, const int64_t *moments,
                             size_t count);

/* ---- schedule_file.c ---- */

/* Reads a file, "-" is standard input. All schedules are checked, and sorted by name. Returns
 * BI_EXIT_OK, or prints an error. */
int bi_schedule_file_read(const struct cli *cli, const struct schedule_flags *flags,
                          const char *path, struct schedule_list *list);

/* ---- schedule_load.c ---- */

int bi_schedule_load(struct cli *cli, const struct schedule_flags *flags, const char *path);
int bi_schedule_export(struct cli *cli);

#endif
