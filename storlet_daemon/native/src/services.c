/*
 * The way of a run to the store: requests and replies on the socket that came with the invocation.
 *
 * Threads of a storlet may send requests at the same time. One of those that wait reads the socket,
 * and hands each reply to the request that it is for. A reply is checked completely before any part
 * of it is used. One that is not valid ends the way to the store, and the run fails.
 *
 * A request is in the list from its sending until its owner drops it. So each reply belongs to a
 * request of the list, or to a stream that was dropped before its end.
 */
#define _GNU_SOURCE
#include "services.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NO_SERVICES                                                                                \
    "this run has no services: the storlet does not declare X-Object-Meta-Storlet-Services, or "   \
    "the request is allowed by a signature only"

static struct {
    pthread_mutex_t lock; /* of all that follows; not held while a thread waits */
    pthread_cond_t changed;
    struct storlet_run *run; /* NULL between runs */
    pid_t process;
    int socket;
    json_t *operations;
    int64_t last; /* the id of the last request */
    struct request *requests;
    size_t users; /* threads within an operation */
    bool is_reading;
    bool is_gone; /* no reply will come any more */
    bool has_exceeded;
    char fault[SUMMARY_MAX]; /* of a reply; empty: none */
} store = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .socket = -1};

/* Held from the choice of an id until its request is sent: ids arrive in their order. */
static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;

/* --- failures ----------------------------------------------------------------------------------
 */

void explain_failure(struct storlet_error *failure, int number, const char *code, int status,
                     const char *format, ...) {
    char text[2 * SUMMARY_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    failure->number = number;
    failure->status = status;
    failure->storlet[0] = '\0';
    snprintf(failure->code, sizeof failure->code, "%s", code);
    one_line(text, strlen(text), failure->message, sizeof failure->message);
}

static int number_of(const char *code, int64_t status) {
    if (strcmp(code, CODE_LIMIT_SERVICES) == 0 || strcmp(code, CODE_LIMIT_OUTPUT) == 0) {
        return ENOBUFS;
    }
    if (strcmp(code, CODE_SERVICE_CHANGED) == 0) {
        return ESTALE;
    }
    if (strcmp(code, CODE_BAD_REQUEST) == 0) {
        return EINVAL;
    }
    switch (status) {
    case 401:
    case 403:
        return EACCES;
    case 404:
        return ENOENT;
    case 429:
        return EAGAIN;
    default:
        return status >= 500 ? EAGAIN : EREMOTEIO;
    }
}

/* The failure that a reply reports. */
static void refused(json_t *reply, struct storlet_error *failure) {
    const char *code = json_string_value(field(reply, "code"));
    int64_t status = json_integer_value(field(reply, "status"));
    const char *storlet = json_string_value(field(reply, "storlet"));
    explain_failure(failure, storlet != NULL ? EREMOTEIO : number_of(code, status), code,
                    (int)status, "%s", json_string_value(field(reply, "message")));
    snprintf(failure->storlet, sizeof failure->storlet, "%s", storlet != NULL ? storlet : "");
}

static void note_exceeded(const struct storlet_error *failure) {
    if (failure->number == ENOBUFS) {
        pthread_mutex_lock(&store.lock);
        store.has_exceeded = true;
        pthread_mutex_unlock(&store.lock);
    }
}

static void gone(struct storlet_error *failure) {
    explain_failure(failure, EAGAIN, CODE_SERVICE_GONE, 503,
                    "the store does not answer: the run is being ended");
}

/* With the lock. */
static void distrust(const char *fault) {
    if (store.fault[0] == '\0') {
        snprintf(store.fault, sizeof store.fault, "%s", fault);
    }
    store.is_gone = true;
}

void services_distrust(const char *fault, struct storlet_error *failure) {
    pthread_mutex_lock(&store.lock);
    distrust(fault);
    pthread_cond_broadcast(&store.changed);
    pthread_mutex_unlock(&store.lock);
    explain_failure(failure, EIO, CODE_SERVICE_GONE, 503, "the store's reply is not valid: %s",
                    fault);
}

/* --- replies -----------------------------------------------------------------------------------
 */

static bool is_count(json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool is_text_or_absent(json_t *object, const char *key) {
    json_t *value = field(object, key);
    return value == NULL || json_is_string(value);
}

static bool are_facts(json_t *facts) {
    const char *key;
    json_t *value;
    json_t *metadata = field(facts, "metadata");
    json_t *size = field(facts, "size");
    if (facts == NULL) {
        return true;
    }
    if (!json_is_object(facts) || !(metadata == NULL || json_is_object(metadata)) ||
        !(size == NULL || is_count(size)) || !is_text_or_absent(facts, "etag") ||
        !is_text_or_absent(facts, "content_type") || !is_text_or_absent(facts, "last_modified")) {
        return false;
    }
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value)) {
            return false;
        }
    }
    return true;
}

