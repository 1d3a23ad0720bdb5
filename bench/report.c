/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <bide/bide.h>

static void find_cpu(char *cpu, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");

    snprintf(cpu, size, "unknown");
    if (file == NULL)
        return;
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(cpu, size, "%.100s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    fclose(file);
}

static void find_kernel(char *kernel, size_t size)
{
    struct utsname name;

    if (uname(&name) == 0)
        snprintf(kernel, size, "%.40s %.80s", name.sysname, name.release);
    else
        snprintf(kernel, size, "unknown");
}

/* The caller of the program may know the commit; else git may. */
static void find_commit(char *commit, size_t size)
{
    const char *given = getenv("BIDE_COMMIT");

    snprintf(commit, size, "%.40s", given != NULL ? given : "");
    if (commit[0] != '\0')
        return;
    FILE *git = popen("git describe --always --dirty 2>/dev/null", "re");
    if (git != NULL) {
        if (fgets(commit, (int)size, git) == NULL)
            commit[0] = '\0';
        pclose(git);
    }
    commit[strcspn(commit, "\n")] = '\0';
    if (commit[0] == '\0')
        snprintf(commit, size, "unknown");
}

void report_init(struct report *report, FILE *table, FILE *json, const char *url)
{
    memset(report, 0, sizeof(*report));
    report->table = table;
    report->json = json;
    report->url = url;
    report->cores = sysconf(_SC_NPROCESSORS_ONLN);
    find_cpu(report->cpu, sizeof(report->cpu));
    find_kernel(report->kernel, sizeof(report->kernel));
    find_commit(report->commit, sizeof(report->commit));
    fprintf(table, "bide %s (%s), %s\n%s, %ld cores, %s\n", bide_version(), report->commit, url,
            report->cpu, report->cores, report->kernel);
}

void report_title(struct report *report, const char *name, const char *help)
{
    fprintf(report->table, "\n%s: %s\n", name, help);
    report->header[0] = '\0';
    measure_busy(&report->busy);
    fflush(report->table);
}

void report_note(struct report *report, const char *text)
{
    fprintf(report->table, "  %s\n", text);
    fflush(report->table);
}

void report_others(struct report *report)
{
    struct busy now;
    char note[80];

    measure_busy(&now);
    int64_t machine = now.machine_ns - report->busy.machine_ns;
    int64_t own = now.own_ns - report->busy.own_ns;
    double cores = (double)(machine - own) / (double)(now.wall_ns - report->busy.wall_ns);
    snprintf(note, sizeof(note), "meanwhile others used %.2f of %ld cores", cores < 0 ? 0 : cores,
             report->cores);
    report_note(report, note);
}

static const char *param_text(const struct param *param, char *room, size_t size)
{
    if (param->text != NULL)
        return param->text;
    snprintf(room, size, "%" PRIu64, param->number);
    return room;
}

/* Prints the names of the columns, unless they are those of the figure before. */
static void print_header(struct report *report, const struct param *params, size_t param_count)
{
    char header[sizeof(report->header)] = "";
    size_t used = 0;

    for (size_t i = 0; i < param_count; i++) {
        used += (size_t)snprintf(header + used, sizeof(header) - used, "%11.20s", params[i].key);
        assert(used < sizeof(header));
    }
    if (strcmp(header, report->header) == 0)
        return;
    memcpy(report->header, header, sizeof(header));
    fprintf(report->table, "%s%12s%12s  unit\n", header, "median", "best");
}

static void print_row(struct report *report, const struct param *params, size_t param_count,
                      const char *unit, const double *sorted, size_t run_count)
{
    char room[32];

    print_header(report, params, param_count);
    for (size_t i = 0; i < param_count; i++)
        fprintf(report->table, "%11s", param_text(&params[i], room, sizeof(room)));
    fprintf(report->table, "%12.3f%12.3f  %s\n", measure_median(sorted, run_count), sorted[0],
            unit);
    fflush(report->table);
}

static void json_string(FILE *json, const char *text)
{
    fputc('"', json);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(json, "\\%c", c);
        else if (c < 0x20)
            fprintf(json, "\\u%04x", c);
        else
            fputc(c, json);
    }
    fputc('"', json);
}

static void json_member(FILE *json, const char *key, const char *text)
{
    fputc(',', json);
    json_string(json, key);
    fputc(':', json);
    json_string(json, text);
}

static void json_params(FILE *json, const struct param *params, size_t param_count)
{
    fputs(",\"parameters\":{", json);
    for (size_t i = 0; i < param_count; i++) {
        if (i > 0)
            fputc(',', json);
        json_string(json, params[i].key);
        fputc(':', json);
        if (params[i].text != NULL)
            json_string(json, params[i].text);
        else
            fprintf(json, "%" PRIu64, params[i].number);
    }
    fputc('}', json);
}

static void json_runs(FILE *json, const double *sorted, size_t run_count)
{
    fprintf(json, ",\"median\":%.6g,\"best\":%.6g,\"runs\":[", measure_median(sorted, run_count),
            sorted[0]);
    for (size_t i = 0; i < run_count; i++)
        fprintf(json, "%s%.6g", i > 0 ? "," : "", sorted[i]);
    fputc(']', json);
}

static void json_origin(const struct report *report)
{
    char date[32] = "";
    time_t now = time(NULL);
    struct tm parts;

    if (gmtime_r(&now, &parts) != NULL)
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &parts);
    fputs(",\"machine\":{\"cpu\":", report->json);
    json_string(report->json, report->cpu);
    fprintf(report->json, ",\"cores\":%ld", report->cores);
    json_member(report->json, "kernel", report->kernel);
    fputc('}', report->json);
    json_member(report->json, "url", report->url);
    json_member(report->json, "version", bide_version());
    json_member(report->json, "commit", report->commit);
    json_member(report->json, "date", date);
}

/* runs are sorted, the best first. */
static void report_runs(struct report *report, const char *name, const struct param *params,
                        size_t param_count, const char *unit, const double *runs, size_t run_count)
{
    assert(run_count > 0 && param_count <= REPORT_PARAMS);
    print_row(report, params, param_count, unit, runs, run_count);
    if (report->json == NULL)
        return;
    fputs("{\"name\":", report->json);
    json_string(report->json, name);
    json_params(report->json, params, param_count);
    json_member(report->json, "unit", unit);
    json_runs(report->json, runs, run_count);
    json_origin(report);
    fputs("}\n", report->json);
    fflush(report->json);
}

void report_figure(struct report *report, const char *name, const struct param *params,
                   size_t param_count, const char *unit, double *runs, size_t run_count)
{
    measure_sort(runs, run_count);
    report_runs(report, name, params, param_count, unit, runs, run_count);
}

void report_rate(struct report *report, const char *name, const struct param *params,
                 size_t param_count, const char *unit, double *runs, size_t run_count)
{
    measure_sort(runs, run_count);
    for (size_t i = 0; i < run_count / 2; i++) {
        double swapped = runs[i];
        runs[i] = runs[run_count - 1 - i];
        runs[run_count - 1 - i] = swapped;
    }
    report_runs(report, name, params, param_count, unit, runs, run_count);
}
