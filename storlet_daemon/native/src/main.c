/*
 * storlet-worker <listening descriptor> <channel descriptor> <main> <execution path>
 *                <runs per worker> <seconds of life> <control group> [<argument of a program> ...]
 *
 * `main` is the path of a program below the execution path, or <shared object>:<function>.
 * PROTOCOL.rst specifies the messages, their order, and the duties of a worker.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct config config;
static struct outcome load_failure;
static struct state *state;
static int waiter;

static double started_at;

/* Seconds of a clock that nothing sets. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bool is_library(void) {
    return strchr(config.main, ':') != NULL;
}

static bool watch(int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(waiter, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool prepare_process(void) {
    /* Other storlets of the tenant have the same uid: without this they could read this process's
     * memory and descriptors in /proc. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        return false;
    }
    signal(SIGPIPE, SIG_IGN);
    waiter = epoll_create1(EPOLL_CLOEXEC);
    return set_flags(config.listener, F_GETFD, F_SETFD, FD_CLOEXEC, 0) &&
           set_flags(config.channel, F_GETFD, F_SETFD, FD_CLOEXEC, 0) &&
           set_flags(config.listener, F_GETFL, F_SETFL, O_NONBLOCK, 0) &&
           watch(config.listener, EPOLLIN | EPOLLEXCLUSIVE) &&
           watch(config.channel, EPOLLIN | EPOLLRDHUP);
}

static void load(void) {
    bool is_loaded =
        is_library() ? library_load(&config, &load_failure) : program_load(&config, &load_failure);
    fflush(NULL);
    if (is_loaded) {
        send_text(config.channel, "{\"type\":\"ready\"}");
    } else {
        send_load_failed(config.channel, &load_failure);
    }
}

/* --- one connection ----------------------------------------------------------------------------
 */

static void refuse(struct invocation *invocation, int connection) {
    struct log log;
    log_open(&log, invocation->log, invocation->log_limit);
    log_failure(&log, config.main, &load_failure);
    close_invocation(invocation);
    send_done(connection, &load_failure, NULL);
}

/* Seek to the start of each range, and of each file in which the storlet seeks. */
static bool open_ranges(struct invocation *invocation, struct outcome *outcome) {
    for (size_t i = 0; i < invocation->input_count; i++) {
        const struct input *input = &invocation->inputs[i];
        bool is_sought = input->seekable == SEEKABLE_FILE;
        off_t start = is_sought ? 0 : input->start;
        if (start >= 0 && lseek(input->fd, start, SEEK_SET) < 0) {
            fail(outcome, CODE_PROTOCOL, "inputs[%zu] does not support %s: %s", i,
                 is_sought ? "seeks" : "the requested range", strerror(errno));
            return false;
        }
    }
    return true;
}

/* Run, and report `done` and `end`. Exits the process if it must be replaced. */
static void run_once(struct run *run) {
    struct invocation *invocation = run->invocation;
    struct usage before = usage_now();
    if (!send_text(run->connection, "{\"type\":\"started\"}")) {
        /* The filter has disconnected while the connection waited for a worker. */
        close_invocation(invocation);
        if (!send_end(config.channel, false, false)) {
            _exit(0);
        }
        return;
    }
    if (is_library()) {
        note_donated(state, invocation);
    }
    log_open(&run->log, invocation->log, invocation->log_limit);
    invocation->log = -1;
    if (!secrets_begin(&run->secrets, invocation->secrets)) {
        fail(&run->outcome, CODE_LIMIT_MEMORY, "the worker has no memory for the secrets");
    } else if (is_library()) {
        library_run(run);
    } else {
        program_run(run);
    }
    bool failed = run->outcome.code != NULL;
    if (failed) {
        log_remove_secrets(&run->log, &run->secrets);
        log_failure(&run->log, config.main, &run->outcome);
        set_detail(&run->outcome, run->log.tail, run->log.kept);
    }
    if (run->log.fd >= 0) {
        close(run->log.fd);
    }
    secrets_end(&run->secrets);
    close_invocation(invocation);
    struct usage used = usage_now();
    used.cpu_microseconds -= before.cpu_microseconds;
    used.input_bytes = run->input_bytes;
    send_done(run->connection, &run->outcome, &used);
    /* The filter does not wait for what follows. It still counts as the run: the supervisor kills a
     * worker that hangs here like one whose storlet hangs. */
    config.runs--;
    bool is_over = config.runs <= 0 || now() - started_at > config.seconds;
    bool recycle = failed || is_over || run->must_recycle ||
                   (is_library() ? state_restore(state) : has_children());
    if (!send_end(config.channel, recycle, failed) || recycle) {
        _exit(0);
    }
}

static void serve(int connection) {
    static struct invocation invocation;
    static struct run run;
    static struct outcome fault;
    char text[SUMMARY_MAX];
    enum received received = receive_invocation(connection, &invocation, text);
    if (received == RECEIVED_NOTHING) {
        return;
    }
    memset(&fault, 0, sizeof fault);
    if (received == RECEIVED_FAULT) {
        fail(&fault, CODE_PROTOCOL, "%s", text);
    } else if (load_failure.code != NULL) {
        refuse(&invocation, connection);
        return;
    } else if (open_ranges(&invocation, &fault)) {
        if (send_begin(config.channel, invocation.id, connection)) {
            memset(&run.outcome, 0, sizeof run.outcome);
            run.config = &config;
            run.invocation = &invocation;
            run.connection = connection;
            memset(run.has_metadata, 0, sizeof run.has_metadata);
            run.must_recycle = false;
            run.input_bytes = -1;
            run_once(&run);
            return;
        }
        if (errno != ETOOMANYREFS) {
            _exit(0); /* without a supervisor the run could not be cancelled */
        }
        fail(&fault, CODE_FAILED, "the account's storlets hold too many descriptors in messages");
    }
    if (received == RECEIVED) {
        close_invocation(&invocation);
    }
    send_done(connection, &fault, NULL);
}

/* --- the loop ----------------------------------------------------------------------------------
 */

/* Serve the next connection; false if none waits. Exits if the listening socket is shut down. */
static bool serve_next(void) {
    int connection = accept4(config.listener, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            _exit(0);
        }
        return false;
    }
    serve(connection);
    close(connection);
    return true;
}

static void serve_all(void) {
    for (;;) {
        struct epoll_event events[2];
        int count = epoll_wait(waiter, events, 2, -1);
        bool is_last = false;
        for (int i = 0; i < count; i++) {
            /* The supervisor never sends, so this is its end. */
            is_last = is_last || events[i].data.fd == config.channel;
        }
        if (count < 0 && errno != EINTR) {
            _exit(1);
        }
        if (is_last && load_failure.code != NULL) {
            _exit(0); /* the next worker may load the code */
        }
        while (serve_next() && is_last) {
        }
        if (is_last) {
            _exit(0);
        }
    }
}

int main(int count, char **arguments) {
    if (count < 8) {
        fprintf(stderr, "storlet-worker: want at least 7 arguments\n");
        return 2;
    }
    /* The last of the fixed arguments gives its place to the name of the program. */
    config = (struct config){.listener = atoi(arguments[1]),
                             .channel = atoi(arguments[2]),
                             .main = arguments[3],
                             .execution_path = arguments[4],
                             .runs = atol(arguments[5]),
                             .seconds = strtod(arguments[6], NULL),
                             .control_group = arguments[7],
                             .arguments = arguments + 7};
    if (!prepare_process()) {
        perror("storlet-worker");
        return 1;
    }
    started_at = now();
    load();
    counters_open(config.control_group);
    discard_output();
    state = state_of_process();
    serve_all();
}