static bool is_opened(json_t *reply) {
    json_t *has_more = field(reply, "has_more");
    return are_facts(field(reply, "facts")) && (has_more == NULL || json_is_boolean(has_more));
}

static bool is_described(json_t *reply) {
    return are_facts(field(reply, "facts"));
}

static bool is_performed(json_t *reply) {
    (void)reply;
    return true;
}

static bool is_end(json_t *reply) {
    return is_count(field(reply, "bytes"));
}

static bool is_failure(json_t *reply) {
    json_t *status = field(reply, "status");
    return json_string_length(field(reply, "code")) > 0 &&
           json_is_string(field(reply, "message")) && is_text_or_absent(reply, "storlet") &&
           is_count(status) &&
           json_integer_value(status) <= 999;
}

enum place { OF_FEED, OF_ANSWER, OF_END, OF_EITHER };

static const struct kind {
    const char *type;
    enum place place;
    enum answer answer; /* of OF_ANSWER: to requests of this kind */
    size_t descriptors;
    bool (*is_valid)(json_t *reply);
} kinds[] = {
    {"feeding", OF_FEED, ANSWER_STREAM, 1, is_performed},
    {"opened", OF_ANSWER, ANSWER_STREAM, 1, is_opened},
    {"created", OF_ANSWER, ANSWER_SINK, 1, is_performed},
    {"described", OF_ANSWER, ANSWER_FACTS, 0, is_described},
    {"performed", OF_ANSWER, ANSWER_NOTHING, 0, is_performed},
    {"ended", OF_END, ANSWER_STREAM, 0, is_end},
    {"failed", OF_EITHER, ANSWER_STREAM, 0, is_failure},
};

static const struct kind *kind_of(json_t *reply) {
    const char *type = json_string_value(field(reply, "type"));
    for (size_t i = 0; type != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].type, type) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

static struct request *find(int64_t id) {
    struct request *request = store.requests;
    while (request != NULL && request->id != id) {
        request = request->next;
    }
    return request;
}

/* The text is a fault of the reply, NULL if it is valid. With the lock. */
static const char *deliver(json_t *reply, struct record *record) {
    const struct kind *kind = kind_of(reply);
    json_t *number = field(reply, "id");
    if (kind == NULL) {
        return "unknown type";
    }
    if (!is_count(number) || !kind->is_valid(reply)) {
        return "a key is missing, or is of another type";
    }
    if (record->count != kind->descriptors) {
        return "the wrong number of descriptors";
    }
    int64_t id = json_integer_value(number);
    struct request *request = find(id);
    if (request == NULL) {
        bool is_of_dropped_stream =
            (kind->place == OF_END || kind->place == OF_EITHER) && id > 0 && id <= store.last;
        return is_of_dropped_stream ? NULL : "a reply to no request";
    }
    bool is_first = !request->is_begun;
    request->is_begun = true;
    if (kind->place == OF_FEED) {
        if (request->feed == NULL || !is_first) {
            return "a reply to another kind of request";
        }
        request->feeding = record->fds[0];
        record->count = 0;
        return NULL;
    }
    if (!request->is_answered && kind->place != OF_END) {
        if (kind->place == OF_ANSWER &&
            (kind->answer != request->kind || (request->feed != NULL && is_first))) {
            return "a reply to another kind of request";
        }
        request->answer = json_incref(reply);
        if (record->count == 1) {
            request->fd = record->fds[0];
            record->count = 0;
        }
        request->is_answered = true;
        return NULL;
    }
    if (!request->is_answered || request->is_ended || kind->place == OF_ANSWER ||
        request->kind != ANSWER_STREAM) {
        return "two replies to one request";
    }
    request->end = json_incref(reply);
    request->is_ended = true;
    return NULL;
}

/* Receive one reply. With the lock, which is released while this thread waits. */
static void receive_reply(void) {
    static struct record record; /* of the one thread that reads */
    char fault[SUMMARY_MAX] = "";
    int socket = store.socket;
    store.is_reading = true;
    pthread_mutex_unlock(&store.lock);
    bool is_there = receive_record(socket, &record, -1);
    json_t *reply = is_there ? object_of(&record, 0, fault) : NULL;
    pthread_mutex_lock(&store.lock);
    if (!is_there) {
        store.is_gone = true;
    } else {
        const char *found = reply == NULL ? fault : deliver(reply, &record);
        if (found != NULL) {
            distrust(found);
        }
        close_descriptors(&record);
        json_decref(reply);
    }
    store.is_reading = false;
    pthread_cond_broadcast(&store.changed);
}

