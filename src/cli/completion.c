/* SPDX-License-Identifier: MIT */
#include "cli/completion.h"

#include <string.h>

/* Brackets go away, what is in some behind a name ("TOPIC[:WEIGHT]") too, and "...", which says
 * that the word goes on. */
static void add_slot(struct slots *slots, const char *text, size_t size)
{
    char *name = slots->name[slots->count];
    size_t length = 0;
    bool skipping = false;
    slots->repeats = false;
    for (size_t i = 0; i < size && length < BI_SLOT_SIZE - 1; i++) {
        skipping = (skipping && text[i] != ']') || (text[i] == '[' && length > 0);
        if (text[i] == '.')
            slots->repeats = true;
        else if (!skipping && strchr("[]()", text[i]) == NULL)
            name[length++] = text[i];
    }
    name[length] = 0;
    slots->count++;
}

/* Flags in the usage, and what stands behind a | of its own, are other ways to call the verb. */
void bi_completion_parse_usage(struct slots *slots, const char *usage)
{
    *slots = (struct slots){.count = 0};
    while (usage[0] != 0 && usage[0] != '-' && slots->count < BI_SLOTS_MAX) {
        size_t size = strcspn(usage, " ");
        if (size == 1 && usage[0] == '|')
            break;
        add_slot(slots, usage, size);
        usage += size;
        usage += strspn(usage, " ");
    }
}

const char *bi_completion_next_choice(const char **at, size_t *size)
{
    const char *choice = *at;
    if (*choice == 0)
        return NULL;
    *size = strcspn(choice, "|");
    *at += *size + (choice[*size] == '|');
    return choice;
}

void bi_completion_print_states(FILE *to)
{
    for (bide_state state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++)
        fprintf(to, "%s%s", state == BIDE_STATE_DELAYED ? "" : " ", bide_state_name(state));
}
