/*
 * The form of a shared object: a function that this process has loaded, called for each invocation.
 *
 * A storlet may keep a pointer to a run that has ended. The runs are a ring, so that such a pointer
 * does not lead to the descriptors of the next invocations: its functions fail with EBADF.
 */
#define _GNU_SOURCE
#include "services.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RING 16
/* The most that is copied at once: the filter sees the progress between. */
#define PIECE (1 << 20)
/* The most that is copied through memory at once. */
#define BUFFER (256 * 1024)

/* Objects that are compiled already rely on these places. */
_Static_assert(offsetof(struct storlet_run, execution_path) == 8, "the layout of version 1");
_Static_assert(offsetof(struct storlet_run, inputs) == 40, "the layout of version 1");
_Static_assert(offsetof(struct storlet_run, read) == 56, "the layout of version 1");
_Static_assert(offsetof(struct storlet_run, fail) == 96, "the layout of version 1");
_Static_assert(offsetof(struct storlet_run, services) == 104, "the layout of version 1");
_Static_assert(offsetof(struct storlet_run, input_bytes) == 112, "the layout of version 1");
_Static_assert(offsetof(struct storlet_run, secret) == 136, "the layout of version 1");
_Static_assert(offsetof(struct storlet_run, copy) == 144, "the layout of version 1");
_Static_assert(sizeof(struct storlet_input) == 24, "the stride of an array cannot grow");

/* One run. `api` comes first: the storlet's pointer is that of the whole. */
struct call {
    struct storlet_run api;
    struct run *run; /* NULL: it has ended */
    bool has_given;  /* the descriptor of an output, perhaps to a child process */
    struct reader readers[DESCRIPTORS_MAX];
    struct storlet_input inputs[DESCRIPTORS_MAX];
};

static storlet_function *function;
static const char *function_name;
static struct call ring[RING];
static size_t turns;

/* --- load --------------------------------------------------------------------------------------
 */

static bool check_version(void *object, const char *name, struct outcome *outcome) {
    const uint32_t *version = dlsym(object, "storlet_abi_version");
    if (version == NULL) {
        fail(outcome, CODE_LOAD, "%.200s has no symbol storlet_abi_version: see storlet.h", name);
        return false;
    }
    if (*version != STORLET_ABI_VERSION) {
        fail(outcome, CODE_LOAD,
             "%.200s is built for version %u of storlet.h; this sandbox has version %u", name,
             *version, STORLET_ABI_VERSION);
        return false;
    }
    return true;
}

bool library_load(const struct config *config, struct outcome *outcome) {
    static char name[256];
    char path[4096];
    const char *colon = strrchr(config->main, ':');
    snprintf(name, sizeof name, "%.*s", (int)(colon - config->main), config->main);
    snprintf(path, sizeof path, "%s/%s", config->execution_path, name);
    function_name = colon + 1;
    if (!check_library(path, name, outcome)) {
        return false;
    }
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        fail(outcome, CODE_LOAD, "%.200s cannot be loaded: %.600s", name, dlerror());
        return false;
    }
    if (!check_version(object, name, outcome)) {
        return false;
    }
    /* POSIX defines this conversion, ISO C does not. */
    *(void **)&function = dlsym(object, function_name);
    if (function == NULL) {
        fail(outcome, CODE_LOAD, "%.200s has no function %.200s", name, function_name);
        return false;
    }
    return true;
}

/* --- the functions of storlet_run --------------------------------------------------------------
 */

static struct call *call_of(struct storlet_run *api, size_t index, size_t count) {
    struct call *call = (struct call *)api;
    if (call->run == NULL || index >= count) {
        errno = EBADF;
        return NULL;
    }
    return call;
}

static void fail_by_errno(struct run *run, const char *what) {
    if (run->outcome.code == NULL) {
        fail(&run->outcome, CODE_FAILED, "%s: %s", what, strerror(errno));
    }
}

