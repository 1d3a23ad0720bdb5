/* SPDX-License-Identifier: MIT */
#include "util/suggest.h"

#include <assert.h>
#include <string.h>

static char normalize(char c)
{
    return c == '-' ? '_' : c;
}

size_t bi_suggest_distance(const char *name, const char *text, size_t size)
{
    size_t row[BI_SUGGEST_NAME_MAX + 1], length = strlen(name);
    assert(length <= BI_SUGGEST_NAME_MAX);

    /* Levenshtein with one row: row[i] is the distance of the first i letters of the name to
     * the letters of the text so far. */
    for (size_t i = 0; i <= length; i++)
        row[i] = i;

    for (size_t k = 1; k <= size; k++) {
        size_t diagonal = row[0];
        row[0] = k;
        for (size_t i = 1; i <= length; i++) {
            size_t substitution = diagonal + (normalize(name[i - 1]) != normalize(text[k - 1]));
            size_t indel = (row[i] < row[i - 1] ? row[i] : row[i - 1]) + 1;
            diagonal = row[i];
            row[i] = substitution < indel ? substitution : indel;
        }
    }
    return row[length];
}

void bi_suggest_consider(struct suggestion *suggestion, const char *name, const char *text,
                         size_t size)
{
    if (size > BI_SUGGEST_NAME_MAX || strlen(name) > BI_SUGGEST_NAME_MAX)
        return;

    size_t distance = bi_suggest_distance(name, text, size);
    size_t max_distance = size / 3 + 1; /* with more changes it is another name */

    if (distance <= max_distance && (suggestion->best == NULL || distance < suggestion->distance)) {
        suggestion->best = name;
        suggestion->distance = distance;
    }
}
