/*
 * The program form: an executable file or a script, started for each invocation.
 *
 *   descriptor 0       the first input
 *   1                  the output
 *   2                  the log
 *   3, 4, ...          the further inputs, in their order, then the further outputs
 *   STORLET_METADATA_FD  the output's metadata, a JSON object, before the first byte of the output
 *   STORLET_SECRET_FD_*  a secret, whose value is in no environment: a pipe, which is read once
 *
 * The program reads and writes the streams of the filter: no byte passes through this process, but
 * those of a range that ends within its file, which is sent through a pipe. The filter takes no
 * byte of the output before its metadata. So this process looks for the first byte in the stream,
 * and then sends what the program has written as metadata. Further outputs have none. After the
 * exit no process may hold an output.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST_NUMBER 3
#define CHUNK (1024 * 1024)
#define FLOWS_MAX (DESCRIPTORS_MAX + 1)
/* Of what is waited for: before the ranges are the exit, the log and the metadata. */
#define RANGES_AT 3
/* The longest time between two looks for the first byte of the output. */
#define LOOK_MILLISECONDS 16

static char program_path[4096];
static char program_name[256];
/* The metadata that the program has written. */
static char metadata_text[MESSAGE_MAX];

bool program_load(const struct config *config, struct outcome *outcome) {
    const char *slash = strrchr(config->main, '/');
    snprintf(program_path, sizeof program_path, "%s/%s", config->execution_path, config->main);
    snprintf(program_name, sizeof program_name, "%s", slash == NULL ? config->main : slash + 1);
    return check_program(program_path, config->main, outcome);
}

/* --- ranges ------------------------------------------------------------------------------------
 */

/* Moves bytes of a file to a pipe until `left` or the file ends, then closes both. */
struct flow {
    int from;
    int to;
    int64_t left;
    loff_t offset;
};

enum moved { MOVED, BLOCKED, ENDED, BROKEN };

/* Move once, without waiting. */
static enum moved move(struct flow *flow) {
    size_t size = flow->left < CHUNK ? (size_t)flow->left : CHUNK;
    ssize_t count = splice(flow->from, &flow->offset, flow->to, NULL, size,
                           SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (count > 0) {
        flow->left -= count;
        return flow->left > 0 ? MOVED : ENDED;
    }
    if (count == 0) {
        return ENDED;
    }
    if (errno == EINTR) {
        return MOVED;
    }
    return errno == EAGAIN ? BLOCKED : BROKEN;
}

static void end_flow(struct flow *flow) {
    if (flow->from >= 0) {
        close(flow->from);
        close(flow->to);
    }
    flow->from = flow->to = -1;
}

/* --- one program -------------------------------------------------------------------------------
 */

/* The running program and this process's ends of its pipes; -1 where there is none. */
struct program {
    pid_t pid;
    int exit;     /* readable when the program has ended */
    int log;      /* its standard error */
    int metadata; /* what it writes to STORLET_METADATA_FD */
    size_t metadata_size;
    int look; /* milliseconds until the next look for the first byte of the output */
    size_t range_count;
    struct flow ranges[DESCRIPTORS_MAX];
    /* The descriptors of the program, by their numbers; closed here once it runs. */
    size_t given_count;
    int given[FLOWS_MAX + FIRST_NUMBER + SECRETS_MAX];
    size_t metadata_number; /* those of the secrets follow */
};

static bool system_failed(struct run *run, const char *what) {
    fail(&run->outcome, CODE_FAILED, "%s: %s", what, strerror(errno));
    if (errno == EAGAIN && has_refused_forks()) {
        run->outcome.code = CODE_LIMIT_PROCESSES;
    } else if (errno == ENOMEM) {
        run->outcome.code = CODE_LIMIT_MEMORY;
    }
    return false;
}

/* Above all numbers of the program, so that no descriptor is overwritten before it is used. */
static int least_number(const struct run *run) {
    const struct invocation *invocation = run->invocation;
    size_t streams = invocation->input_count + invocation->output_count;
    return (int)(streams + run->secrets.count) + FIRST_NUMBER + 1;
}

/* Give the program `fd` as its next descriptor. */
static bool give(struct run *run, struct program *program, int fd) {
    int least = least_number(run);
    int high = fd;
    if (fd < least) {
        high = fcntl(fd, F_DUPFD_CLOEXEC, least);
        close(fd);
    }
    if (high < 0) {
        return system_failed(run, "the program's descriptors");
    }
    program->given[program->given_count++] = high;
    return true;
}

/* A pipe of which the program gets one end; `own` is the other, which does not block. */
static bool give_pipe(struct run *run, struct program *program, bool program_writes, int *own) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return system_failed(run, "the program's descriptors");
    }
    *own = ends[program_writes ? 0 : 1];
    set_flags(*own, F_GETFL, F_SETFL, O_NONBLOCK, 0);
    return give(run, program, ends[program_writes ? 1 : 0]);
}