/* Wait until `flag` is set; false if that will not happen. */
static bool wait_for(const bool *flag) {
    pthread_mutex_lock(&store.lock);
    while (!*flag && !store.is_gone) {
        if (store.is_reading) {
            pthread_cond_wait(&store.changed, &store.lock);
        } else {
            receive_reply();
        }
    }
    bool is_set = *flag;
    pthread_mutex_unlock(&store.lock);
    return is_set;
}

/* --- requests ----------------------------------------------------------------------------------
 */

static const char *service_of(const char *operation) {
    static const char *const table[][2] = {
        {"open", "read"},          {"stat", "read"},  {"list", "list"},
        {"set_metadata", "write"}, {"copy", "write"}, {"delete", "delete"},
        {"create", "write"},       {"close", "write"}, {"discard", "write"},
        {"call", "call"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i][0], operation) == 0) {
            return table[i][1];
        }
    }
    return operation;
}

static bool require_declared(const char *operation, struct storlet_error *failure) {
    const char *service = service_of(operation);
    char declared[SUMMARY_MAX] = "";
    size_t used = 0;
    size_t index;
    json_t *each;
    if (store.socket < 0) {
        explain_failure(failure, EACCES, CODE_SERVICE_NONE, 403, "%s", NO_SERVICES);
        return false;
    }
    json_array_foreach(store.operations, index, each) {
        const char *name = json_string_value(each);
        if (strcmp(name, service) == 0) {
            return true;
        }
        if (used + strlen(name) + 3 < sizeof declared) {
            used += (size_t)snprintf(declared + used, sizeof declared - used, "%s%s",
                                     used > 0 ? ", " : "", name);
        }
    }
    explain_failure(failure, EACCES, CODE_SERVICE_UNDECLARED, 403,
                    "%s needs the service %s; the storlet declares %s", operation, service,
                    declared);
    return false;
}

static void link_request(struct request *request) {
    pthread_mutex_lock(&store.lock);
    request->id = ++store.last;
    request->next = store.requests;
    store.requests = request;
    pthread_mutex_unlock(&store.lock);
}

/* With `sending`. */
static bool send_request(struct request *request, const char *operation, json_t *fields,
                         struct storlet_error *failure) {
    bool is_whole = json_object_set_new(fields, "type", json_string(operation)) == 0 &&
                    json_object_set_new(fields, "id", json_integer(store.last + 1)) == 0;
    char *text = is_whole ? json_dumps(fields, JSON_COMPACT) : NULL;
    if (text == NULL) {
        explain_failure(failure, ENOMEM, "", 0, "no memory for the request");
        return false;
    }
    size_t size = strlen(text);
    bool fits = size <= MESSAGE_MAX;
    bool is_sent = false;
    if (fits) {
        link_request(request);
        is_sent = send_data(store.socket, text, size);
    }
    free(text);
    if (!fits) {
        explain_failure(failure, EINVAL, CODE_BAD_REQUEST, 400,
                        "%s: a request of %zu bytes, more than %d", operation, size, MESSAGE_MAX);
    } else if (!is_sent) {
        gone(failure);
    }
    return is_sent;
}

bool services_send(struct request *request, const char *operation, json_t *fields,
                   struct storlet_error *failure) {
    bool is_sent = false;
    request->id = 0;
    request->is_begun = request->is_answered = request->is_ended = false;
    request->fd = request->feeding = -1;
    request->taken = 0;
    request->answer = request->end = NULL;
    if (require_declared(operation, failure)) {
        pthread_mutex_lock(&sending);
        is_sent = send_request(request, operation, fields, failure);
        pthread_mutex_unlock(&sending);
    }
    json_decref(fields);
    if (!is_sent) {
        note_exceeded(failure);
        services_drop(request);
    }
    return is_sent;
}

int services_feeding(struct request *request) {
    wait_for(&request->is_begun);
    int fd = request->feeding;
    request->feeding = -1;
    if (fd >= 0) {
        set_flags(fd, F_GETFL, F_SETFL, 0, O_NONBLOCK);
    }
    return fd;
}

