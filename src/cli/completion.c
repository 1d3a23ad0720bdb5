/* SPDX-License-Identifier: MIT */
#include "cli/completion.h"

#include <string.h>

static void add_slot(struct slots *slots, const char *text, size_t size)
{
    while (size > 0 && strchr("[(", text[0]) != NULL) {
        text++;
        size--;
    }
    while (size > 0 && strchr("])", text[size - 1]) != NULL)
        size--;
    slots->goes_on = size > 3 && memcmp(text + size - 3, "...", 3) == 0;
    if (slots->goes_on)
        size -= 3;
    if (size > 0 && size < BI_SLOT_SIZE && text[0] != '-' && slots->count < BI_SLOTS)
        snprintf(slots->name[slots->count++], BI_SLOT_SIZE, "%.*s", (int)size, text);
}

void bi_slots_read(struct slots *slots, const char *usage)
{
    *slots = (struct slots){.count = 0};
    while (usage[0] != 0) {
        size_t size = strcspn(usage, " ");
        if (size == 2 && strncmp(usage, "--", 2) == 0)
            break;
        add_slot(slots, usage, size);
        usage += size;
        usage += strspn(usage, " ");
    }
}

const char *bi_slot_part(const char **at, size_t *size)
{
    const char *part = *at;
    if (*part == 0)
        return NULL;
    *size = strcspn(part, "|");
    *at += *size + (part[*size] == '|');
    return part;
}

void bi_completion_states(FILE *to)
{
    for (bide_state state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++)
        fprintf(to, "%s%s", state == BIDE_STATE_DELAYED ? "" : " ", bide_state_name(state));
}