static bool give_input(struct run *run, struct program *program, struct input *input) {
    if (input->end < 0) {
        int fd = input->fd;
        input->fd = -1;
        /* Programs expect descriptors that block. */
        set_flags(fd, F_GETFL, F_SETFL, 0, O_NONBLOCK);
        return give(run, program, fd);
    }
    struct flow *flow = &program->ranges[program->range_count];
    if (!give_pipe(run, program, false, &flow->to)) {
        return false;
    }
    *flow = (struct flow){.from = input->fd,
                          .to = flow->to,
                          .offset = input->start,
                          .left = bytes_of(input)};
    input->fd = -1;
    program->range_count++;
    return true;
}

/* Give the program an output, of which this process keeps a descriptor. */
static bool give_output(struct run *run, struct program *program, size_t number) {
    int own = run->invocation->outputs[number];
    set_flags(own, F_GETFL, F_SETFL, 0, O_NONBLOCK);
    return give(run, program, fcntl(own, F_DUPFD_CLOEXEC, least_number(run)));
}

/* Give the program a pipe with the value of a secret, of which nothing is left once it is read. */
static bool give_secret(struct run *run, struct program *program, const struct secret *secret) {
    int own;
    if (!give_pipe(run, program, false, &own)) {
        return false;
    }
    ssize_t written = write(own, secret->value, secret->size);
    close(own);
    if (written != (ssize_t)secret->size) {
        fail(&run->outcome, CODE_FAILED, "the secret %.100s does not fit into a pipe",
             secret->name);
        return false;
    }
    return true;
}

/* By number: first input, output, log, further inputs, further outputs, metadata, secrets. */
static bool prepare(struct run *run, struct program *program) {
    struct invocation *invocation = run->invocation;
    if (!give_input(run, program, &invocation->inputs[0]) || !give_output(run, program, 0) ||
        !give_pipe(run, program, true, &program->log)) {
        return false;
    }
    for (size_t i = 1; i < invocation->input_count; i++) {
        if (!give_input(run, program, &invocation->inputs[i])) {
            return false;
        }
    }
    for (size_t i = 1; i < invocation->output_count; i++) {
        /* Its metadata comes before its first byte, and is empty. */
        if (!send_metadata(run, i, NULL) || !give_output(run, program, i)) {
            return false;
        }
    }
    program->metadata_number = program->given_count;
    bool is_given = give_pipe(run, program, true, &program->metadata);
    for (size_t i = 0; i < run->secrets.count && is_given; i++) {
        is_given = give_secret(run, program, &run->secrets.each[i]);
    }
    return is_given;
}

/* --- environment -------------------------------------------------------------------------------
 */

struct environment {
    size_t count;
    char **texts;
    bool is_cut; /* no memory for one: a program must not run with less than it was given */
};

/* Takes ownership of `text`. */
static void add_text(struct environment *environment, char *text) {
    if (text != NULL) {
        environment->texts[environment->count++] = text;
    } else {
        environment->is_cut = true;
    }
}

static void add(struct environment *environment, const char *name, const char *key,
                const char *value) {
    char *text;
    add_text(environment, asprintf(&text, "%s%s=%s", name, key, value) >= 0 ? text : NULL);
}

/* A name with '=' would be cut there, and a text ends at a NUL: these are in the JSON only. */
static bool fits_environment(const char *key, json_t *value) {
    return strchr(key, '=') == NULL &&
           strlen(json_string_value(value)) == json_string_length(value);
}

static void add_json(struct environment *environment, const char *name, json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT);
    if (text != NULL) {
        add(environment, name, "", text);
    } else {
        environment->is_cut = true;
    }
    free(text);
    json_decref(value);
}