/* The storlet may take no part of an input that has broken off for the whole. */
static ssize_t note_broken(struct call *call, size_t input, ssize_t count) {
    if (count < 0 && call->readers[input].is_broken) {
        fail_by_errno(call->run, "reading the input");
    }
    return count;
}

static ssize_t read_input(struct storlet_run *api, size_t input, void *buffer, size_t size) {
    struct call *call = call_of(api, input, api->input_count);
    if (call == NULL) {
        return -1;
    }
    return note_broken(call, input, reader_read(&call->readers[input], buffer, size));
}

static ssize_t read_input_at(struct storlet_run *api, size_t input, void *buffer, size_t size,
                             int64_t offset) {
    struct call *call = call_of(api, input, api->input_count);
    if (call == NULL) {
        return -1;
    }
    return note_broken(call, input, reader_read_at(&call->readers[input], buffer, size, offset));
}

static int64_t seek_input(struct storlet_run *api, size_t input, int64_t offset, int whence) {
    struct call *call = call_of(api, input, api->input_count);
    return call == NULL ? -1 : reader_seek(&call->readers[input], offset, whence);
}

static int64_t input_bytes(struct storlet_run *api, size_t input) {
    struct call *call = call_of(api, input, api->input_count);
    return call == NULL ? -1 : reader_bytes(&call->readers[input]);
}

static bool ensure_metadata(struct run *run, size_t output) {
    return run->has_metadata[output] || send_metadata(run, output, NULL);
}

static int write_output(struct storlet_run *api, size_t output, const void *data, size_t size) {
    struct call *call = call_of(api, output, api->output_count);
    if (call == NULL || !ensure_metadata(call->run, output)) {
        return -1;
    }
    const char *rest = data;
    while (size > 0) {
        ssize_t count = write(call->run->invocation->outputs[output], rest, size);
        if (count < 0 && errno != EINTR) {
            fail_by_errno(call->run, "writing the output");
            return -1;
        }
        if (count > 0) {
            rest += count;
            size -= (size_t)count;
        }
    }
    return 0;
}

/* As `copy`, once. `buffer` is NULL as long as the kernel copies. */
static ssize_t copy_piece(struct call *call, size_t output, size_t input, size_t size,
                          char **buffer) {
    ssize_t count;
    if (*buffer == NULL) {
        int target = call->run->invocation->outputs[output];
        count = reader_send(&call->readers[input], target, size);
        if (count >= 0 || errno != EINVAL) {
            return count;
        }
        *buffer = malloc(BUFFER);
        if (*buffer == NULL) {
            return -1;
        }
    }
    count = read_input(&call->api, input, *buffer, size < BUFFER ? size : BUFFER);
    return count > 0 && write_output(&call->api, output, *buffer, (size_t)count) != 0 ? -1 : count;
}

static int64_t copy_input(struct storlet_run *api, size_t output, size_t input, size_t size) {
    struct call *call = call_of(api, input, api->input_count);
    char *buffer = NULL;
    size_t copied = 0;
    ssize_t count = 1;
    if (call == NULL || call_of(api, output, api->output_count) == NULL ||
        !ensure_metadata(call->run, output)) {
        return -1;
    }
    while (copied < size && count > 0) {
        size_t left = size - copied;
        count = copy_piece(call, output, input, left < PIECE ? left : PIECE, &buffer);
        copied += count > 0 ? (size_t)count : 0;
    }
    if (count < 0) {
        fail_by_errno(call->run, "copying an input to an output");
    }
    int number = errno;
    free(buffer);
    errno = number;
    return count < 0 ? -1 : (int64_t)copied;
}

