#include <stdio.h>
#include <storlet.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

/* Counts the lines of the first input. */
int count(struct storlet_run *run) {
    char data[65536];
    char text[32];
    ssize_t size;
    long lines = 0;
    while ((size = run->read(run, 0, data, sizeof data)) > 0) {
        for (ssize_t at = 0; at < size; at++) {
            lines += data[at] == '\n';
        }
    }
    if (size < 0) {
        return errno;
    }
    return run->write(run, 0, text, (size_t)snprintf(text, sizeof text, "%ld\n", lines)) == 0
               ? 0
               : errno;
}
