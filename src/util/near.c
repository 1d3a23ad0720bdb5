/* SPDX-License-Identifier: MIT */
#include "util/near.h"

#include <string.h>

static char plain(char c)
{
    return c == '-' ? '_' : c;
}

size_t bi_near_distance(const char *name, const char *text, size_t size)
{
    size_t row[BI_NEAR_MAX + 1], length = strlen(name);
    for (size_t i = 0; i <= length; i++)
        row[i] = i;
    for (size_t k = 1; k <= size; k++) {
        size_t corner = row[0];
        row[0] = k;
        for (size_t i = 1; i <= length; i++) {
            size_t change = corner + (plain(name[i - 1]) != plain(text[k - 1]));
            size_t shorter = (row[i] < row[i - 1] ? row[i] : row[i - 1]) + 1;
            corner = row[i];
            row[i] = change < shorter ? change : shorter;
        }
    }
    return row[length];
}

void bi_near_look(struct near *near, const char *name, const char *text, size_t size)
{
    if (size > BI_NEAR_MAX || strlen(name) > BI_NEAR_MAX)
        return;
    size_t here = bi_near_distance(name, text, size);
    size_t most = size / 3 + 1; /* more changes than that are another name */
    if (here <= most && (near->best == NULL || here < near->distance)) {
        near->best = name;
        near->distance = here;
    }
}
