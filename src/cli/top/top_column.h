/* SPDX-License-Identifier: MIT */
/*
 * top_column - the table of topics: which columns there are, which of them fit, in which order the
 * topics stand, and which are shown.
 */
#ifndef BI_TOP_COLUMN_H
#define BI_TOP_COLUMN_H

#include "cli/top/top_format.h"
#include "cli/top/top_model.h"

/* In the order of the screen. */
enum top_column {
    TOP_NAME,
    TOP_READY,
    TOP_RESERVED,
    TOP_DELAYED,
    TOP_BURIED,
    TOP_DONE,
    TOP_IN,
    TOP_OUT,
    TOP_OLDEST,
    TOP_WAITING,
    TOP_TREND,
    TOP_COLUMNS
};

#define BI_TOP_SORTABLE TOP_TREND /* all before it */

/* The heading, "READY". */
const char *bi_top_column_heading(enum top_column column);
/* By its heading in any case, or the state that it counts; TOP_COLUMNS if there is none. */
enum top_column bi_top_column_find(const char *name);
/* What stands in a cell; not of the name and the trend. plain: the server is a beanstalkd, which
 * does not know everything. to: BI_TOP_FORMAT_SIZE. */
void bi_top_column_format(char *to, enum top_column column, const struct top_topic *topic,
                          bool plain);

/*
 * How wide each column is in a window of so many columns, with one blank before each but the first;
 * 0: it does not fit. Numbers have the width that they need; what is left is the name's, as far as
 * one is so long, then the trend's. The less important columns go first.
 */
void bi_top_column_layout(int width, int longest_name, int widths[TOP_COLUMNS]);

/* Which topics are shown, and how they are sorted: figures with the largest first, names from A to
 * Z, or the other way round; equal ones by name. */
struct top_order {
    enum top_column by;
    bool reverse;
    char filter[64]; /* occurs in the name, in any case of letters; "": all */
    struct top_topic **list;
    size_t count, capacity;
    int longest_name;
};

/* Makes the list anew. False: no memory, and the list is empty. */
bool bi_top_column_sort(struct top_order *order, const struct top_model *model);

#endif
