/*
 * The data of a call: written in a thread of its own, because the called storlet may give output
 * before it has read all.
 *
 * Each piece follows its number of bytes, and an end mark the last one. Without the mark the data
 * counts as cut, and the called storlet fails.
 */
#define _GNU_SOURCE
#include "services.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PIECE 65536
/* The time that the end of a run gives to a thread which is in a function of the storlet. */
#define END_SECONDS 1

static bool send_piece(int socket, const char *data, size_t size) {
    const char head[] = {(char)(size >> 24), (char)(size >> 16), (char)(size >> 8), (char)size};
    return send_all(socket, head, sizeof head) && send_all(socket, data, size);
}

/* The next piece, at `*data`: its bytes, 0 at the end, or -1 with errno. */
static ssize_t next_piece(struct feed *feed, char *buffer, const char **data) {
    if (feed->read_data == NULL) {
        size_t size = feed->size < PIECE ? feed->size : PIECE;
        *data = feed->data;
        feed->data += size;
        feed->size -= size;
        return (ssize_t)size;
    }
    *data = buffer;
    errno = EIO; /* of a function that sets none */
    ssize_t size = feed->read_data(feed->context, buffer, PIECE);
    if (size > PIECE) {
        errno = EOVERFLOW;
        return -1;
    }
    return size < 0 ? -1 : size;
}

static void *write_data(void *given) {
    struct feed *feed = given;
    char *buffer = feed->read_data == NULL ? NULL : malloc(PIECE);
    const char *data;
    ssize_t size = -1;
    bool is_taken = true;
    errno = ENOMEM;
    if (buffer != NULL || feed->read_data == NULL) {
        while (is_taken && (size = next_piece(feed, buffer, &data)) > 0) {
            is_taken = send_piece(feed->fd, data, (size_t)size);
        }
    }
    if (size < 0) {
        feed->error = errno;
    } else if (is_taken) {
        send_piece(feed->fd, NULL, 0);
    }
    shutdown(feed->fd, SHUT_WR);
    free(buffer);
    return NULL;
}

void feed_begin(struct feed *feed, int fd) {
    feed->fd = fd;
    int error = pthread_create(&feed->thread, NULL, write_data, feed);
    feed->is_running = error == 0;
    if (error != 0) {
        feed->error = error;
        close(fd);
    }
}

/* End the thread as soon as it writes, and wait for its end. */
static bool join(struct feed *feed, const struct timespec *until) {
    if (!feed->is_running) {
        return true;
    }
    shutdown(feed->fd, SHUT_RDWR);
    if (until == NULL ? pthread_join(feed->thread, NULL) != 0
                      : pthread_timedjoin_np(feed->thread, NULL, until) != 0) {
        return false;
    }
    feed->is_running = false;
    close(feed->fd);
    return true;
}

bool feed_end(struct feed *feed) {
    return join(feed, NULL);
}

bool feed_end_of_run(struct feed *feed) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_SECONDS;
    return join(feed, &until);
}

void feed_explain(const struct feed *feed, struct storlet_error *failure) {
    if (feed->error != 0) {
        explain_failure(failure, feed->error, "", 0, "the data of the call cannot be read: %s",
                        strerror(feed->error));
    }
}
