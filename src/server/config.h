/* SPDX-License-Identifier: MIT */
/*
 * config - the settings of bided: one table, read from defaults, a file and flags.
 *
 * A setting has the same name everywhere: `--max-job-size 1MiB` on the command line,
 * `max_job_size = 1MiB` in the file, max_job_size in the URL of a queue where it is the queue's.
 * Later wins: the file over the defaults, flags over the file, and of two in the same place the
 * one that comes last. The flags of beanstalkd are short names of some settings (flags.c).
 *
 * Ownership  A configuration owns its texts; flags borrow those of argv.
 * Failure    A sentence in error (BI_SENTENCE_SIZE bytes), which names the line of the file.
 */
#ifndef BI_CONFIG_H
#define BI_CONFIG_H

#include "server/logger.h"
#include "server/server.h"
#include "util/sentence.h"

#define BI_CONFIG_FILE "/etc/bide/bided.conf" /* read if it exists and no other is named */
#define BI_SETTINGS    47
#define BI_LISTEN_MAX  64 /* addresses */

struct config {
    bide_options options; /* of the queue; max_memory is the server's default unless memory_said */
    bool memory_said;
    struct server_limits limits;
    const char *url;       /* NULL: none */
    const char *directory; /* where bide.db is to be kept; NULL: not said. Never both: the command
                              line wins over the file, and either may say one of them only. */
    char *listen[BI_LISTEN_MAX];
    size_t listen_count;
    const char *address; /* beanstalkd's -l and -p: one more address; NULL: not said */
    const char *port;
    uint32_t unix_mode;
    const char *secret_file; /* NULL: none, or auth_secret was said later */
    const char *user;        /* "": stay who we are */
    enum bi_log_format log_format;
    bide_log_level log_level;
    char *said[BI_SETTINGS]; /* by setting: what was said, NULL: nothing */
};

/* Sentences for the log, kept until there is one. */
#define BI_NOTES_MAX 32
struct notes {
    size_t count;
    struct {
        bide_log_level level;
        char text[BI_SENTENCE_SIZE];
    } list[BI_NOTES_MAX];
};

/* Further ones than there is room for are dropped. */
void bi_notes_add(struct notes *notes, bide_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes them to the log and forgets them. */
void bi_notes_tell(struct notes *notes, const struct bi_log *log);

/* ---- flags ---- */

#define BI_FLAGS_MAX 256

enum flags_wish { BI_WISH_RUN, BI_WISH_HELP, BI_WISH_VERSION, BI_WISH_CHECK };

struct flags {
    enum flags_wish wish;
    const char *file; /* --config; NULL: the usual one, if it exists */
    bool again;       /* while clients are served: nothing is waited for long */
    size_t count;
    struct {
        size_t setting;
        const char *value;
    } list[BI_FLAGS_MAX];
    struct notes notes;
};

/* Reads a command line, without the program's name; nothing is looked at but the flags. */
bool bi_flags_parse(struct flags *flags, const char *const *argv, char *error);

void bi_help_print(FILE *to);

/* ---- all together ---- */

/*
 * Defaults, then the file, then the flags; what is said is checked as far as that can be done
 * without opening anything. On failure there is nothing to free.
 */
bool bi_config_load(struct config *config, const struct flags *flags, struct notes *notes,
                    char *error);
void bi_config_free(struct config *config);

/* What the queue has to say against the settings, or its URL: bide_last_error() without the name of
 * the call, which nobody has made here. */
const char *bi_config_reason(void);

/* Notes what a reload from one to the other cannot change. */
void bi_config_compare(const struct config *old, const struct config *new, struct notes *notes);

/* ---- the table ---- */

struct setting {
    const char *name;
    const char *group; /* the heading in the help; NULL: only the short flag of beanstalkd */
    const char *kind;  /* what it takes, in capitals */
    const char *fallback;
    const char *help;
    unsigned traits;
};

#define BI_RELOAD 1u /* a reload changes it */
#define BI_SECRET 2u /* never as a flag, where everybody sees it */
#define BI_LIST   4u /* every value is one more */

/* The setting of an index, from 0 on; NULL when there are no more. */
const struct setting *bi_setting_get(size_t index);

/* The index of a name that the code knows to be right. */
size_t bi_setting_index(const char *name);

/* The index of a name, in which - and _ are the same; false, with a sentence that suggests another
 * name, if there is none. */
bool bi_setting_find(const char *name, size_t size, size_t *index, char *error);

/* Empties a list. */
void bi_setting_clear(struct config *config, size_t index);

/* Puts a value into the configuration, if it is a good one. The text must live as long
 * as that, unless the setting is a list. */
bool bi_setting_set(struct config *config, size_t index, const char *text, char *error);

#endif
