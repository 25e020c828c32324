/*
 * The invocation's log: a memory file of fixed size, filled from its start. A log that is full or
 * cannot be written does not fail the storlet. The last bytes are kept here too, also without a
 * log: they are the detail of a failure.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void log_open(struct log *log, int fd, int64_t limit) {
    log->fd = fd;
    log->limit = limit;
    log->is_full = fd < 0;
    log->has_dropped = false;
    log->kept = 0;
}

static void keep(struct log *log, const char *data, size_t size) {
    size_t room = sizeof log->tail;
    log->has_dropped = log->has_dropped || log->kept + size > room;
    if (size >= room) {
        memcpy(log->tail, data + size - room, room);
        log->kept = room;
        return;
    }
    if (log->kept + size > room) {
        size_t dropped = log->kept + size - room;
        memmove(log->tail, log->tail + dropped, log->kept - dropped);
        log->kept -= dropped;
    }
    memcpy(log->tail + log->kept, data, size);
    log->kept += size;
}

static void put(struct log *log, const char *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(log->fd, data, size);
        if (written <= 0) {
            log->is_full = true;
            return;
        }
        data += written;
        size -= (size_t)written;
    }
}

/* The last line of a full log is inside the limit. */
static void end(struct log *log, const char *data, size_t room, const char *last) {
    log->is_full = true;
    put(log, data, room);
    off_t at = lseek(log->fd, 0, SEEK_CUR);
    off_t last_at = (off_t)log->limit - (off_t)strlen(last);
    lseek(log->fd, at < last_at ? at : last_at, SEEK_SET);
    put(log, last, strlen(last));
}

void log_write(struct log *log, const char *data, size_t size) {
    keep(log, data, size);
    if (log->is_full) {
        return;
    }
    char last[80];
    snprintf(last, sizeof last, "\nlog truncated at %lld bytes\n", (long long)log->limit);
    if (log->limit < (int64_t)strlen(last)) {
        log->is_full = true;
        return;
    }
    /* Read each time: a program that the storlet started may write to the same file. */
    int64_t room = log->limit - (int64_t)strlen(last) - lseek(log->fd, 0, SEEK_CUR);
    if ((int64_t)size <= room) {
        put(log, data, size);
    } else {
        end(log, data, room > 0 ? (size_t)room : 0, last);
    }
}

/* Remove the values of secrets from the bytes that are kept. If earlier bytes were dropped, the
 * first line is dropped, too: it may begin within a value. */
void log_remove_secrets(struct log *log, const struct secrets *secrets) {
    if (secrets->form_count == 0) {
        return;
    }
    if (log->has_dropped) {
        const char *feed = memchr(log->tail, '\n', log->kept);
        size_t dropped = feed == NULL ? log->kept : (size_t)(feed + 1 - log->tail);
        memmove(log->tail, log->tail + dropped, log->kept - dropped);
        log->kept -= dropped;
        log->has_dropped = false;
    }
    log->kept = secrets_remove(secrets, log->tail, log->kept);
}

/* The last line that has any text, as one line of printable characters. */
void log_last_line(const struct log *log, char *line, size_t capacity) {
    size_t end = log->kept;
    while (end > 0 && (log->tail[end - 1] == '\n' || log->tail[end - 1] == '\r' ||
                       log->tail[end - 1] == ' ')) {
        end--;
    }
    size_t start = end;
    while (start > 0 && log->tail[start - 1] != '\n') {
        start--;
    }
    one_line(log->tail + start, end - start, line, capacity);
}

void log_failure(struct log *log, const char *main, const struct outcome *outcome) {
    char text[3 * SUMMARY_MAX];
    char line[2 * SUMMARY_MAX];
    one_line(outcome->message, strlen(outcome->message), line, sizeof line);
    int size = snprintf(text, sizeof text, "%.200s ERROR: %s\n", main, line);
    if (size > 0) {
        log_write(log, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
    }
}
