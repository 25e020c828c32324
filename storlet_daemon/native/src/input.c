/*
 * The inputs of a shared object: streams, parts of files, and inputs that can seek.
 *
 * The bytes of an input that can seek are in a file, or the filter answers reads on a socket
 * (PROTOCOL.rst, 2.2). Each read of a file moves the descriptor's offset, which the filter sees as
 * progress. An answer on a socket is kept, and is longer the longer the input is read in order.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

/* The first read after a seek, and the longest one. */
#define AHEAD 65536
#define AHEAD_MAX (1 << 20)

void reader_open(struct reader *reader, const struct input *input) {
    set_flags(input->fd, F_GETFL, F_SETFL, 0, O_NONBLOCK);
    *reader = (struct reader){.fd = input->fd,
                              .left = bytes_of(input),
                              .seekable = input->seekable,
                              .size = input->size,
                              .ahead = AHEAD,
                              .process = getpid()};
}

void reader_close(struct reader *reader) {
    free(reader->window);
    reader->window = NULL;
    reader->filled = 0;
}

static ssize_t read_once(int fd, void *buffer, size_t size) {
    ssize_t count;
    do {
        count = read(fd, buffer, size);
    } while (count < 0 && errno == EINTR);
    return count;
}

/* --- reads by the filter -----------------------------------------------------------------------
 */

static void put_number(unsigned char *bytes, uint64_t number) {
    for (size_t i = 8; i-- > 0; number >>= 8) {
        bytes[i] = (unsigned char)number;
    }
}

static bool receive_all(int socket, char *data, size_t size) {
    while (size > 0) {
        ssize_t count = read_once(socket, data, size);
        if (count <= 0) {
            return false;
        }
        data += count;
        size -= (size_t)count;
    }
    return true;
}

/* Have the bytes from `offset` in the window. False with errno. */
static bool fetch(struct reader *reader, int64_t offset, size_t wanted) {
    unsigned char request[16];
    int64_t skipped = offset - (reader->start + (int64_t)reader->filled);
    if (skipped < 0 || skipped > AHEAD) {
        reader->ahead = AHEAD;
    }
    size_t length = wanted > reader->ahead ? wanted : reader->ahead;
    length = length < AHEAD_MAX ? length : AHEAD_MAX;
    if ((int64_t)length > reader->size - offset) {
        length = (size_t)(reader->size - offset);
    }
    reader->ahead = 2 * reader->ahead < AHEAD_MAX ? 2 * reader->ahead : AHEAD_MAX;
    reader_close(reader);
    reader->window = malloc(length);
    if (reader->window == NULL) {
        errno = ENOMEM;
        return false;
    }
    put_number(request, (uint64_t)offset);
    put_number(request + 8, length);
    if (!send_all(reader->fd, request, sizeof request) ||
        !receive_all(reader->fd, reader->window, length)) {
        reader->is_broken = true;
        errno = EIO;
        return false;
    }
    reader->start = offset;
    reader->filled = length;
    return true;
}

/* As pread, through the window: perhaps less than `size` bytes. */
static ssize_t read_window(struct reader *reader, void *buffer, size_t size, int64_t offset) {
    bool is_inside =
        offset >= reader->start && offset < reader->start + (int64_t)reader->filled;
    if (reader->is_broken || reader->process != getpid()) {
        /* A child that the storlet forked would take the answers of this process. */
        errno = EIO;
        return -1;
    }
    if (!is_inside && !fetch(reader, offset, size)) {
        return -1;
    }
    size_t begin = (size_t)(offset - reader->start);
    size_t part = reader->filled - begin < size ? reader->filled - begin : size;
    memcpy(buffer, reader->window + begin, part);
    return (ssize_t)part;
}

/* --- reads of a storlet ------------------------------------------------------------------------
 */

/* As pread, of an input that can seek: perhaps less than `size` bytes. */
static ssize_t read_some(struct reader *reader, void *buffer, size_t size, int64_t offset) {
    if (offset >= reader->size || size == 0) {
        return 0;
    }
    if ((int64_t)size < 0 || (int64_t)size > reader->size - offset) {
        size = (size_t)(reader->size - offset);
    }
    if (reader->seekable == SEEKABLE_READS) {
        return read_window(reader, buffer, size, offset);
    }
    if (lseek(reader->fd, offset, SEEK_SET) < 0) {
        return -1;
    }
    ssize_t count = read_once(reader->fd, buffer, size);
    reader->taken += count > 0 ? count : 0;
    return count;
}

static bool require_seekable(const struct reader *reader) {
    if (reader->seekable == NOT_SEEKABLE) {
        errno = ESPIPE;
    }
    return reader->seekable != NOT_SEEKABLE;
}

ssize_t reader_read(struct reader *reader, void *buffer, size_t size) {
    ssize_t count;
    if (reader->seekable != NOT_SEEKABLE) {
        count = read_some(reader, buffer, size, reader->position);
        reader->position += count > 0 ? count : 0;
        return count;
    }
    count = read_once(reader->fd, buffer,
                      size > (uint64_t)reader->left ? (size_t)reader->left : size);
    reader->left -= count > 0 ? count : 0;
    return count;
}

/* Let the kernel send bytes of a file to `target`: their number, 0 at the end, or -1 with errno. It
 * is EINVAL if the input is none. The descriptor's offset moves, which the filter sees. */
ssize_t reader_send(struct reader *reader, int target, size_t size) {
    ssize_t count;
    if (reader->seekable != NOT_SEEKABLE) {
        errno = EINVAL;
        return -1;
    }
    do {
        count = sendfile(target, reader->fd, NULL,
                         size > (uint64_t)reader->left ? (size_t)reader->left : size);
    } while (count < 0 && errno == EINTR);
    reader->left -= count > 0 ? count : 0;
    return count;
}

ssize_t reader_read_at(struct reader *reader, void *buffer, size_t size, int64_t offset) {
    size_t used = 0;
    if (!require_seekable(reader)) {
        return -1;
    }
    if (offset < 0) {
        errno = EINVAL;
        return -1;
    }
    while (used < size) {
        ssize_t count =
            read_some(reader, (char *)buffer + used, size - used, offset + (int64_t)used);
        if (count < 0) {
            return -1;
        }
        if (count == 0) {
            break;
        }
        used += (size_t)count;
    }
    return (ssize_t)used;
}

int64_t reader_seek(struct reader *reader, int64_t offset, int whence) {
    int64_t base = whence == SEEK_CUR ? reader->position : whence == SEEK_END ? reader->size : 0;
    int64_t position;
    if (!require_seekable(reader)) {
        return -1;
    }
    if ((whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END) ||
        __builtin_add_overflow(base, offset, &position) || position < 0) {
        errno = EINVAL;
        return -1;
    }
    reader->position = position;
    return position;
}

int64_t reader_bytes(const struct reader *reader) {
    return require_seekable(reader) ? reader->size : -1;
}
