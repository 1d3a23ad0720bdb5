/* SPDX-License-Identifier: MIT */
/*
 * cron_model - a second, naive implementation of cron expressions, to compare util/cron.h with.
 *
 * It shares nothing with src/: it has its own parser, which evaluates the text of a field for each
 * value, and it knows neither zones nor clock changes. The test walks through real time minute by
 * minute and passes what localtime_r() shows. Times are minutes since 1970; readings are what the
 * local clock shows, in the same unit.
 */
#ifndef BI_UNIT_CRON_MODEL_H
#define BI_UNIT_CRON_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct cron_model {
    char days[64], weekdays[64]; /* the text of these fields */
    bool second[60], minute[60], hour[24], month[13];
    bool every_hour;
    int64_t every_s; /* "every 90s"; 0: fields */
    int64_t day;     /* the day, as a reading, that day_matches is about */
    bool day_matches;
};

/* The text must be valid, and its durations in seconds. */
void cron_model_init(struct cron_model *model, const char *text);

/*
 * Sets in which seconds of a minute the expression occurs; false if in none. reading: what the clock
 * shows in this minute. highest: the highest reading of all earlier minutes.
 */
bool cron_model_minute(struct cron_model *model, int64_t reading, int64_t highest, bool occurs[60]);

/* The same for "every". */
void cron_model_every(const struct cron_model *model, int64_t minute, bool occurs[60]);

#endif
