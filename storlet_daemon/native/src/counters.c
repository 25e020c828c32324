/*
 * The kernel's counters of this worker group, which show the limit that made a run fail. A counter
 * that cannot be read counts as 0: the limits hold all the same, and only the error is less
 * precise.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT "/sys/fs/cgroup"

static const char *directory = "";
static long kills_seen;
static long forks_seen;

/* The number after `key` in a file of lines "key number". */
static long value(const char *controller, const char *name, const char *key) {
    char path[512];
    char line[256];
    snprintf(path, sizeof path, ROOT "/%s/%s/%s", controller, directory, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    long found = -1;
    size_t length = strlen(key);
    while (found < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            found = strtol(line + length + 1, NULL, 10);
        }
    }
    fclose(file);
    return found;
}

static long kills(void) {
    long count = value(".", "memory.events", "oom_kill");
    return count >= 0 ? count : value("memory", "memory.oom_control", "oom_kill");
}

static long refused_forks(void) {
    long count = value(".", "pids.events", "max");
    return count >= 0 ? count : value("pids", "pids.events", "max");
}

void counters_open(const char *control_group) {
    directory = control_group;
    kills_seen = kills();
    forks_seen = refused_forks();
}

static bool has_grown(long count, long *seen) {
    bool is_more = count > *seen;
    *seen = count;
    return is_more;
}

bool has_killed_for_memory(void) {
    return has_grown(kills(), &kills_seen);
}

bool has_refused_forks(void) {
    return has_grown(refused_forks(), &forks_seen);
}

/* Name the limit instead, if one explains a failure of unknown cause. */
void explain_by_limits(struct outcome *outcome) {
    size_t used = strlen(outcome->message);
    char *end = outcome->message + used;
    if (has_killed_for_memory()) {
        outcome->code = CODE_LIMIT_MEMORY;
        snprintf(end, sizeof outcome->message - used,
                 " (a process of the storlet was killed: out of memory)");
    } else if (has_refused_forks()) {
        outcome->code = CODE_LIMIT_PROCESSES;
        snprintf(end, sizeof outcome->message - used,
                 " (the storlet has reached its limit of processes and threads)");
    }
}
