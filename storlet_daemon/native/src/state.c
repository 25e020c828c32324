/*
 * The state of this process: what a function of a shared object may change, and what of it can be
 * restored. Threads, children, signal handlers and duplicates of the run's descriptors cannot: the
 * process is replaced after a run that leaves any.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIGNALS 32

struct file {
    dev_t device;
    ino_t number;
};

struct state {
    char directory[PATH_MAX];
    mode_t mask;
    char **environment; /* copies, up to a NULL */
    void *handlers[SIGNALS];
    nlink_t threads;
    size_t descriptors;
    size_t donated_count;
    struct file donated[DESCRIPTORS_MAX];
};

bool set_flags(int fd, int get, int set, int add, int drop) {
    int flags = fcntl(fd, get);
    int wanted = (flags | add) & ~drop;
    return flags >= 0 && (wanted == flags || fcntl(fd, set, wanted) == 0);
}

static nlink_t count_threads(void) {
    struct stat status;
    return stat("/proc/self/task", &status) == 0 ? status.st_nlink : 0;
}

static void read_handlers(void *handlers[SIGNALS]) {
    for (int number = 1; number < SIGNALS; number++) {
        struct sigaction action;
        handlers[number] = sigaction(number, NULL, &action) == 0 ? (void *)action.sa_handler : NULL;
    }
}

static size_t count_descriptors(void) {
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

static char **copy_environment(void) {
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = strdup(environ[i]);
    }
    return copy;
}

struct state *state_of_process(void) {
    static struct state state;
    if (getcwd(state.directory, sizeof state.directory) == NULL) {
        strcpy(state.directory, "/");
    }
    state.mask = umask(022);
    umask(state.mask);
    state.environment = copy_environment();
    read_handlers(state.handlers);
    state.threads = count_threads();
    state.descriptors = count_descriptors();
    return &state;
}

void note_donated(struct state *state, const struct invocation *invocation) {
    int fds[2 * DESCRIPTORS_MAX + 3];
    size_t count = 0;
    for (size_t i = 0; i < invocation->input_count; i++) {
        fds[count++] = invocation->inputs[i].fd;
    }
    for (size_t i = 0; i < invocation->output_count; i++) {
        fds[count++] = invocation->outputs[i];
    }
    fds[count++] = invocation->log;
    fds[count++] = invocation->services;
    state->donated_count = 0;
    for (size_t i = 0; i < count && state->donated_count < DESCRIPTORS_MAX; i++) {
        struct stat status;
        if (fds[i] >= 0 && fstat(fds[i], &status) == 0) {
            state->donated[state->donated_count++] = (struct file){status.st_dev, status.st_ino};
        }
    }
}

static bool is_donated(const struct state *state, int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return false;
    }
    for (size_t i = 0; i < state->donated_count; i++) {
        if (state->donated[i].device == status.st_dev &&
            state->donated[i].number == status.st_ino) {
            return true;
        }
    }
    return false;
}

/* True if a duplicate of a descriptor of the run is left: it would keep a stream or an object open.
 */
static bool has_kept_donated(const struct state *state) {
    bool is_kept = false;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        is_kept = is_kept || (entry->d_name[0] != '.' && is_donated(state, atoi(entry->d_name)));
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return is_kept;
}

static bool is_environment_changed(const struct state *state) {
    size_t at = 0;
    while (environ != NULL && environ[at] != NULL && state->environment[at] != NULL) {
        if (strcmp(environ[at], state->environment[at]) != 0) {
            return true;
        }
        at++;
    }
    return environ == NULL || environ[at] != NULL || state->environment[at] != NULL;
}

static void restore_environment(const struct state *state) {
    clearenv();
    for (size_t at = 0; state->environment[at] != NULL; at++) {
        putenv(state->environment[at]);
    }
}

static bool has_more_threads(const struct state *state) {
    if (count_threads() <= state->threads) {
        return false;
    }
    /* The kernel may take a moment to remove a thread that was joined. */
    struct timespec moment = {.tv_sec = 0, .tv_nsec = 1000 * 1000};
    nanosleep(&moment, NULL);
    return count_threads() > state->threads;
}

static bool has_other_handlers(const struct state *state) {
    void *handlers[SIGNALS] = {0};
    read_handlers(handlers);
    return memcmp(handlers + 1, state->handlers + 1, (SIGNALS - 1) * sizeof *handlers) != 0;
}

/* Restore what can be restored; true if something is left that cannot. */
bool state_restore(struct state *state) {
    alarm(0);
    if (chdir(state->directory) != 0) {
        return true;
    }
    umask(state->mask);
    if (state->environment == NULL) {
        return true;
    }
    if (is_environment_changed(state)) {
        restore_environment(state);
    }
    if (has_more_threads(state) || has_children() || has_other_handlers(state)) {
        return true;
    }
    size_t count = count_descriptors();
    bool is_more = count > state->descriptors;
    state->descriptors = count;
    return is_more && has_kept_donated(state);
}

/* This process is a subreaper, so it sees all descendants. Reaps the dead ones. */
bool has_children(void) {
    pid_t pid;
    do {
        pid = waitpid(-1, NULL, WNOHANG | __WALL);
    } while (pid > 0 || (pid < 0 && errno == EINTR));
    return pid == 0;
}

static int64_t microseconds(const struct rusage *used) {
    return ((int64_t)used->ru_utime.tv_sec + used->ru_stime.tv_sec) * 1000000 +
           used->ru_utime.tv_usec + used->ru_stime.tv_usec;
}

/* The use of this process and of its children that were reaped. */
struct usage usage_now(void) {
    struct rusage own, children;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    long peak = own.ru_maxrss > children.ru_maxrss ? own.ru_maxrss : children.ru_maxrss;
    return (struct usage){.cpu_microseconds = microseconds(&own) + microseconds(&children),
                          .peak_bytes = (int64_t)peak * 1024,
                          .input_bytes = -1};
}

/* Send printed text to `fd`. */
void print_into(int fd) {
    fflush(NULL);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
}

/* Descriptor 0 is /dev/null. */
void discard_output(void) {
    print_into(STDIN_FILENO);
}
