/* Adds the bytes at the start of each block of a seekable input; `block` and `part` are lengths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <storlet.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

static unsigned char data[1 << 20];

static int64_t number(struct storlet_run *run, const char *name) {
    for (size_t i = 0; i < run->parameter_count; i++) {
        if (strcmp(run->parameters[i].name, name) == 0) {
            return atoll(run->parameters[i].value);
        }
    }
    return 0;
}

int strided(struct storlet_run *run) {
    int64_t size = run->input_bytes(run, 0), block = number(run, "block");
    int64_t part = number(run, "part");
    unsigned long long total = 0;
    char text[32];
    if (size < 0 || block <= 0 || part <= 0 || part > (int64_t)sizeof data) {
        return EINVAL;
    }
    for (int64_t offset = 0; offset < size; offset += block) {
        ssize_t count = run->read_at(run, 0, data, (size_t)part, offset);
        if (count < 0) {
            return errno;
        }
        for (ssize_t at = 0; at < count; at++) {
            total += data[at];
        }
    }
    int length = snprintf(text, sizeof text, "%llu", total);
    return run->write(run, 0, text, (size_t)length) == 0 ? 0 : errno;
}
