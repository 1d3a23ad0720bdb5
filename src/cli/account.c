/* SPDX-License-Identifier: MIT */
#include "cli/account.h"

#include "cli/print.h"

/* When there is no room for one more range, the last one becomes the vaguer of the two. */
static void add_range(struct account *account, uint64_t line, enum bi_settled outcome)
{
    size_t count = account->range_count;
    struct account_range *last = count == 0 ? NULL : &account->ranges[count - 1];
    if (last != NULL && last->outcome == outcome) {
        last->last = line;
    } else if (count < BI_ACCOUNT_RANGES) {
        account->ranges[account->range_count++] = (struct account_range){outcome, line, line};
    } else if (last != NULL) {
        last->last = line;
        last->outcome = BI_UNSURE;
    }
}

void bi_account_tell(struct account *account, uint64_t line, enum bi_settled outcome)
{
    if (account->range_count == 0 && outcome == BI_SETTLED)
        account->sure = line;
    else
        add_range(account, line, outcome);
}

bool bi_account_is_clear(const struct account *account)
{
    for (size_t i = 0; i < account->range_count; i++)
        if (account->ranges[i].outcome != BI_LEFT)
            return false;
    return true;
}

static int say_range(const struct account_range *range, const char *what, char *to, size_t size)
{
    static const char *const outcomes[] = {"in", "unsure (the answer was lost: in, or not)",
                                           "not in"};
    char first[32], last[32];
    bi_print_number(first, range->first);
    bi_print_number(last, range->last);
    if (range->first == range->last)
        return snprintf(to, size, "%s %s is %s", what, first, outcomes[range->outcome]);
    return snprintf(to, size, "%ss %s to %s are %s", what, first, last, outcomes[range->outcome]);
}

void bi_account_say(const struct account *account, const char *what, char *to, size_t size)
{
    size_t used = 0;
    to[0] = 0;
    for (size_t i = 0; i < account->range_count && used < size; i++) {
        if (i > 0)
            used += (size_t)snprintf(to + used, size - used, "; ");
        if (used < size)
            used += (size_t)say_range(&account->ranges[i], what, to + used, size - used);
    }
}
