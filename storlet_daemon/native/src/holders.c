/*
 * Whether another process holds a stream: one that a program started and left.
 *
 * The kernel removes a stream from an epoll when its last descriptor in any process is closed. So
 * this process closes its own, and reads in /proc which streams the epoll still has.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/* The time for processes that are about to end; on a busy node also for the filter, which closes
 * its own descriptor after it has sent it. */
#define GRACE_MILLISECONDS 1000
#define TURN_MILLISECONDS 2

/* Also true if it cannot be read. */
static bool has_streams(int epoll) {
    char path[64];
    char text[4096];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", epoll);
    int info = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = info < 0 ? -1 : read(info, text, sizeof text - 1);
    if (info >= 0) {
        close(info);
    }
    if (size < 0) {
        return true;
    }
    text[size] = '\0';
    return strstr(text, "\ntfd:") != NULL;
}

static bool watch_and_close(int epoll, int *fd) {
    struct epoll_event none = {.events = 0};
    bool is_watched = epoll_ctl(epoll, EPOLL_CTL_ADD, *fd, &none) == 0;
    close(*fd);
    *fd = -1;
    return is_watched;
}

/* Close the streams, and return true if a process below this one still holds any of them. */
bool close_held(int *fds, size_t count) {
    static const struct timespec moment = {.tv_nsec = TURN_MILLISECONDS * 1000 * 1000};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    bool is_held = true;
    bool is_watched = true;
    for (size_t i = 0; i < count; i++) {
        is_watched = watch_and_close(epoll, &fds[i]) && is_watched;
    }
    for (int left = GRACE_MILLISECONDS; is_held && left > 0; left -= TURN_MILLISECONDS) {
        is_held = has_children() && (!is_watched || has_streams(epoll));
        if (is_held) {
            nanosleep(&moment, NULL);
        }
    }
    if (epoll >= 0) {
        close(epoll);
    }
    return is_held;
}
