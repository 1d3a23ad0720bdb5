/* SPDX-License-Identifier: MIT */
/*
 * schedule_load - makes the schedules of a queue equal to those of a file.
 *
 * Both lists are sorted by name and merged. The differences are shown first. Each schedule is then
 * changed in one step; a load that is interrupted may be repeated.
 */
#include "cli/schedule/schedule_cli.h"

#include <stdlib.h>
#include <string.h>

enum change_kind { CHANGE_ADD, CHANGE_SET, CHANGE_REMOVE };

static const char *const signs[] = {"+", "~", "-"};
static const char *const verbs[] = {"add", "change", "remove"};

struct change {
    enum change_kind kind;
    const struct schedule *old, *new; /* NULL: none */
    json_t *fields;                   /* name: [old, new] */
};

struct changes {
    const struct cli *cli;
    struct change *items;
    size_t count, capacity;
};

/* ---- differences ---- */

static bool add_field(json_t *fields, const char *name, json_t *before, json_t *after)
{
    json_t *pair = json_array();
    return json_array_append_new(pair, before == NULL ? json_null() : json_incref(before)) == 0 &&
           json_array_append_new(pair, after == NULL ? json_null() : json_incref(after)) == 0 &&
           json_object_set_new(fields, name, pair) == 0;
}

/* The members that differ; NULL without memory. */
static json_t *compare_fields(const struct schedule *old, const struct schedule *new)
{
    json_t *a = bi_schedule_encode(&old->def, BI_SCHEDULE_DEFINITION);
    json_t *b = bi_schedule_encode(&new->def, BI_SCHEDULE_DEFINITION);
    json_t *fields = a == NULL || b == NULL ? NULL : json_object();
    const char *name;
    json_t *value;
    bool ok = fields != NULL;

    json_object_foreach(a, name, value)
    {
        if (!json_equal(value, json_object_get(b, name)))
            ok = ok && add_field(fields, name, value, json_object_get(b, name));
    }
    json_object_foreach(b, name, value)
    {
        if (json_object_get(a, name) == NULL)
            ok = ok && add_field(fields, name, NULL, value);
    }
    if (ok && new->def.state == BIDE_SCHEDULE_PAUSED && old->def.state != BIDE_SCHEDULE_PAUSED)
        ok = json_object_set_new(fields, "state", json_pack("[s, s]", "active", "paused")) == 0;
    json_decref(a);
    json_decref(b);
    if (ok)
        return fields;
    json_decref(fields);
    return NULL;
}

/* Appends a change; one of both is NULL, or both have the same name. */
static bool add_change(struct changes *changes, const struct schedule *old,
                       const struct schedule *new)
{
    json_t *fields = NULL;
    if (old != NULL && new != NULL) {
        fields = compare_fields(old, new);
        if (fields == NULL)
            return false;
        /* A damaged one is replaced even if nothing differs. */
        if (json_object_size(fields) == 0 && old->def.state != BIDE_SCHEDULE_DAMAGED) {
            json_decref(fields);
            return true;
        }
    }
    if (!BI_CLI_RESERVE(changes->items, changes->count + 1, changes->capacity)) {
        json_decref(fields);
        return false;
    }
    changes->items[changes->count++] = (struct change){.kind = old == NULL   ? CHANGE_ADD
                                                               : new == NULL ? CHANGE_REMOVE
                                                                             : CHANGE_SET,
                                                       .old = old,
                                                       .new = new,
                                                       .fields = fields};
    return true;
}

static bool compare_lists(struct changes *changes, const struct schedule_list *old,
                          const struct schedule_list *new)
{
    bool ok = true;

    for (size_t i = 0, j = 0; ok && (i < old->count || j < new->count);) {
        int order = i == old->count   ? 1
                    : j == new->count ? -1
                                      : strcmp(old->items[i]->def.name, new->items[j]->def.name);
        ok = add_change(changes, order <= 0 ? old->items[i] : NULL,
                        order >= 0 ? new->items[j] : NULL);
        i += order <= 0;
        j += order >= 0;
    }
    return ok;
}

/* ---- output ---- */

static const bide_schedule *def_of(const struct change *change)
{
    return change->new != NULL ? &change->new->def : &change->old->def;
}

static void print_value(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text != NULL)
        bi_print_line(stdout, true, text, strlen(text));
    free(text);
}