static int set_metadata(struct storlet_run *api, size_t output, const struct storlet_field *fields,
                        size_t count) {
    struct call *call = call_of(api, output, api->output_count);
    if (call == NULL) {
        return -1;
    }
    if (call->run->has_metadata[output]) {
        errno = EALREADY;
        fail(&call->run->outcome, CODE_FAILED,
             "metadata is set twice, or after the first byte of the output");
        return -1;
    }
    json_t *metadata = json_object();
    for (size_t i = 0; i < count; i++) {
        if (fields[i].name != NULL && fields[i].value != NULL &&
            json_object_set_new(metadata, fields[i].name, json_string(fields[i].value)) != 0) {
            json_decref(metadata);
            errno = EILSEQ;
            fail(&call->run->outcome, CODE_FAILED, "metadata is not UTF-8");
            return -1;
        }
    }
    bool is_sent = send_metadata(call->run, output, metadata);
    json_decref(metadata);
    errno = EMSGSIZE;
    return is_sent ? 0 : -1;
}

static int output_fd(struct storlet_run *api, size_t output) {
    struct call *call = call_of(api, output, api->output_count);
    if (call == NULL || !ensure_metadata(call->run, output)) {
        return -1;
    }
    call->has_given = true;
    return call->run->invocation->outputs[output];
}

static void log_line(struct storlet_run *api, const char *line) {
    struct call *call = call_of(api, 0, 1);
    if (call != NULL) {
        char text[4096];
        size_t named = (size_t)snprintf(text, sizeof text / 2, "%s: ", function_name);
        named = named < sizeof text / 2 ? named : sizeof text / 2 - 1;
        secrets_copy(&call->run->secrets, line, text + named, sizeof text - named - 1);
        strcat(text, "\n");
        log_write(&call->run->log, text, strlen(text));
    }
}

static void set_message(struct storlet_run *api, const char *message) {
    struct call *call = call_of(api, 0, 1);
    if (call != NULL && call->run->outcome.code == NULL) {
        struct run *run = call->run;
        secrets_copy(&run->secrets, message, run->outcome.message, sizeof run->outcome.message);
    }
}

static int secret_value(struct storlet_run *api, const char *name, const char **value,
                        size_t *size) {
    struct call *call = call_of(api, 0, 1);
    if (call == NULL) {
        return -1;
    }
    const struct secret *secret = secret_of(&call->run->secrets, name);
    if (secret == NULL) {
        errno = ENOENT;
        return -1;
    }
    *value = secret->value;
    *size = secret->size;
    return 0;
}

/* --- one run -----------------------------------------------------------------------------------
 */

struct storlet_field *fields_of(json_t *object, const char *name, const char *value,
                                size_t *count) {
    struct storlet_field *fields = calloc(json_object_size(object) + 1, sizeof *fields);
    const char *key;
    json_t *text;
    *count = 0;
    if (fields == NULL) {
        return NULL;
    }
    json_object_foreach(object, key, text) {
        if (name == NULL || strcmp(key, name) != 0) {
            fields[(*count)++] = (struct storlet_field){key, json_string_value(text)};
        }
    }
    if (name != NULL) {
        fields[(*count)++] = (struct storlet_field){name, value};
    }
    return fields;
}

/* False: no memory. */
static bool prepare_inputs(struct call *call, const struct invocation *invocation) {
    bool is_whole = true;
    for (size_t i = 0; i < invocation->input_count; i++) {
        const struct input *given = &invocation->inputs[i];
        struct storlet_input *input = &call->inputs[i];
        reader_open(&call->readers[i], given);
        input->fd = given->end < 0 && given->seekable == NOT_SEEKABLE ? given->fd : -1;
        input->metadata = fields_of(given->metadata, NULL, NULL, &input->metadata_count);
        is_whole = is_whole && input->metadata != NULL;
    }
    return is_whole;
}

