/* Functions of the tests' storlets in C: a parameter by its name, the socket of the services. */
#ifndef STORLETS_TESTED_H
#define STORLETS_TESTED_H

#include <string.h>
#include <sys/socket.h>

#include <storlet.h>

/* The value of a parameter; empty without one. */
static const char *parameter(struct storlet_run *run, const char *name) {
    for (size_t i = 0; i < run->parameter_count; i++) {
        if (strcmp(run->parameters[i].name, name) == 0) {
            return run->parameters[i].value;
        }
    }
    return "";
}

/* The socket of the services: the one of its kind without an address, beside the channel, which is
 * descriptor 4 or has the highest number. */
static int services_socket(void) {
    for (int fd = 5; fd < 64; fd++) {
        struct sockaddr_storage own;
        socklen_t size = sizeof own;
        int kind = 0;
        socklen_t length = sizeof kind;
        if (getsockname(fd, (struct sockaddr *)&own, &size) == 0 && size <= sizeof own.ss_family &&
            getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 && kind == SOCK_SEQPACKET) {
            return fd;
        }
    }
    return -1;
}

#endif
