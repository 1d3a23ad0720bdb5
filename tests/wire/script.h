/* SPDX-License-Identifier: MIT */
/*
 * script - a file of transcripts, as it is written in transcripts/.
 *
 *     == a sentence, which is the name of the transcript
 *     flags: -z 100                  flags of the server
 *     config: auth_secret = x        a line for the server's file; as many as wanted
 *     only: bided                    or beanstalkd: for that server alone
 *     deliver: written bytes burst   in these ways alone; see replay.h
 *     # a comment
 *     > put 0 0 60 5                 sent, with CRLF at its end
 *     > hello
 *     < INSERTED $id expected, with CRLF; the word is kept, or must be what was kept
 *     > stats-job $id                the word that was kept
 *     < OK \y                        the number of bytes in the lines with | that follow
 *     | ---                          expected, with LF
 *     b> reserve                     on another connection; a is meant when none is named
 *     b! half                        see the table of deeds in script.c
 *     b? stats | current-waiting: 1  asks on b again and again until the reply has this text
 *     [bided] < "quoted"             this line is for that server alone
 *
 * Before the first == stand such settings for the whole file. Texts have these escapes:
 *
 *     \r \n \t \0 \\ \xNN  bytes          \c      at the end: no CRLF or LF is added
 *     \{300*text}          300 times       $$      a dollar sign
 *     \d \_                expected only: digits; anything up to the end of the line
 *     \[58..59]            expected only: a number from 58 to 59
 */
#ifndef WIRE_SCRIPT_H
#define WIRE_SCRIPT_H

#include "bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define WORDS_KEPT      32
#define CONNECTIONS_MAX 26

enum action {
    ACTION_SEND,
    ACTION_EXPECT,
    ACTION_ASK,
    ACTION_OPEN,
    ACTION_HALF,
    ACTION_CLOSE,
    ACTION_LEAVE,
    ACTION_ENDED,
    ACTION_QUIET,
    ACTION_SLEEP,
    ACTION_MARK,
    ACTION_PASSED,
    ACTION_SIGNAL,
};

/* A part of a text. */
struct part {
    enum { PART_BYTES, PART_WORD, PART_DIGITS, PART_LINE, PART_RANGE, PART_SIZE } kind;
    struct bytes bytes; /* PART_BYTES */
    int word;           /* PART_WORD: which of those that are kept */
    uint64_t low, high; /* PART_RANGE */
};

struct step {
    enum action action;
    int line;
    int connection; /* 0 is a */
    bool in_yaml;   /* a line with | */
    int64_t number; /* milliseconds, or the number of a signal */
    char *text;     /* as written */
    char *wanted;   /* of a question: what the reply must have */
    struct part *parts;
    size_t part_count;
};

enum { FOR_BIDED = 1, FOR_REFERENCE = 2, FOR_ALL = 3 };
enum { DELIVER_WRITTEN, DELIVER_BYTES, DELIVER_BURST, DELIVERIES };

struct transcript {
    const char *file;
    int line;
    char *title;
    char *flags;
    char *config;        /* the text of bided's file, or "" */
    unsigned only;       /* FOR_ bits */
    unsigned deliveries; /* bits 1 << DELIVER_ */
    struct step *steps;
    size_t step_count;
};

struct script {
    struct transcript *transcripts;
    size_t count;
};

/* Reads a file as a server of this kind (a FOR_ bit) is to see it, and adds what is in it. Prints
 * what is wrong with it and answers false. The name must live as long as the script. */
bool script_read(struct script *script, const char *file, unsigned kind);
void script_done(struct script *script);

#endif
