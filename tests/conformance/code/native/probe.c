/* A storlet whose parameter "do" names the action; code/python/probe.py is the same in Python. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <storlet.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

typedef struct storlet_run run_t;

static int runs;
static run_t *kept;

static const char *parameter(run_t *run, const char *name, const char *absent) {
    for (size_t i = 0; i < run->parameter_count; i++) {
        if (strcmp(run->parameters[i].name, name) == 0) {
            return run->parameters[i].value;
        }
    }
    return absent;
}

static int say(run_t *run, const char *text) {
    return run->write(run, 0, text, strlen(text));
}

static int say_number(run_t *run, long number) {
    char text[32];
    snprintf(text, sizeof text, "%ld", number);
    return say(run, text);
}

static void pause_for(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static int do_echo(run_t *run) {
    const struct storlet_input *first = &run->inputs[0];
    struct storlet_field fields[128];
    size_t count = 0;
    for (size_t i = 0; i < first->metadata_count; i++) {
        fields[count++] = first->metadata[i];
    }
    for (size_t i = 0; i < run->parameter_count; i++) {
        const char *name = run->parameters[i].name;
        if (strcmp(name, "do") != 0 && strcmp(name, "storlet_execution_path") != 0) {
            fields[count++] = run->parameters[i];
        }
    }
    if (run->set_metadata(run, 0, fields, count) != 0) {
        return errno;
    }
    char data[65536];
    ssize_t size = 0;
    for (size_t i = 0; i < run->input_count; i++) {
        while ((size = run->read(run, i, data, sizeof data)) > 0) {
            if (run->write(run, 0, data, (size_t)size) != 0) {
                return errno;
            }
        }
    }
    return size < 0 ? errno : 0;
}

/* For each input its size; for each place the position after a read, and its bytes. */
static int do_seek(run_t *run) {
    char text[64];
    char data[64];
    for (size_t i = 0; i < run->input_count; i++) {
        const char *place = parameter(run, "places", "");
        snprintf(text, sizeof text, "size %lld", (long long)run->input_bytes(run, i));
        say(run, text);
        for (; place != NULL; place = strchr(place + 1, ';')) {
            long long offset = 0;
            size_t length = 0;
            size_t used = 0;
            ssize_t count = 1;
            sscanf(place + (*place == ';'), "%lld,%zu", &offset, &length);
            if (run->seek(run, i, offset, SEEK_SET) < 0) {
                say(run, "|refused");
                continue;
            }
            while (used < length && count > 0) {
                count = run->read(run, i, data + used, length - used);
                used += count > 0 ? (size_t)count : 0;
            }
            if (count < 0) {
                return errno;
            }
            long long position = run->seek(run, i, 0, SEEK_CUR);
            snprintf(text, sizeof text, "|%lld %.*s", position, (int)used, data);
            say(run, text);
        }
    }
    return 0;
}

/* All of the input by a read at an offset, around reads in order; or why it cannot. */
static int do_read_at(run_t *run) {
    static char data[4 << 20];
    char text[128];
    char head[3] = "";
    char next[3] = "";
    run->read(run, 0, head, 2);
    ssize_t count = run->read_at(run, 0, data, sizeof data, 1);
    if (count < 0) {
        snprintf(text, sizeof text, "%s %s %s %d", strerrorname_np(errno),
                 run->seek(run, 0, 0, SEEK_SET) < 0 ? strerrorname_np(errno) : "sought",
                 run->input_bytes(run, 0) < 0 ? strerrorname_np(errno) : "counted",
                 run->inputs[0].fd >= 0);
        return say(run, text);
    }
    run->read(run, 0, next, 2);
    snprintf(text, sizeof text, "%s %s %d %d %d ", head, next, run->inputs[0].fd,
             run->read_at(run, 0, head, 1, -1) < 0 ? errno == EINVAL : -1,
             (int)run->read_at(run, 0, head, 1, (int64_t)1 << 62));
    say(run, text);
    return run->write(run, 0, data, (size_t)count);
}