/* STORLET_SECRET_FD_<NAME>: letters of a name are upper case there, and a '-' is a '_'. */
static void add_secret(struct environment *environment, const char *name, size_t number) {
    char key[128];
    char value[16];
    size_t length = 0;
    for (; name[length] != '\0' && length < sizeof key - 1; length++) {
        key[length] = name[length] == '-' ? '_' : (char)toupper((unsigned char)name[length]);
    }
    key[length] = '\0';
    snprintf(value, sizeof value, "%zu", number);
    add(environment, "STORLET_SECRET_FD_", key, value);
}

static json_t *inputs_as_json(const struct invocation *invocation) {
    json_t *inputs = json_array();
    for (size_t i = 0; i < invocation->input_count; i++) {
        json_t *metadata = invocation->inputs[i].metadata;
        int number = i == 0 ? 0 : FIRST_NUMBER + (int)i - 1;
        json_array_append_new(inputs,
                              json_pack("{si so}", "fd", number, "metadata",
                                        metadata == NULL ? json_object() : json_incref(metadata)));
    }
    return inputs;
}

static json_t *outputs_as_json(const struct invocation *invocation) {
    json_t *outputs = json_array();
    for (size_t i = 0; i < invocation->output_count; i++) {
        int number = i == 0 ? 1 : FIRST_NUMBER + (int)(invocation->input_count + i) - 2;
        json_array_append_new(outputs, json_pack("{si}", "fd", number));
    }
    return outputs;
}

static void free_texts(char **texts) {
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++) {
        free(texts[i]);
    }
    free(texts);
}

static char **environment_of(struct run *run, const struct program *program) {
    size_t inherited = 0;
    while (environ[inherited] != NULL) {
        inherited++;
    }
    json_t *parameters = run->invocation->parameters;
    parameters = parameters == NULL ? json_object() : json_copy(parameters);
    json_object_set_new(parameters, "storlet_execution_path",
                        json_string(run->config->execution_path));
    size_t most = inherited + json_object_size(parameters) + run->secrets.count + 5;
    struct environment made = {.texts = calloc(most, sizeof(char *))};
    if (made.texts == NULL) {
        json_decref(parameters);
        return NULL;
    }
    for (size_t i = 0; i < inherited; i++) {
        add_text(&made, strdup(environ[i]));
    }
    const char *key;
    json_t *value;
    json_object_foreach(parameters, key, value) {
        if (fits_environment(key, value)) {
            add(&made, "STORLET_PARAM_", key, json_string_value(value));
        }
    }
    char number[16];
    snprintf(number, sizeof number, "%zu", program->metadata_number);
    add(&made, "STORLET_METADATA_FD", "", number);
    for (size_t i = 0; i < run->secrets.count; i++) {
        add_secret(&made, run->secrets.each[i].name, program->metadata_number + 1 + i);
    }
    add_json(&made, "STORLET_PARAMETERS", parameters);
    add_json(&made, "STORLET_INPUTS", inputs_as_json(run->invocation));
    add_json(&made, "STORLET_OUTPUTS", outputs_as_json(run->invocation));
    if (made.is_cut) {
        free_texts(made.texts);
        return NULL;
    }
    return made.texts;
}

/* --- start -------------------------------------------------------------------------------------
 */

#define CHILD_STACK_BYTES 16384

/* The argument of the child of `spawn`. */
struct start {
    const struct program *program;
    char *const *arguments;
    char *const *environment;
    int error; /* why it did not */
};

/* In the child: take the descriptors, and execute the program. */
static int become(void *given) {
    static const struct sigaction defaults = {.sa_handler = SIG_DFL};
    struct start *start = given;
    const struct program *program = start->program;
    bool has_all = sigaction(SIGPIPE, &defaults, NULL) == 0;
    for (size_t number = 0; number < program->given_count && has_all; number++) {
        has_all = dup2(program->given[number], (int)number) >= 0;
    }
    if (has_all) {
        execve(program_path, start->arguments, start->environment);
    }
    start->error = errno;
    _exit(127);
}

/*
 * Start the program; 0 or an error. This process waits until its child executes the program or
 * fails. Until then the child uses this process's memory, so it makes system calls only. It has no
 * other threads, and no signal handlers that could run in the child. posix_spawn makes the same
 * child, with a system call for each of 64 signals.
 *
 * The child and the descriptor that shows its exit come from one call: without a descriptor for it,
 * no program starts that this process would lose.
 */
