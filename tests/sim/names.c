/* SPDX-License-Identifier: MIT */
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define TEN   "0123456789"
#define FIFTY TEN TEN TEN TEN TEN

/* Few, so that ops meet. The last is as long as a name may be. */
const char *const sim_names[SIM_NAMES] = {
    "a",    "b",     "c",  "mail", "mail/out", "Z;9",
    "$_()", "+plus", "a.", "d",    "e",        FIFTY FIFTY FIFTY FIFTY,
};

const char *const sim_keys[SIM_KEYS] = {
    "k", "l", "order-17", "k2", "\xff\x01 any", FIFTY FIFTY FIFTY FIFTY,
};

bide_slice sim_slice(const char *text)
{
    return (bide_slice){.data = text, .size = strlen(text)};
}

void sim_copy_name(char *to, int name)
{
    snprintf(to, BIDE_TOPIC_MAX + 1, "%s", sim_names[name]);
}

static int index_of(const char *const *texts, int count, bide_slice text)
{
    for (int i = 0; i < count; i++)
        if (strlen(texts[i]) == text.size && memcmp(texts[i], text.data, text.size) == 0)
            return i;
    return -1;
}

int sim_name_of(bide_slice name)
{
    return index_of(sim_names, SIM_NAMES, name);
}

int sim_key_of(bide_slice key)
{
    return key.size == 0 ? -1 : index_of(sim_keys, SIM_KEYS, key);
}
