/* SPDX-License-Identifier: MIT */
/*
 * config - the settings of bided: one table, filled from defaults, a file and flags.
 *
 * A setting has the same name everywhere: `--max-job-size 1MiB` on the command line,
 * `max_job_size = 1MiB` in the file, max_job_size in the URL of a queue where it is the queue's.
 * The file overrides the defaults, flags override the file, and a later value overrides an earlier
 * one. The flags of beanstalkd are short names of some settings (flags.c).
 *
 * Ownership  A configuration owns its strings; flags borrow those of argv.
 * Failure    A function returns false with a message in error (BI_ERRMSG_SIZE bytes), which names
 *            the line of the file.
 */
#ifndef BI_CONFIG_H
#define BI_CONFIG_H

#include "queue/queue.h"
#include "server/logger.h"
#include "server/server.h"
#include "util/message.h"

#define BI_CONFIG_FILE "/etc/bide/bided.conf" /* read if it exists and --config is not given */
#define BI_SETTINGS    48
#define BI_LISTEN_MAX  64 /* addresses */

struct config {
    bide_options options; /* of the queue; max_memory is the server's default unless memory_given */
    bool memory_given;
    struct server_limits limits;
    const char *url;       /* NULL: none */
    const char *directory; /* of bide.db; NULL: not given. Never both: the command line wins over
                              the file, and each of them may name only one. */
    struct listen_address listen[BI_LISTEN_MAX];
    size_t listen_count;
    const char *address; /* of -l and -p, one more address; NULL: not given */
    const char *port;
    uint32_t unix_mode;
    const char *secret_file; /* NULL: none, or overridden by a later auth_secret */
    const char *user;        /* "": do not change the user */
    bool schedules;          /* put the jobs of schedules */
    enum bi_log_format log_format;
    bide_log_level log_level;
    char *given[BI_SETTINGS]; /* the text of each setting; NULL: not given */
};

/* Log lines that are collected until the log is configured. */
#define BI_NOTES_MAX 32
struct notes {
    size_t count;
    struct {
        bide_log_level level;
        char text[BI_ERRMSG_SIZE];
    } list[BI_NOTES_MAX];
};

/* Adds a line; beyond BI_NOTES_MAX it is dropped. */
void bi_config_add_note(struct notes *notes, bide_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes the lines to the log and clears them. */
void bi_config_log_notes(struct notes *notes, const struct bi_log *log);

/* ---- flags ---- */

#define BI_FLAGS_MAX 256

enum flags_action { BI_ACTION_RUN, BI_ACTION_HELP, BI_ACTION_VERSION, BI_ACTION_CHECK };

struct flags {
    enum flags_action action;
    const char *file; /* --config; NULL: BI_CONFIG_FILE, if it exists */
    bool reload;      /* clients are being served: do not wait for a pipe for long */
    size_t count;
    struct {
        size_t setting;
        const char *value;
    } list[BI_FLAGS_MAX];
    struct notes notes;
};

/* Parses a command line without the name of the program. Values are checked by bi_config_load(). */
bool bi_flags_parse(struct flags *flags, const char *const *argv, char *error);

void bi_help_print(FILE *to);

/* ---- configuration ---- */

/*
 * Applies defaults, the file and the flags, and checks the values as far as possible without
 * opening the queue. On failure there is nothing to free.
 */
bool bi_config_load(struct config *config, const struct flags *flags, struct notes *notes,
                    char *error);
void bi_config_free(struct config *config);

/* bide_last_error() without the prefix "open: ", for messages about settings and the URL. */
const char *bi_config_queue_error(void);

/* Adds a note for each setting that differs and needs a restart. */
void bi_config_note_restarts(const struct config *old, const struct config *new,
                             struct notes *notes);

/* ---- table ---- */

struct setting;

/* bi_setting_set() for one setting. */
typedef bool setting_fn(struct config *config, const struct setting *setting, const char *text,
                        char *error);

struct setting {
    const char *name;
    const char *group; /* the heading in the help; NULL: only the short flag of beanstalkd */
    const char *kind;  /* placeholder of the value in the help */
    const char *fallback;
    const char *help;
    unsigned traits;
    setting_fn *set;

    /* A member of struct config, and which values it takes. */
    size_t offset, width;
    enum bi_option_type unit;
    uint64_t min, max;
    const char *words; /* separated by '|', in the order of their values */
    const char *takes; /* the same for the message about another word */
};

#define BI_RELOAD 1u /* applied by a reload */
#define BI_SECRET 2u /* not allowed as a flag: arguments are visible to all users */
#define BI_LIST   4u /* values accumulate */

/* The setting of an index; NULL behind the last. */
const struct setting *bi_setting_get(size_t index);

/* The index of a name that must exist. */
size_t bi_setting_index(const char *name);

/* True if the first `size` bytes of the text are the name. '-' and '_' are equal. */
bool bi_setting_name_equals(const char *name, const char *text, size_t size);

/* Finds a name, in which '-' and '_' are equal. The message on failure suggests a similar name. */
bool bi_setting_find(const char *name, size_t size, size_t *index, char *error);

/* Empties a list. */
void bi_setting_clear(struct config *config, size_t index);

/* Parses and stores a value. The configuration borrows the text, unless the setting is a list. */
bool bi_setting_set(struct config *config, size_t index, const char *text, char *error);

#endif