static int spawn(const struct config *config, struct program *program, char **environment) {
    static char stack[CHILD_STACK_BYTES] __attribute__((aligned(16)));
    struct start start = {
        .program = program, .arguments = config->arguments, .environment = environment};
    config->arguments[0] = program_name;
    program->pid = clone(become, stack + sizeof stack,
                         CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &start, &program->exit);
    if (program->pid < 0) {
        return errno;
    }
    if (start.error != 0) {
        while (waitpid(program->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    return start.error;
}

static bool start(struct run *run, struct program *program) {
    char **environment = environment_of(run, program);
    errno = environment == NULL ? ENOMEM : spawn(run->config, program, environment);
    bool is_started = errno == 0;
    if (!is_started) {
        system_failed(run, "the program cannot be started");
    }
    free_texts(environment);
    for (size_t i = 0; i < program->given_count; i++) {
        close(program->given[i]);
    }
    program->given_count = 0;
    return is_started;
}

/* --- while it runs -----------------------------------------------------------------------------
 */

static void read_log(struct run *run, struct program *program) {
    char data[8192];
    ssize_t size;
    while ((size = read(program->log, data, sizeof data)) > 0) {
        log_write(&run->log, data, (size_t)size);
    }
    if (size == 0) {
        close(program->log);
        program->log = -1;
    }
}

/* Read what the program has written as metadata by now; it is complete before the output begins. */
static void read_metadata(struct run *run, struct program *program) {
    while (program->metadata >= 0 && program->metadata_size < sizeof metadata_text) {
        ssize_t size = read(program->metadata, metadata_text + program->metadata_size,
                            sizeof metadata_text - program->metadata_size);
        if (size == 0) {
            close(program->metadata);
            program->metadata = -1;
        }
        if (size <= 0) {
            return;
        }
        program->metadata_size += (size_t)size;
    }
    if (run->outcome.code == NULL && program->metadata >= 0) {
        fail(&run->outcome, CODE_LIMIT_METADATA, "the metadata has more than %zu bytes",
             run->invocation->metadata_max);
    }
}

/* Send the metadata, once, before the first byte of the output. */
static bool ensure_metadata(struct run *run, struct program *program) {
    if (run->has_metadata[0]) {
        return true;
    }
    read_metadata(run, program);
    if (run->outcome.code != NULL) {
        return false;
    }
    if (program->metadata_size == 0) {
        return send_metadata(run, 0, NULL);
    }
    json_error_t error;
    json_t *metadata = json_loadb(metadata_text, program->metadata_size, 0, &error);
    bool is_sent = false;
    if (!json_is_object(metadata)) {
        fail(&run->outcome, CODE_FAILED, "the metadata is not a JSON object: %.200s",
             metadata == NULL ? error.text : "another value");
    } else {
        is_sent = send_metadata(run, 0, metadata);
    }
    json_decref(metadata);
    program->metadata_size = 0;
    return is_sent;
}

/* Whether bytes wait in a stream. The filter takes none before their metadata. */
static bool has_bytes(int stream) {
    uint32_t numbers[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof numbers;
    /* If it fails, the metadata is sent with the first turn: no output is held back. */
    return getsockopt(stream, SOL_SOCKET, SO_MEMINFO, numbers, &size) != 0 ||
           numbers[SK_MEMINFO_WMEM_ALLOC] > 0;
}

static void move_range(struct run *run, struct flow *flow) {
    enum moved moved = MOVED;
    while (moved == MOVED) {
        moved = move(flow);
    }
    /* A program need not read all of its input; but if its input breaks off, it must not succeed.
     */
    if (moved == BROKEN && errno != EPIPE) {
        system_failed(run, "an input cannot be read");
    }
    if (moved == ENDED || moved == BROKEN) {
        end_flow(flow);
    }
}

static void watch(struct pollfd *one, int fd, short events) {
    *one = (struct pollfd){.fd = fd, .events = events};
}

/* Wait for the next event, and handle it. True if the program has exited. */
static bool turn(struct run *run, struct program *program) {
    struct pollfd ready[RANGES_AT + DESCRIPTORS_MAX];
    watch(&ready[0], program->exit, POLLIN);
    watch(&ready[1], program->log, POLLIN);
    watch(&ready[2], program->metadata, POLLIN);
    for (size_t i = 0; i < program->range_count; i++) {
        watch(&ready[RANGES_AT + i], program->ranges[i].to, POLLOUT);
    }
    int wait = run->has_metadata[0] ? -1 : program->look;
    int count = poll(ready, RANGES_AT + program->range_count, wait);
    if (count < 0) {
        if (errno != EINTR) {
            system_failed(run, "poll");
        }
        return false;
    }
    if (count == 0 && program->look < LOOK_MILLISECONDS) {
        program->look *= 2;
    }
    if (ready[1].revents != 0) {
        read_log(run, program);
    }
    if (ready[2].revents != 0) {
        /* Now, because a program that fills the pipe would never get to its output. */
        read_metadata(run, program);
    }
    for (size_t i = 0; i < program->range_count; i++) {
        if (ready[RANGES_AT + i].revents != 0) {
            move_range(run, &program->ranges[i]);
        }
    }
    if (!run->has_metadata[0] && has_bytes(run->invocation->outputs[0])) {
        ensure_metadata(run, program);
    }
    return ready[0].revents != 0;
}

/* Serve the program until it has exited, or the run has failed. */
static void serve(struct run *run, struct program *program) {
    while (run->outcome.code == NULL && !turn(run, program)) {
    }
}

/* --- the end -----------------------------------------------------------------------------------
 */

static void explain_exit(struct run *run, int status) {
    char line[SUMMARY_MAX];
    log_last_line(&run->log, line, sizeof line);
    const char *mark = line[0] == '\0' ? "" : ": ";
    if (WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        const char *name = sigabbrev_np(number);
        fail(&run->outcome, CODE_FAILED, "the program was killed by signal %d (SIG%s)%s%s", number,
             name == NULL ? "?" : name, mark, line);
    } else {
        fail(&run->outcome, CODE_FAILED, "the program exited with status %d%s%s",
             WEXITSTATUS(status), mark, line);
    }
    explain_by_limits(&run->outcome);
}

/* Metadata that comes after the first byte of the output would be lost. */
static void require_no_late_metadata(struct run *run, struct program *program) {
    read_metadata(run, program);
    if (run->outcome.code == NULL && program->metadata_size > 0) {
        fail(&run->outcome, CODE_FAILED,
             "metadata was written after the first byte of the output, or twice");
    }
}

/* Bytes that are written from now on would be missing from a result that looks complete. */
static void require_all_output(struct run *run) {
    struct invocation *invocation = run->invocation;
    if (has_children()) {
        if (close_held(invocation->outputs, invocation->output_count)) {
            fail(&run->outcome, CODE_FAILED,
                 "a process that the program started still holds its output: wait for its end "
                 "first");
        }
        return;
    }
    for (size_t i = 0; i < invocation->output_count; i++) {
        shutdown(invocation->outputs[i], SHUT_WR);
    }
}

static void finish(struct run *run, struct program *program) {
    int status = 0;
    if (run->outcome.code != NULL) {
        kill(program->pid, SIGKILL);
    }
    while (waitpid(program->pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (program->log >= 0) {
        read_log(run, program);
    }
    log_remove_secrets(&run->log, &run->secrets);
    if (run->outcome.code != NULL) {
        return;
    }
    if (status != 0) {
        explain_exit(run, status);
        return;
    }
    require_all_output(run);
    if (run->outcome.code == NULL && ensure_metadata(run, program)) {
        require_no_late_metadata(run, program);
    }
}

static void close_if_open(int fd) {
    if (fd >= 0) {
        close(fd);
    }
}

void program_run(struct run *run) {
    static struct program program;
    const char *lacks = run->invocation->services >= 0 ? "services" : NULL;
    for (size_t i = 0; i < run->invocation->input_count && lacks == NULL; i++) {
        lacks = run->invocation->inputs[i].seekable != NOT_SEEKABLE ? "seekable inputs" : NULL;
    }
    if (lacks != NULL) {
        fail(&run->outcome, CODE_LOAD,
             "%.200s is a program, which has no %s: use the form of a shared object",
             run->config->main, lacks);
        return;
    }
    program = (struct program){.exit = -1, .log = -1, .metadata = -1, .look = 1};
    if (prepare(run, &program) && start(run, &program)) {
        serve(run, &program);
        finish(run, &program);
    }
    for (size_t i = 0; i < program.given_count; i++) {
        close(program.given[i]);
    }
    for (size_t i = 0; i < program.range_count; i++) {
        end_flow(&program.ranges[i]);
    }
    close_if_open(program.exit);
    close_if_open(program.log);
    close_if_open(program.metadata);
}