bool services_await(struct request *request, struct storlet_error *failure) {
    bool is_answered = wait_for(&request->is_answered);
    if (!is_answered) {
        gone(failure);
    } else if (kind_of(request->answer)->place == OF_EITHER) {
        refused(request->answer, failure);
        is_answered = false;
    }
    if (!is_answered) {
        note_exceeded(failure);
        services_drop(request);
        return false;
    }
    if (request->fd >= 0) {
        set_flags(request->fd, F_GETFL, F_SETFL, 0, O_NONBLOCK);
    }
    return true;
}

bool services_ask(struct request *request, const char *operation, json_t *fields,
                  struct storlet_error *failure) {
    return services_send(request, operation, fields, failure) && services_await(request, failure);
}

/* The end of a stream: false with a failure if it is not complete. */
static bool verify_end(struct request *request, struct storlet_error *failure) {
    if (!wait_for(&request->is_ended)) {
        gone(failure);
        return false;
    }
    if (kind_of(request->end)->place == OF_EITHER) {
        refused(request->end, failure);
        note_exceeded(failure);
        return false;
    }
    int64_t sent = json_integer_value(field(request->end, "bytes"));
    if (sent != request->taken) {
        explain_failure(failure, EIO, CODE_SERVICE_SHORT, 0, "%lld of %lld bytes arrived",
                        (long long)request->taken, (long long)sent);
        return false;
    }
    return true;
}

ssize_t services_read(struct request *request, void *buffer, size_t size,
                      struct storlet_error *failure) {
    if (request->fd < 0 || size == 0) {
        return 0;
    }
    ssize_t count;
    do {
        count = read(request->fd, buffer, size);
    } while (count < 0 && errno == EINTR);
    if (count > 0) {
        request->taken += count;
        return count;
    }
    if (count < 0) {
        explain_failure(failure, EIO, CODE_SERVICE_SHORT, 0, "reading the stream: %s",
                        strerror(errno));
        return -1;
    }
    if (!verify_end(request, failure)) {
        return -1;
    }
    close(request->fd);
    request->fd = -1;
    return 0;
}

void services_drop(struct request *request) {
    pthread_mutex_lock(&store.lock);
    for (struct request **at = &store.requests; *at != NULL; at = &(*at)->next) {
        if (*at == request) {
            *at = request->next;
            break;
        }
    }
    pthread_mutex_unlock(&store.lock);
    if (request->fd >= 0) {
        close(request->fd);
        request->fd = -1;
    }
    if (request->feeding >= 0) {
        close(request->feeding);
        request->feeding = -1;
    }
    json_decref(request->answer);
    json_decref(request->end);
    request->answer = request->end = NULL;
}

/* --- the run -----------------------------------------------------------------------------------
 */

void services_begin(struct storlet_run *run, int socket, json_t *operations) {
    pthread_mutex_lock(&store.lock);
    store.run = run;
    store.process = getpid();
    store.socket = socket;
    store.operations = operations;
    store.last = 0;
    store.is_gone = store.has_exceeded = false;
    store.fault[0] = '\0';
    pthread_mutex_unlock(&store.lock);
    if (socket >= 0) {
        set_flags(socket, F_GETFL, F_SETFL, 0, O_NONBLOCK);
    }
}

bool services_end(struct outcome *outcome) {
    pthread_mutex_lock(&store.lock);
    store.run = NULL;
    store.is_gone = true;
    if (store.socket >= 0) {
        shutdown(store.socket, SHUT_RDWR); /* a thread that still waits wakes up */
    }
    if (store.fault[0] != '\0' && outcome->code == NULL) {
        fail(outcome, CODE_FAILED, "the store's reply is not valid: %s", store.fault);
    }
    pthread_cond_broadcast(&store.changed);
    bool is_free = store.users == 0;
    pthread_mutex_unlock(&store.lock);
    if (!is_free || !objects_close()) {
        return false;
    }
    if (store.socket >= 0) {
        close(store.socket);
        store.socket = -1;
    }
    return true;
}

bool services_have_exceeded(void) {
    return store.has_exceeded;
}

bool services_enter(struct storlet_run *run, struct storlet_error *failure) {
    bool is_open = false;
    /* A child that the storlet forked shares the socket, and would take replies of this process. */
    if (store.process == getpid()) {
        pthread_mutex_lock(&store.lock);
        is_open = run != NULL && store.run == run;
        store.users += is_open ? 1 : 0;
        pthread_mutex_unlock(&store.lock);
    }
    if (!is_open) {
        explain_failure(failure, EBADF, CODE_SERVICE_GONE, 0,
                        "the run has ended, or this is another process");
    }
    return is_open;
}

void services_leave(void) {
    pthread_mutex_lock(&store.lock);
    store.users--;
    pthread_mutex_unlock(&store.lock);
}