/* On failure the outcome of the run is set. */
static struct call *next_call(struct run *run) {
    struct call *call = &ring[turns++ % RING];
    const struct invocation *invocation = run->invocation;
    const char *path = run->config->execution_path;
    call->run = run;
    call->has_given = false;
    call->api = (struct storlet_run){
        .abi_version = STORLET_ABI_VERSION,
        .size = sizeof call->api,
        .execution_path = path,
        .input_count = invocation->input_count,
        .inputs = call->inputs,
        .output_count = invocation->output_count,
        .read = read_input,
        .write = write_output,
        .set_metadata = set_metadata,
        .output_fd = output_fd,
        .log = log_line,
        .fail = set_message,
        .services = &store_functions,
        .input_bytes = input_bytes,
        .seek = seek_input,
        .read_at = read_input_at,
        .secret = secret_value,
        .copy = copy_input,
    };
    call->api.parameters = fields_of(invocation->parameters, "storlet_execution_path", path,
                                     &call->api.parameter_count);
    if (!prepare_inputs(call, invocation) || call->api.parameters == NULL) {
        fail(&run->outcome, CODE_LIMIT_MEMORY, "the worker has no memory for the invocation");
    }
    return call;
}

static void end_call(struct call *call) {
    struct run *run = call->run;
    call->run = NULL;
    free((void *)call->api.parameters);
    for (size_t i = 0; i < call->api.input_count; i++) {
        struct reader *reader = &call->readers[i];
        if (reader->seekable == SEEKABLE_FILE) {
            run->input_bytes = (run->input_bytes < 0 ? 0 : run->input_bytes) + reader->taken;
        }
        reader_close(reader);
        free((void *)call->inputs[i].metadata);
    }
}

static const char *code_of(int result) {
    switch (result) {
    case ENOMEM:
        return CODE_LIMIT_MEMORY;
    case ENOSPC:
    case EFBIG:
    case EDQUOT:
        return CODE_LIMIT_SCRATCH;
    default:
        return CODE_FAILED;
    }
}

static void explain(struct run *run, int result) {
    struct outcome *outcome = &run->outcome;
    if (outcome->message[0] == '\0') {
        const char *name = strerrorname_np(result);
        fail(outcome, CODE_FAILED, "%.200s returned %d%s%s", function_name, result,
             name == NULL ? "" : ": ", name == NULL ? "" : strerror(result));
    }
    outcome->code = code_of(result);
    if (strcmp(outcome->code, CODE_FAILED) == 0 && services_have_exceeded()) {
        outcome->code = CODE_LIMIT_SERVICES;
    } else if (strcmp(outcome->code, CODE_FAILED) == 0) {
        explain_by_limits(outcome);
    }
}

/* Call the function, which may use the services of the run. */
static int call_function(struct call *call, struct run *run) {
    struct invocation *invocation = run->invocation;
    pid_t pid = getpid();
    services_begin(&call->api, invocation->services, invocation->operations);
    invocation->services = -1;
    int result = function(&call->api);
    if (getpid() != pid) {
        /* A copy that the function forked: its success would hide a failure of the original. */
        _exit(1);
    }
    run->must_recycle = !services_end(&run->outcome);
    return result;
}

void library_run(struct run *run) {
    struct call *call = next_call(run);
    size_t outputs = run->invocation->output_count;
    for (size_t i = 0; i < outputs; i++) {
        set_flags(run->invocation->outputs[i], F_GETFL, F_SETFL, 0, O_NONBLOCK);
    }
    if (run->log.fd >= 0) {
        print_into(run->log.fd);
    }
    int result = run->outcome.code == NULL ? call_function(call, run) : 0;
    discard_output();
    end_call(call);
    if (run->outcome.code != NULL) {
        return;
    }
    if (result != 0) {
        explain(run, result);
        return;
    }
    if (call->has_given && has_children()) {
        /* Bytes written from now on would be missing from a result that looks complete. */
        fail(&run->outcome, CODE_FAILED,
             "%.200s left a process that may hold the output: wait for its end first",
             function_name);
        return;
    }
    for (size_t i = 0; i < outputs && ensure_metadata(run, i); i++) {
    }
}
