/*
 * The messages of PROTOCOL.rst. Everything that arrives is checked completely before any of it is
 * used; the descriptors of a message that is refused are closed here.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEPTH_MAX 8
#define METADATA_DEFAULT 4096
/* Bytes of metadata that fit into a message, beside everything else of it. */
#define METADATA_MAX (MESSAGE_MAX - 1024)
/* A caller that connects and sends nothing must not keep a worker. */
#define FIRST_MESSAGE_MILLISECONDS 10000
#define REFUSALS_MAX 1000

/* --- receiving ---------------------------------------------------------------------------------
 */

void close_descriptors(struct record *record) {
    for (size_t i = 0; i < record->count; i++) {
        close(record->fds[i]);
    }
    record->count = 0;
}

static void take_descriptors(struct msghdr *message, struct record *record) {
    record->count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t size = part->cmsg_len - CMSG_LEN(0);
        for (size_t at = 0; at + sizeof(int) <= size; at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
            if (record->count < DESCRIPTORS_MAX) {
                record->fds[record->count++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

static bool wait_readable(int socket, int milliseconds) {
    struct pollfd one = {.fd = socket, .events = POLLIN};
    int ready;
    do {
        ready = poll(&one, 1, milliseconds);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/* False: the connection has ended, or brings nothing for so long; -1 is without an end. */
bool receive_record(int socket, struct record *record, int milliseconds) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    } control;
    struct iovec data = {.iov_base = record->data, .iov_len = sizeof record->data};
    for (;;) {
        struct msghdr message = {.msg_iov = &data,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (size >= 0) {
            take_descriptors(&message, record);
            record->size = (size_t)size;
            record->is_cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
            return size > 0 || record->count > 0;
        }
        if (errno == EAGAIN ? !wait_readable(socket, milliseconds) : errno != EINTR) {
            return false;
        }
    }
}

/* --- parsing -----------------------------------------------------------------------------------
 */

struct parser {
    const struct record *record;
    uint64_t named; /* a bit for each descriptor of the message */
    char *fault;    /* the first one; empty if there is none */
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct parser *parser, const char *format,
                                                         ...) {
    if (parser->fault[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(parser->fault, SUMMARY_MAX, format, arguments);
        va_end(arguments);
    }
    return false;
}

/* The number of levels, counted up to the first one that is too deep. */
static size_t depth_of(json_t *value, size_t level) {
    if (!(json_is_object(value) || json_is_array(value))) {
        return level - 1;
    }
    if (level > DEPTH_MAX) {
        return level;
    }
    size_t deepest = level;
    if (json_is_array(value)) {
        size_t index;
        json_t *item;
        json_array_foreach(value, index, item) {
            size_t depth = depth_of(item, level + 1);
            deepest = depth > deepest ? depth : deepest;
        }
    } else {
        const char *key;
        json_t *item;
        json_object_foreach(value, key, item) {
            size_t depth = depth_of(item, level + 1);
            deepest = depth > deepest ? depth : deepest;
        }
    }
    return deepest;
}

/* A key whose value is null counts as absent. */
json_t *field(json_t *object, const char *key) {
    json_t *found = json_object_get(object, key);
    return json_is_null(found) ? NULL : found;
}

/* A whole number from 0; `absent` without the key. */
static bool number(struct parser *parser, json_t *object, const char *key, int64_t absent,
                   int64_t *value) {
    json_t *found = field(object, key);
    if (found == NULL) {
        *value = absent;
        return true;
    }
    *value = json_integer_value(found);
    return (json_is_integer(found) && *value >= 0) ||
           refuse(parser, "%s is not a whole number from 0", key);
}

static bool descriptor(struct parser *parser, json_t *object, const char *what, int *fd) {
    int64_t position;
    if (!json_is_object(object)) {
        return refuse(parser, "%s is not an object", what);
    }
    if (!number(parser, object, "fd", -1, &position)) {
        return false;
    }
    if (position < 0 || position >= (int64_t)parser->record->count) {
        return refuse(parser, "%s has no descriptor", what);
    }
    if ((parser->named >> position & 1) != 0) {
        return refuse(parser, "a descriptor is named twice");
    }
    parser->named |= (uint64_t)1 << position;
    *fd = parser->record->fds[position];
    return true;
}

/* An object of texts, which may be absent. */
static bool texts(struct parser *parser, json_t *object, const char *name, json_t **found) {
    *found = field(object, name);
    if (*found == NULL) {
        return true;
    }
    if (!json_is_object(*found)) {
        return refuse(parser, "%s is not an object", name);
    }
    const char *key;
    json_t *value;
    json_object_foreach(*found, key, value) {
        if (!json_is_string(value)) {
            return refuse(parser, "%s.%.100s is not text", name, key);
        }
    }
    return true;
}

static bool parse_seekable(struct parser *parser, json_t *object, struct input *input) {
    json_t *seekable = field(object, "seekable");
    const char *name = json_is_string(seekable) ? json_string_value(seekable) : "";
    input->seekable = strcmp(name, "file") == 0    ? SEEKABLE_FILE
                      : strcmp(name, "reads") == 0 ? SEEKABLE_READS
                                                   : NOT_SEEKABLE;
    if (seekable == NULL) {
        return true;
    }
    if (input->seekable == NOT_SEEKABLE) {
        return refuse(parser, "seekable is none of file, reads");
    }
    if (!number(parser, object, "size", -1, &input->size)) {
        return false;
    }
    if (input->size < 0) {
        return refuse(parser, "seekable needs a size");
    }
    return (input->start < 0 && input->end < 0) || refuse(parser, "seekable has a range");
}

static bool parse_input(struct parser *parser, json_t *object, struct input *input) {
    if (!descriptor(parser, object, "an input", &input->fd) ||
        !number(parser, object, "start", -1, &input->start) ||
        !number(parser, object, "end", -1, &input->end) ||
        !parse_seekable(parser, object, input) ||
        !texts(parser, object, "metadata", &input->metadata)) {
        return false;
    }
    if (input->end >= 0 && input->start < 0) {
        input->start = 0;
    }
    return input->end < 0 || input->end >= input->start ||
           refuse(parser, "an input ends before it starts");
}

int64_t bytes_of(const struct input *input) {
    int64_t before_last = input->end - input->start;
    return input->end < 0 || before_last == INT64_MAX ? INT64_MAX : before_last + 1;
}

static bool parse_inputs(struct parser *parser, json_t *fields, struct invocation *invocation) {
    json_t *inputs = field(fields, "inputs");
    if (!json_is_array(inputs) || json_array_size(inputs) == 0) {
        return refuse(parser, "inputs is not a list of one or more");
    }
    if (json_array_size(inputs) > parser->record->count) {
        return refuse(parser, "there are more inputs than descriptors");
    }
    invocation->input_count = json_array_size(inputs);
    for (size_t i = 0; i < invocation->input_count; i++) {
        if (!parse_input(parser, json_array_get(inputs, i), &invocation->inputs[i])) {
            return false;
        }
    }
    return true;
}

/* The output and the further ones. */
static bool parse_outputs(struct parser *parser, json_t *fields, struct invocation *invocation) {
    json_t *further = field(fields, "further_outputs");
    if (!descriptor(parser, field(fields, "output"), "output", &invocation->outputs[0])) {
        return false;
    }
    invocation->output_count = 1;
    if (further == NULL) {
        return true;
    }
    if (!json_is_array(further)) {
        return refuse(parser, "further_outputs is not a list");
    }
    if (json_array_size(further) > parser->record->count) {
        return refuse(parser, "there are more outputs than descriptors");
    }
    for (size_t i = 0; i < json_array_size(further); i++) {
        int *output = &invocation->outputs[invocation->output_count];
        if (!descriptor(parser, json_array_get(further, i), "a further output", output)) {
            return false;
        }
        invocation->output_count++;
    }
    return true;
}

static bool parse_log(struct parser *parser, json_t *fields, struct invocation *invocation) {
    json_t *log = field(fields, "log");
    invocation->log = -1;
    if (log == NULL) {
        return true;
    }
    if (!descriptor(parser, log, "log", &invocation->log) ||
        !number(parser, log, "limit", -1, &invocation->log_limit)) {
        return false;
    }
    return invocation->log_limit >= 0 || refuse(parser, "log.limit is missing");
}

static bool parse_limits(struct parser *parser, json_t *fields, struct invocation *invocation) {
    json_t *limits = field(fields, "limits");
    int64_t bytes = METADATA_DEFAULT;
    if (limits != NULL && !json_is_object(limits)) {
        return refuse(parser, "limits is not an object");
    }
    if (limits != NULL && !number(parser, limits, "metadata_bytes", METADATA_DEFAULT, &bytes)) {
        return false;
    }
    /* 0 means no limit of its own. */
    invocation->metadata_max = bytes == 0 || bytes > METADATA_MAX ? METADATA_MAX : (size_t)bytes;
    return true;
}

static bool parse_services(struct parser *parser, json_t *fields, struct invocation *invocation) {
    json_t *services = field(fields, "services");
    invocation->services = -1;
    if (services == NULL) {
        return true;
    }
    if (!descriptor(parser, services, "services", &invocation->services)) {
        return false;
    }
    json_t *operations = field(services, "operations");
    if (!json_is_array(operations)) {
        return refuse(parser, "services.operations is not a list");
    }
    size_t index;
    json_t *operation;
    json_array_foreach(operations, index, operation) {
        if (!json_is_string(operation)) {
            return refuse(parser, "services.operations[%zu] is not text", index);
        }
    }
    invocation->operations = operations;
    return true;
}

static bool parse_secrets(struct parser *parser, json_t *fields, struct invocation *invocation) {
    const char *name;
    json_t *value;
    if (!texts(parser, fields, "secrets", &invocation->secrets)) {
        return false;
    }
    if (json_object_size(invocation->secrets) > SECRETS_MAX) {
        return refuse(parser, "more than %d secrets", SECRETS_MAX);
    }
    json_object_foreach(invocation->secrets, name, value) {
        if (!is_base64(json_string_value(value))) {
            return refuse(parser, "secrets.%.100s is not base64", name);
        }
    }
    return true;
}

static bool parse_head(struct parser *parser, json_t *fields, struct invocation *invocation) {
    json_t *type = field(fields, "type");
    json_t *version = field(fields, "v");
    json_t *id = field(fields, "id");
    if (!json_is_string(type) || strcmp(json_string_value(type), "invoke") != 0) {
        return refuse(parser, "the first message is not an invocation");
    }
    if (!json_is_integer(version) || json_integer_value(version) != 1) {
        return refuse(parser, "unknown version of the protocol, this is 1");
    }
    if (!json_is_string(id) || json_string_length(id) == 0 ||
        strlen(json_string_value(id)) != json_string_length(id)) {
        return refuse(parser, "id is not text of at least one character");
    }
    invocation->id = json_string_value(id);
    return true;
}

/* The JSON object of a record, which the caller owns; NULL with a fault if it has none. */
json_t *object_of(const struct record *record, size_t flags, char fault[SUMMARY_MAX]) {
    if (record->is_cut) {
        snprintf(fault, SUMMARY_MAX, "more than %d bytes or %d descriptors in a message",
                 MESSAGE_MAX, DESCRIPTORS_MAX);
        return NULL;
    }
    json_error_t error;
    json_t *fields = json_loadb(record->data, record->size, flags, &error);
    if (fields == NULL) {
        snprintf(fault, SUMMARY_MAX, "not JSON: %.100s", error.text);
        return NULL;
    }
    if (!json_is_object(fields)) {
        snprintf(fault, SUMMARY_MAX, "not a JSON object");
    } else if (depth_of(fields, 1) > DEPTH_MAX) {
        snprintf(fault, SUMMARY_MAX, "nested deeper than %d levels", DEPTH_MAX);
    } else {
        return fields;
    }
    json_decref(fields);
    return NULL;
}

static bool parse(struct parser *parser, struct invocation *invocation) {
    const struct record *record = parser->record;
    json_t *fields = object_of(record, JSON_ALLOW_NUL, parser->fault);
    invocation->fields = fields;
    if (fields == NULL) {
        return false;
    }
    if (!parse_head(parser, fields, invocation) ||
        !texts(parser, fields, "parameters", &invocation->parameters) ||
        !parse_inputs(parser, fields, invocation) ||
        !parse_outputs(parser, fields, invocation) || !parse_log(parser, fields, invocation) ||
        !parse_limits(parser, fields, invocation) ||
        !parse_services(parser, fields, invocation) ||
        !parse_secrets(parser, fields, invocation)) {
        return false;
    }
    uint64_t all = ((uint64_t)1 << record->count) - 1;
    return parser->named == all || refuse(parser, "a descriptor is not named");
}

/* On RECEIVED the invocation owns the descriptors; `fault` is set on RECEIVED_FAULT. */
enum received receive_invocation(int connection, struct invocation *invocation,
                                 char fault[SUMMARY_MAX]) {
    static struct record record;
    memset(invocation, 0, sizeof *invocation);
    fault[0] = '\0';
    if (!receive_record(connection, &record, FIRST_MESSAGE_MILLISECONDS)) {
        return RECEIVED_NOTHING;
    }
    struct parser parser = {.record = &record, .fault = fault};
    if (parse(&parser, invocation)) {
        return RECEIVED;
    }
    close_descriptors(&record);
    json_decref(invocation->fields);
    return RECEIVED_FAULT;
}

static void close_one(int *fd) {
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

void close_invocation(struct invocation *invocation) {
    for (size_t i = 0; i < invocation->input_count; i++) {
        close_one(&invocation->inputs[i].fd);
    }
    for (size_t i = 0; i < invocation->output_count; i++) {
        close_one(&invocation->outputs[i]);
    }
    close_one(&invocation->log);
    close_one(&invocation->services);
    json_decref(invocation->fields);
}

/* --- sending -----------------------------------------------------------------------------------
 */

bool send_data(int socket, const char *data, size_t size) {
    ssize_t sent;
    do {
        sent = send(socket, data, size, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

bool send_all(int socket, const void *data, size_t size) {
    const char *rest = data;
    while (size > 0) {
        ssize_t count = send(socket, rest, size, MSG_NOSIGNAL);
        if (count < 0 && errno != EINTR) {
            return false;
        }
        if (count > 0) {
            rest += count;
            size -= (size_t)count;
        }
    }
    return true;
}

bool send_text(int socket, const char *text) {
    return send_data(socket, text, strlen(text));
}

/* Takes ownership of `fields`. */
static bool send_fields(int socket, json_t *fields) {
    char *text = fields == NULL ? NULL : json_dumps(fields, JSON_COMPACT);
    bool is_sent = text != NULL && strlen(text) <= MESSAGE_MAX && send_text(socket, text);
    free(text);
    json_decref(fields);
    return is_sent;
}

bool send_load_failed(int channel, const struct outcome *outcome) {
    return send_fields(channel, json_pack("{ss so so}", "type", "load_failed", "message",
                                          clean_text(outcome->message, strlen(outcome->message)),
                                          "traceback",
                                          clean_text(outcome->detail, strlen(outcome->detail))));
}

/*
 * The kernel limits descriptors in flight per user: another storlet of the account can use them up.
 * Return true if the message should be sent again: for at most five seconds.
 */
static bool pause_for_room(int *refusals) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 5 * 1000 * 1000};
    nanosleep(&pause, NULL);
    return ++*refusals < REFUSALS_MAX;
}

static bool send_with_descriptor(int socket, char *data, size_t size, int fd) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    ssize_t sent;
    int refusals = 0;
    do {
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (sent < 0 && (errno == EINTR || (errno == ETOOMANYREFS && pause_for_room(&refusals))));
    return sent >= 0;
}

bool send_begin(int channel, const char *id, int connection) {
    json_t *fields = json_pack("{ss ss}", "type", "begin", "id", id);
    char *text = fields == NULL ? NULL : json_dumps(fields, JSON_COMPACT);
    bool is_sent = text != NULL && send_with_descriptor(channel, text, strlen(text), connection);
    free(text);
    json_decref(fields);
    return is_sent;
}

bool send_end(int channel, bool recycle, bool failed) {
    char text[64];
    snprintf(text, sizeof text, "{\"type\":\"end\",\"recycle\":%s,\"failed\":%s}",
             recycle ? "true" : "false", failed ? "true" : "false");
    return send_text(channel, text);
}

static json_t *text_of(json_t *value) {
    if (json_is_string(value)) {
        return json_incref(value);
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_t *made = text == NULL ? NULL : json_string(text);
    free(text);
    return made;
}

/* Numbers, truth values, lists and objects become text; a key without a value is left out. */
static json_t *texts_of(json_t *metadata) {
    json_t *made = json_object();
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (!json_is_null(value)) {
            json_object_set_new(made, key, text_of(value));
        }
    }
    return made;
}

/* Send the metadata of an output; NULL stands for none. False: it failed, and the outcome is set.
 */
bool send_metadata(struct run *run, size_t output, json_t *metadata) {
    json_t *sent = texts_of(metadata);
    char *text = json_dumps(sent, JSON_COMPACT);
    size_t size = text == NULL ? 0 : strlen(text);
    size_t max = run->invocation->metadata_max;
    free(text);
    if (size > max) {
        json_decref(sent);
        fail(&run->outcome, CODE_LIMIT_METADATA, "the metadata has %zu bytes, more than %zu", size,
             max);
        return false;
    }
    run->has_metadata[output] = true;
    /* If the filter has gone, the supervisor ends this process. */
    send_fields(run->connection, json_pack("{ss si so}", "type", "metadata", "output",
                                           (int)output, "metadata", sent));
    return true;
}

bool send_done(int connection, const struct outcome *outcome, const struct usage *usage) {
    json_t *fields =
        json_pack("{ss ss}", "type", "done", "outcome", outcome->code == NULL ? "ok" : "error");
    if (outcome->code != NULL) {
        char line[2 * SUMMARY_MAX];
        one_line(outcome->message, strlen(outcome->message), line, sizeof line);
        json_object_set_new(fields, "code", json_string(outcome->code));
        json_object_set_new(fields, "message", clean_text(line, strlen(line)));
        if (outcome->detail[0] != '\0') {
            json_object_set_new(fields, "traceback",
                                clean_text(outcome->detail, strlen(outcome->detail)));
        }
    }
    if (usage != NULL) {
        json_t *used = json_pack("{sf sI}", "cpu_seconds", (double)usage->cpu_microseconds / 1e6,
                                 "peak_memory_bytes", (json_int_t)usage->peak_bytes);
        if (usage->input_bytes >= 0) {
            json_object_set_new(used, "input_bytes", json_integer(usage->input_bytes));
        }
        json_object_set_new(fields, "usage", used);
    }
    return send_fields(connection, fields);
}