static int print_change(const struct cli *cli, const struct change *change)
{
    const bide_schedule *def = def_of(change);
    const char *name;
    json_t *pair;

    if (cli->json)
        return bi_cli_print_json(cli, json_pack("{s:s, s:s, s:O*}", "change", verbs[change->kind],
                                                "name", def->name, "fields", change->fields));

    printf("%s %s", signs[change->kind], def->name);
    if (change->kind != CHANGE_SET && def->when != NULL)
        printf("  %s (%s) %s", def->when, def->zone == NULL ? "UTC" : def->zone, def->topic);
    putchar('\n');
    json_object_foreach(change->fields, name, pair)
    {
        printf("    %s: ", name);
        print_value(json_array_get(pair, 0));
        printf(" -> ");
        print_value(json_array_get(pair, 1));
        putchar('\n');
    }
    return BI_EXIT_OK;
}

static int print_changes(const struct changes *changes)
{
    int exit = BI_EXIT_OK;
    for (size_t i = 0; i < changes->count && exit == BI_EXIT_OK; i++)
        exit = print_change(changes->cli, &changes->items[i]);
    return exit == BI_EXIT_OK ? bi_cli_flush(changes->cli) : exit;
}

/* ---- changes ---- */

static int apply(const struct changes *changes)
{
    const struct cli *cli = changes->cli;
    size_t failed = 0;

    for (size_t i = 0; i < changes->count; i++) {
        const struct change *change = &changes->items[i];
        int code = change->kind == CHANGE_REMOVE
                       ? bide_schedule_remove(cli->queue, change->old->def.name)
                       : bide_schedule_set(cli->queue, &change->new->def, NULL);
        if (code == BIDE_OK || (change->kind == CHANGE_REMOVE && code == BIDE_NOT_FOUND))
            continue;
        int exit = bi_cli_report(cli, def_of(change)->name, code, bide_last_error());
        if (bi_cli_is_fatal(code))
            return exit;
        failed++;
    }
    if (failed > 0)
        return BI_EXIT_PARTIAL;
    bi_cli_note(cli, "%zu schedule%s changed", changes->count, changes->count == 1 ? "" : "s");
    return BI_EXIT_OK;
}

static int confirm_and_apply(const struct changes *changes, const struct schedule_flags *flags)
{
    const struct cli *cli = changes->cli;
    int exit = print_changes(changes);

    if (exit != BI_EXIT_OK || flags->dry_run)
        return exit;
    if (changes->count == 0) {
        bi_cli_note(cli, "the schedules of the queue are those of the file");
        return BI_EXIT_OK;
    }
    if (!flags->yes &&
        !bi_cli_confirm(cli, "Make %zu change%s?", changes->count, changes->count == 1 ? "" : "s"))
        return BI_EXIT_USAGE;
    return apply(changes);
}

int bi_schedule_load(struct cli *cli, const struct schedule_flags *flags, const char *path)
{
    struct schedule_list old = {NULL, 0, 0}, new = {NULL, 0, 0};
    struct changes changes = {.cli = cli};

    int exit = bi_schedule_file_read(cli, flags, path, &new);
    if (exit == BI_EXIT_OK)
        exit = bi_schedule_list_fetch(cli, &old);
    if (exit == BI_EXIT_OK && !compare_lists(&changes, &old, &new))
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    if (exit == BI_EXIT_OK)
        exit = confirm_and_apply(&changes, flags);

    for (size_t i = 0; i < changes.count; i++)
        json_decref(changes.items[i].fields);
    free(changes.items);
    bi_schedule_list_free(&old);
    bi_schedule_list_free(&new);
    return exit;
}

int bi_schedule_export(struct cli *cli)
{
    struct schedule_list list = {NULL, 0, 0};
    int exit = bi_schedule_list_fetch(cli, &list);

    for (size_t i = 0; i < list.count && exit == BI_EXIT_OK; i++) {
        const bide_schedule *def = &list.items[i]->def;
        if (def->when == NULL) {
            bi_cli_warn(cli, "%s is damaged and left out: %s", def->name, def->problem);
            continue;
        }
        json_t *object = bi_schedule_encode(def, BI_SCHEDULE_DEFINITION);
        if (object != NULL && def->state == BIDE_SCHEDULE_PAUSED)
            json_object_set_new(object, "state", json_string("paused"));
        exit = bi_cli_print_json(cli, object);
    }
    bi_schedule_list_free(&list);
    return exit;
}
