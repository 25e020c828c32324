/*
 * Records of one length, by their numbers. The input is seekable: of an object of any size, only
 * these records are read, and what the worker reads ahead of them.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <storlet.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

#define PIECE (256 * 1024)

/* Set `value` if the request has the parameter. False: it is no number of at least `least`. */
static bool number(struct storlet_run *run, const char *name, int64_t least, int64_t *value) {
    char message[100] = "";
    for (size_t i = 0; i < run->parameter_count; i++) {
        if (strcmp(run->parameters[i].name, name) == 0) {
            const char *text = run->parameters[i].value;
            char *end;
            errno = 0;
            *value = strtoll(text, &end, 10);
            if (errno != 0 || end == text || *end != '\0') {
                snprintf(message, sizeof message, "%s: want a whole number", name);
            }
        }
    }
    if (message[0] == '\0' && *value < least) {
        snprintf(message, sizeof message, "%s: want at least %" PRId64, name, least);
    }
    if (message[0] != '\0') {
        run->fail(run, message);
    }
    return message[0] == '\0';
}

static int copy(struct storlet_run *run, int64_t offset, int64_t left) {
    static char data[PIECE];
    while (left > 0) {
        ssize_t size = run->read_at(run, 0, data, left < PIECE ? (size_t)left : PIECE, offset);
        if (size <= 0) {
            return size < 0 ? errno : EIO;
        }
        if (run->write(run, 0, data, (size_t)size) != 0) {
            return errno;
        }
        offset += size;
        left -= size;
    }
    return 0;
}

int record(struct storlet_run *run) {
    int64_t bytes = 0, first = 0, count = 1;
    if (!number(run, "bytes", 1, &bytes) || !number(run, "first", INT64_MIN, &first) ||
        !number(run, "count", 1, &count)) {
        return EINVAL;
    }
    int64_t size = run->input_bytes(run, 0);
    if (size < 0) {
        return errno;
    }
    int64_t records = size / bytes;
    first += first < 0 ? records : 0;
    if (first < 0 || count > records || first > records - count) {
        char message[100];
        snprintf(message, sizeof message, "the object has %" PRId64 " records", records);
        run->fail(run, message);
        return ERANGE;
    }
    return copy(run, first * bytes, count * bytes);
}