/* A read by a child, which would take the answers of this process, then one of its own. */
static int do_child_reads(run_t *run) {
    char byte = '-';
    pid_t pid = fork();
    if (pid == 0) {
        _exit(run->read_at(run, 0, &byte, 1, 0) < 0 ? errno : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    run->read_at(run, 0, &byte, 1, 1);
    say(run, WEXITSTATUS(status) == EIO ? "refused " : "read ");
    return run->write(run, 0, &byte, 1);
}

static int do_nothing(run_t *run) {
    (void)run;
    return 0;
}

static int do_write(run_t *run) {
    return say(run, parameter(run, "text", ""));
}

static int do_outputs(run_t *run) {
    char data[4096];
    ssize_t size = run->read(run, 0, data, sizeof data);
    for (int turn = 0; turn < 2; turn++) {
        for (size_t number = run->output_count; number-- > 0;) {
            char text[16];
            snprintf(text, sizeof text, "%zu", number);
            struct storlet_field field = {"number", text};
            if (turn == 0 && run->set_metadata(run, number, &field, 1) != 0) {
                return errno;
            }
            strcat(text, ":");
            run->write(run, number, text, strlen(text));
            run->write(run, number, data, (size_t)size);
        }
    }
    return 0;
}

static int do_fill_last(run_t *run) {
    const char *size = parameter(run, "size", "0");
    static char block[100000];
    memset(block, 'x', sizeof block);
    for (size_t left = strtoul(size, NULL, 10); left > 0;) {
        size_t part = left < sizeof block ? left : sizeof block;
        if (run->write(run, run->output_count - 1, block, part) != 0) {
            return errno;
        }
        left -= part;
    }
    return say(run, size);
}

static int do_raise_after_further(run_t *run) {
    run->write(run, 1, "half", 4);
    run->fail(run, "on purpose");
    return -1;
}

static int do_further_metadata(run_t *run) {
    char value[1024] = "";
    memset(value, 'x', strtoul(parameter(run, "size", "0"), NULL, 10));
    struct storlet_field field = {"a", value};
    return run->set_metadata(run, 1, &field, 1) != 0 ? errno : 0;
}

static int do_pid(run_t *run) {
    return say_number(run, getpid());
}

static int do_count(run_t *run) {
    return say_number(run, runs);
}

static int do_path(run_t *run) {
    return say(run, run->execution_path);
}

static int do_lines(run_t *run) {
    char c;
    char last = '\n';
    int number = 0;
    while (run->read(run, 0, &c, 1) == 1) {
        char text[32];
        snprintf(text, sizeof text, "%d:", ++number);
        if (last == '\n') {
            say(run, text);
        } else {
            number--;
        }
        run->write(run, 0, &c, 1);
        last = c;
    }
    return 0;
}

static const struct storlet_field ONE = {"a", "1"};

static int do_metadata_twice(run_t *run) {
    run->set_metadata(run, 0, &ONE, 1);
    run->set_metadata(run, 0, &ONE, 1);
    return 0; /* the failure is not forgotten */
}

static int do_metadata_late(run_t *run) {
    say(run, "early");
    return run->set_metadata(run, 0, &ONE, 1);
}

static int do_metadata_large(run_t *run) {
    size_t size = strtoul(parameter(run, "size", "0"), NULL, 10);
    char *value = calloc(1, size + 1);
    memset(value, 'x', size);
    struct storlet_field field = {"a", value};
    run->set_metadata(run, 0, &field, 1);
    free(value);
    return 0;
}

static int do_secrets(run_t *run) {
    char names[256];
    snprintf(names, sizeof names, "%s", parameter(run, "names", ""));
    for (char *name = strtok(names, ","); name != NULL; name = strtok(NULL, ",")) {
        const char *value;
        size_t size;
        say(run, name);
        if (run->secret(run, name, &value, &size) != 0) {
            say(run, errno == ENOENT ? " is missing;" : " has failed;");
            continue;
        }
        say(run, "=");
        run->write(run, 0, value, size);
        say(run, value[size] == '\0' ? ";" : "!");
    }
    return 0;
}

static int do_leak(run_t *run) {
    static char text[65536];
    const char *value;
    size_t size;
    if (run->secret(run, "key", &value, &size) != 0) {
        return errno;
    }
    size_t used = strtoul(parameter(run, "before", "0"), NULL, 10);
    memset(text, 'x', used);
    for (int left = atoi(parameter(run, "times", "0")); left > 0; left--) {
        memcpy(text + used, value, size);
        text[used + size] = '-';
        used += size + 1;
    }
    text[used] = '\0';
    run->log(run, text);
    run->fail(run, text);
    return EINVAL;
}

static int do_raise(run_t *run) {
    run->fail(run, parameter(run, "text", "on purpose"));
    return -1;
}

static int do_raise_late(run_t *run) {
    say(run, "half");
    return do_raise(run);
}

static int do_memory(run_t *run) {
    (void)run;
    return malloc((size_t)1 << 60) == NULL ? ENOMEM : 0;
}

static int do_recurse(run_t *run) {
    volatile char filled[4096];
    filled[0] = (char)runs;
    return do_recurse(run) + filled[0];
}

static int do_exit(run_t *run) {
    say(run, "half");
    _exit(atoi(parameter(run, "code", "0")));
}

static int do_sys_exit(run_t *run) {
    say(run, "half");
    exit(atoi(parameter(run, "code", "0")));
}

static int do_kill(run_t *run) {
    say(run, "half");
    kill(getpid(), atoi(parameter(run, "signal", "9")));
    pause_for(60);
    return 0;
}

static int do_spin(run_t *run) {
    say(run, "x");
    for (volatile unsigned turns = 0;; turns++) {
    }
}

static int do_sleep(run_t *run) {
    pause_for(atof(parameter(run, "seconds", "0")));
    return say(run, "slept");
}

static int do_flood(run_t *run) {
    static char data[262144];
    while (run->write(run, 0, data, sizeof data) == 0) {
    }
    return errno;
}

static int do_log(run_t *run) {
    const char *lines[] = {"one", "two", "three", "four"};
    for (size_t i = 0; i < 4; i++) {
        run->log(run, lines[i]);
    }
    return 0;
}

static int do_log_flood(run_t *run) {
    for (int number = 0; number < atoi(parameter(run, "lines", "0")); number++) {
        char line[32];
        snprintf(line, sizeof line, "line %d", number);
        run->log(run, line);
    }
    return 0;
}

static int do_print(run_t *run) {
    (void)run;
    printf("to the standard output\n");
    fprintf(stderr, "to the standard error\n");
    return 0;
}

static int do_keep(run_t *run) {
    kept = run;
    return say(run, "kept");
}

static int do_use_kept(run_t *run) {
    char data[4096];
    ssize_t size;
    bool is_refused = kept->read(kept, 0, data, 1) < 0 && kept->read_at(kept, 0, data, 1, 0) < 0 &&
                      kept->seek(kept, 0, 0, SEEK_SET) < 0 && kept->input_bytes(kept, 0) < 0;
    say(run, is_refused ? "raised " : "worked ");
    say(run, kept->write(kept, 0, "x", 1) < 0 ? "raised " : "worked ");
    kept->log(kept, "x");
    say(run, "raised "); /* the log of the test is empty */
    while ((size = run->read(run, 0, data, sizeof data)) > 0) {
        run->write(run, 0, data, (size_t)size);
    }
    return 0;
}

static pid_t start_sleep(bool has_session) {
    pid_t pid = fork();
    if (pid == 0) {
        if (has_session) {
            setsid();
        }
        execlp("sleep", "sleep", "300", NULL);
        _exit(127);
    }
    return pid;
}

static int do_copy(run_t *run) {
    char text[100];
    long long wrong = run->copy(run, 0, 9, SIZE_MAX);
    long long first = run->copy(run, 0, 0, 3);
    long long rest = run->copy(run, 0, 0, SIZE_MAX);
    long long end = run->copy(run, 0, 0, SIZE_MAX);
    snprintf(text, sizeof text, " %lld %lld %lld %lld", wrong, first, rest, end);
    return say(run, text);
}

static int do_leave_process(run_t *run) {
    return say_number(run, start_sleep(true));
}

static int do_leave_orphan(run_t *run) {
    int ends[2];
    char text[32] = "";
    if (pipe(ends) != 0) {
        return errno;
    }
    pid_t parent = fork();
    if (parent == 0) {
        dprintf(ends[1], "%d", (int)start_sleep(true));
        _exit(0);
    }
    waitpid(parent, NULL, 0);
    ssize_t size = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    close(ends[1]);
    return size > 0 ? say(run, text) : EIO;
}

static void *sleep_for_long(void *nothing) {
    (void)nothing;
    pause_for(300);
    return NULL;
}

static int do_leave_thread(run_t *run) {
    pthread_t thread;
    (void)run;
    return pthread_create(&thread, NULL, sleep_for_long, NULL);
}

static void on_signal(int number) {
    (void)number;
}

static int do_leave_handler(run_t *run) {
    (void)run;
    signal(SIGUSR1, on_signal);
    return 0;
}

static int do_leave_changes(run_t *run) {
    (void)run;
    umask(0777);
    setenv("LEFT", "behind", 1);
    unsetenv("PATH");
    return chdir("/");
}

static int do_state(run_t *run) {
    char text[4096];
    char folder[2048];
    mode_t mask = umask(0);
    umask(mask);
    snprintf(text, sizeof text, "%s %o %s %s", getcwd(folder, sizeof folder), mask,
             getenv("LEFT") == NULL ? "gone" : "left", getenv("PATH") == NULL ? "lost" : "kept");
    return say(run, text);
}

static int do_keep_duplicate(run_t *run) {
    int copy = dup(run->inputs[0].fd);
    return copy < 0 ? errno : say_number(run, getpid());
}

static int do_child(run_t *run) {
    /* Before the fork: the metadata is sent once. */
    int output = run->output_fd(run, 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(run->inputs[0].fd, 0);
        dup2(output, 1);
        execlp("tr", "tr", "a-z", "A-Z", NULL);
        _exit(127);
    }
    int status = 0;
    return waitpid(pid, &status, 0) == pid ? status : errno;
}

/* A child that may write to the output after the end of the run. */
static int do_leave_writer(run_t *run) {
    return run->output_fd(run, 0) >= 0 && start_sleep(true) > 0 ? 0 : EIO;
}

/* The input byte by byte, with what may be overwritten behind the byte. */
static int do_bytes(run_t *run) {
    char data[64] = "";
    for (ssize_t size; (size = run->read(run, 0, data, 1)) != 0;) {
        if (size != 1 || data[1] != 0) {
            return EOVERFLOW;
        }
        if (run->write(run, 0, data, 1) != 0) {
            return errno;
        }
    }
    return 0;
}

static int do_hold_memory(run_t *run) {
    size_t size = strtoul(parameter(run, "mib", "0"), NULL, 10) << 20;
    volatile char *held = malloc(size);
    if (held == NULL) {
        return ENOMEM;
    }
    for (size_t at = 0; at < size; at += 4096) {
        held[at] = 1;
    }
    return say(run, "held");
}

static int do_threads(run_t *run) {
    for (int number = 0; number < atoi(parameter(run, "count", "0")); number++) {
        int error = do_leave_thread(run);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

static int do_processes(run_t *run) {
    for (int number = 0; number < atoi(parameter(run, "count", "0")); number++) {
        if (start_sleep(false) < 0) {
            return errno;
        }
    }
    return 0;
}

static int do_open(run_t *run) {
    int count = atoi(parameter(run, "count", "0"));
    int fds[1024];
    int error = 0;
    int opened = 0;
    while (opened < count && error == 0) {
        fds[opened] = open("/dev/null", O_RDONLY);
        error = fds[opened] < 0 ? errno : 0;
        opened += error == 0;
    }
    for (int i = 0; i < opened; i++) {
        close(fds[i]);
    }
    return error != 0 ? error : say_number(run, opened);
}

static int do_scratch(run_t *run) {
    static char block[1 << 20];
    for (int number = 0; number < atoi(parameter(run, "files", "0")); number++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%d", parameter(run, "folder", "/tmp"), number);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        int error = fd < 0 ? errno : 0;
        for (int mib = 0; error == 0 && mib < atoi(parameter(run, "mib", "1")); mib++) {
            error = write(fd, block, sizeof block) < 0 ? errno : 0;
        }
        close(fd);
        if (error != 0) {
            return error;
        }
    }
    pause_for(atof(parameter(run, "seconds", "0")));
    return say(run, "filled");
}

static int do_signal(run_t *run) {
    int error = kill(atoi(parameter(run, "pid", "0")), atoi(parameter(run, "signal", "0")));
    return say(run, error == 0 ? "sent" : strerror(errno));
}

static int do_spy(run_t *run) {
    const char *names[] = {"mem", "fd", "environ"};
    for (size_t i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof path, "/proc/%s/%s", parameter(run, "pid", "self"), names[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            say(run, names[i]);
            close(fd);
        }
    }
    return 0;
}

static int do_close_all(run_t *run) {
    int error = say(run, "all");
    close(run->inputs[0].fd);
    return error;
}

/* Answer the protocol wrongly: an end of this run that is not one, then more output. */
static int do_end_early(run_t *run) {
    send(4, "{\"type\":\"end\"}", 14, MSG_NOSIGNAL);
    pause_for(30);
    return say(run, "late");
}

static int do_forge(run_t *run) {
    const char *text = parameter(run, "text", "");
    send(4, text, strlen(text), MSG_NOSIGNAL);
    pause_for(30);
    return 0;
}

static const struct {
    const char *name;
    storlet_function *function;
} ACTIONS[] = {
#define ACTION(name) {#name, do_##name}
    ACTION(echo),          ACTION(nothing),        ACTION(write),        ACTION(pid),
    ACTION(count),         ACTION(path),           ACTION(lines),        ACTION(metadata_twice),
    ACTION(metadata_late), ACTION(metadata_large), ACTION(raise),        ACTION(raise_late),
    ACTION(memory),        ACTION(recurse),        ACTION(exit),         ACTION(sys_exit),
    ACTION(kill),          ACTION(spin),           ACTION(sleep),        ACTION(flood),
    ACTION(log),           ACTION(log_flood),      ACTION(print),        ACTION(keep),
    ACTION(use_kept),      ACTION(leave_process),  ACTION(leave_orphan), ACTION(leave_thread),
    ACTION(leave_handler), ACTION(leave_changes),  ACTION(state),        ACTION(keep_duplicate),
    ACTION(child),         ACTION(hold_memory),    ACTION(threads),      ACTION(processes),
    ACTION(open),          ACTION(scratch),        ACTION(signal),       ACTION(spy),
    ACTION(close_all),     ACTION(end_early),      ACTION(forge),        ACTION(outputs),
    ACTION(fill_last),     ACTION(raise_after_further),                  ACTION(further_metadata),
    ACTION(leave_writer),  ACTION(bytes),          ACTION(seek),         ACTION(read_at),
    ACTION(child_reads),   ACTION(secrets),        ACTION(leak),         ACTION(copy),
};

int probe(run_t *run) {
    const char *wanted = parameter(run, "do", "echo");
    runs++;
    for (size_t i = 0; i < sizeof ACTIONS / sizeof ACTIONS[0]; i++) {
        if (strcmp(ACTIONS[i].name, wanted) == 0) {
            return ACTIONS[i].function(run);
        }
    }
    return EINVAL;
}
