/*
 * The services of storlet.h: files, facts, calls and changes, each by requests of request.c.
 *
 * A file begins with one stream of the whole object or part. After a seek, ranges of the version
 * that was opened are requested, each further one longer, up to AHEAD_MAX.
 *
 * A pointer of a storlet is only used if it is in the list of open files or of known facts.
 */
#define _GNU_SOURCE
#include "request.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Read-ahead of the first request after a seek, and of the last. */
#define AHEAD 65536
#define AHEAD_MAX (8 << 20)
/* A seek forward by at most this distance reads on; a longer one is a new request. */
#define SKIP (256 * 1024)

/* Facts of an object, with the reply that holds their texts. `api` comes first. */
struct facts {
    struct storlet_object api;
    struct facts *next;
    json_t *reply;
};

struct file {
    struct storlet_file api;
    struct file *next;
    struct facts facts;
    char *path;
    bool is_busy;
    bool is_closed;
    bool is_created; /* it is written, and not read */
    struct storlet_error failure; /* `number` is not 0 after a failure: the file stays failed */
    struct request stream;
    bool has_stream;
    struct feed feed; /* the data of a call */
    int64_t first;    /* the offset of the file in the object */
    int64_t position; /* of the next read */
    int64_t reached;  /* where the stream is */
    int64_t end;      /* where the stream ends; -1: with the file */
    int64_t ahead;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of both lists and `is_busy` */
static struct file *files;
static struct facts *known;

static bool invalid(struct storlet_error *failure, const char *reason) {
    explain_failure(failure, EINVAL, CODE_BAD_REQUEST, 400, "%s", reason);
    return false;
}

/* --- facts -------------------------------------------------------------------------------------
 */

/* The facts of a reply, which they keep. False: no memory. */
static bool read_facts(struct facts *facts, json_t *reply, struct storlet_error *failure) {
    json_t *fields = field(reply, "facts");
    json_t *bytes = field(fields, "size");
    facts->api = (struct storlet_object){
        .size = sizeof facts->api,
        .bytes = bytes == NULL ? -1 : json_integer_value(bytes),
        .etag = json_string_value(field(fields, "etag")),
        .content_type = json_string_value(field(fields, "content_type")),
        .last_modified = json_string_value(field(fields, "last_modified")),
    };
    facts->api.metadata =
        fields_of(field(fields, "metadata"), NULL, NULL, &facts->api.metadata_count);
    facts->reply = json_incref(reply);
    return facts->api.metadata != NULL || explain_no_memory(failure);
}

static void release_facts(struct facts *facts) {
    free((void *)facts->api.metadata);
    json_decref(facts->reply);
}

/* A request whose answer is facts; `feed` may be NULL. Returns 0 or -1. */
static int facts_by(struct storlet_run *run, const char *operation, json_t *fields,
                    struct feed *feed, const struct storlet_object **object,
                    struct storlet_error *error) {
    struct storlet_error failure = STORLET_ERROR;
    struct request request = {.kind = ANSWER_FACTS, .feed = feed};
    if (!services_enter(run, &failure)) {
        json_decref(fields);
        return give_failure(error, &failure);
    }
    struct facts *facts = NULL;
    if (store_ask(&request, operation, fields, &failure)) {
        facts = calloc(1, sizeof *facts);
        bool is_read = facts == NULL ? explain_no_memory(&failure)
                                     : read_facts(facts, request.answer, &failure);
        if (facts != NULL && !is_read) {
            release_facts(facts);
            free(facts);
            facts = NULL;
        }
        services_drop(&request);
        if (feed != NULL) {
            feed_end(feed);
        }
    }
    if (facts != NULL) {
        pthread_mutex_lock(&lock);
        facts->next = known;
        known = facts;
        pthread_mutex_unlock(&lock);
        *object = &facts->api;
    }
    services_leave();
    return facts != NULL ? 0 : give_failure(error, &failure);
}

static int stat_object(struct storlet_run *run, const char *path,
                       const struct storlet_object **object, struct storlet_error *error) {
    json_t *fields = json_object();
    fields_put_name(&fields, "path", path);
    return facts_by(run, "stat", fields, NULL, object, error);
}

static void forget_object(struct storlet_run *run, const struct storlet_object *object) {
    struct storlet_error failure = STORLET_ERROR;
    struct facts *found = NULL;
    if (!services_enter(run, &failure)) {
        return;
    }
    pthread_mutex_lock(&lock);
    for (struct facts **at = &known; *at != NULL; at = &(*at)->next) {
        if (&(*at)->api == object) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (found != NULL) {
        release_facts(found);
        free(found);
    }
    services_leave();
}

/* --- files -------------------------------------------------------------------------------------
 */

static void drop_stream(struct file *file) {
    if (file->has_stream) {
        services_drop(&file->stream);
        file->has_stream = false;
    }
}

static void free_file(struct file *file) {
    drop_stream(file);
    if (!feed_end(&file->feed)) {
        return;
    }
    release_facts(&file->facts);
    free(file->path);
    free(file);
}

/* Open the bytes from `start` to `end` of the object; -1: without this bound. */
static bool open_stream(struct file *file, int64_t start, int64_t end,
                        struct storlet_error *failure) {
    json_t *fields = json_object();
    fields_put_name(&fields, "path", file->path);
    if (start >= 0) {
        fields_put(&fields, "start", json_integer(start));
    }
    if (end >= 0) {
        fields_put(&fields, "end", json_integer(end));
    }
    if (file->facts.api.etag != NULL) {
        fields_put_text(&fields, "etag", file->facts.api.etag);
    }
    file->stream.kind = ANSWER_STREAM;
    file->has_stream = store_ask(&file->stream, "open", fields, failure);
    return file->has_stream;
}

static bool open_first(struct file *file, const char *path, const void *given,
                       struct storlet_error *failure) {
    const struct storlet_range *range = given;
    if (path == NULL || (range != NULL && (range->first < 0 || range->last < -1))) {
        return invalid(failure, path == NULL ? "the path is NULL" : "the range is negative");
    }
    file->path = strdup(path);
    if (file->path == NULL) {
        return explain_no_memory(failure);
    }
    int64_t last = range == NULL ? -1 : range->last;
    if (!open_stream(file, range == NULL ? -1 : range->first, last, failure) ||
        !read_facts(&file->facts, file->stream.answer, failure)) {
        return false;
    }
    file->first = range == NULL ? 0 : range->first;
    file->end = -1;
    file->ahead = AHEAD;
    return true;
}

static const struct storlet_file *enlist(struct file *file) {
    file->api = (struct storlet_file){.size = sizeof file->api, .object = &file->facts.api};
    pthread_mutex_lock(&lock);
    file->next = files;
    files = file;
    pthread_mutex_unlock(&lock);
    return &file->api;
}

/* The first request of a file, with what the storlet has given for it. False with a failure. */
typedef bool first_request(struct file *file, const char *path, const void *given,
                           struct storlet_error *failure);

/* A new file, which begins with `first`. Returns 0 or -1. */
static int new_file(struct storlet_run *run, first_request *first, const char *path,
                    const void *given, const struct storlet_file **made,
                    struct storlet_error *error) {
    struct storlet_error failure = STORLET_ERROR;
    if (!services_enter(run, &failure)) {
        return give_failure(error, &failure);
    }
    struct file *file = calloc(1, sizeof *file);
    bool is_open = file == NULL ? explain_no_memory(&failure) : first(file, path, given, &failure);
    if (is_open) {
        *made = enlist(file);
    } else if (file != NULL) {
        free_file(file);
    }
    services_leave();
    return is_open ? 0 : give_failure(error, &failure);
}

static int open_object(struct storlet_run *run, const char *path, const struct storlet_range *range,
                       const struct storlet_file **file, struct storlet_error *error) {
    return new_file(run, open_first, path, range, file, error);
}

/* The file of a storlet's pointer, which this thread then uses; NULL with a failure. */
static struct file *take(const struct storlet_file *given, bool is_created,
                         struct storlet_error *failure) {
    pthread_mutex_lock(&lock);
    struct file *file = files;
    while (file != NULL && &file->api != given) {
        file = file->next;
    }
    if (file == NULL || file->is_closed || file->is_created != is_created) {
        explain_failure(failure, EBADF, CODE_BAD_REQUEST, 400, "the file is not open for this");
        file = NULL;
    } else if (file->is_busy) {
        explain_failure(failure, EBUSY, CODE_BAD_REQUEST, 400, "another thread uses the file");
        file = NULL;
    } else {
        file->is_busy = true;
    }
    pthread_mutex_unlock(&lock);
    return file;
}

/* This thread uses the file no longer; frees one that was closed. */
static void give_back(struct file *file) {
    bool is_closed;
    pthread_mutex_lock(&lock);
    file->is_busy = false;
    is_closed = file->is_closed;
    for (struct file **at = &files; is_closed && *at != NULL; at = &(*at)->next) {
        if (*at == file) {
            *at = file->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (is_closed) {
        free_file(file);
    }
}

/* One operation of a storlet on a file. */
struct use {
    /* -1: with a failure. */
    int64_t (*act)(struct file *file, const struct use *use, struct storlet_error *failure);
    bool is_created;   /* it is for created files; without, for those that are read */
    bool is_final;     /* the file stays failed after a failure of it */
    bool takes_failed; /* it is performed on a file that has failed, too */
    void *buffer;
    const char *data;
    size_t size;
    int64_t offset;
    int whence;
};

/* The result of the operation; -1 with a failure. */
static int64_t use_file(struct storlet_run *run, const struct storlet_file *given,
                        const struct use *use, struct storlet_error *error) {
    struct storlet_error failure = STORLET_ERROR;
    int64_t result = -1;
    if (!services_enter(run, &failure)) {
        return give_failure(error, &failure);
    }
    struct file *file = take(given, use->is_created, &failure);
    if (file != NULL) {
        if (file->failure.number != 0 && !use->takes_failed) {
            failure = file->failure;
        } else {
            result = use->act(file, use, &failure);
        }
        if (result < 0 && use->is_final) {
            file->failure = failure;
        }
        give_back(file);
    }
    services_leave();
    return result >= 0 ? result : give_failure(error, &failure);
}

static void close_object(struct storlet_run *run, const struct storlet_file *given) {
    struct storlet_error failure = STORLET_ERROR;
    if (!services_enter(run, &failure)) {
        return;
    }
    struct file *mine = NULL;
    pthread_mutex_lock(&lock);
    for (struct file *file = files; file != NULL; file = file->next) {
        if (&file->api == given && !file->is_closed && !file->is_created) {
            file->is_closed = true; /* a thread that uses it frees it */
            mine = file->is_busy ? NULL : file;
        }
    }
    pthread_mutex_unlock(&lock);
    if (mine != NULL) {
        give_back(mine);
    }
    services_leave();
}

static bool can_seek(const struct file *file) {
    return file->facts.api.bytes >= 0 && file->facts.api.etag != NULL;
}

/* Read over `distance` bytes of the stream. False with a failure. */
static bool skip(struct file *file, int64_t distance, struct storlet_error *failure) {
    char buffer[16384];
    while (distance > 0) {
        size_t part = distance < (int64_t)sizeof buffer ? (size_t)distance : sizeof buffer;
        ssize_t count = services_read(&file->stream, buffer, part, failure);
        if (count < 0) {
            return false;
        }
        if (count == 0) {
            drop_stream(file);
            return true;
        }
        distance -= count;
        file->reached += count;
    }
    return true;
}

/* Have a stream at the position. False with a failure. */
static bool move(struct file *file, size_t wanted, struct storlet_error *failure) {
    int64_t distance = file->position - file->reached;
    int64_t bytes = file->facts.api.bytes;
    if (file->has_stream && distance != 0) {
        bool is_near = distance > 0 && distance <= SKIP &&
                       (file->end < 0 || file->position < file->end);
        if (!is_near) {
            drop_stream(file);
            file->ahead = AHEAD;
        } else if (!skip(file, distance, failure)) {
            return false;
        }
    }
    if (file->has_stream) {
        return true;
    }
    int64_t length = (int64_t)wanted > file->ahead ? (int64_t)wanted : file->ahead;
    file->ahead = 2 * file->ahead < AHEAD_MAX ? 2 * file->ahead : AHEAD_MAX;
    file->end = length < bytes - file->position ? file->position + length : bytes;
    file->reached = file->position;
    return open_stream(file, file->first + file->position, file->first + file->end - 1, failure);
}

static ssize_t read_some(struct file *file, void *buffer, size_t size,
                         struct storlet_error *failure) {
    int64_t bytes = file->facts.api.bytes;
    for (;;) {
        bool is_past_end = bytes >= 0 && file->position >= bytes;
        if (size == 0 || (is_past_end && (!file->has_stream || file->position != file->reached))) {
            return 0;
        }
        if (!move(file, size, failure)) {
            return -1;
        }
        ssize_t count = services_read(&file->stream, buffer, size, failure);
        if (count != 0) {
            file->position += count > 0 ? count : 0;
            file->reached = file->position;
            return count;
        }
        int64_t end = file->end < 0 ? bytes : file->end;
        if (end >= 0 && file->position != end) {
            explain_failure(failure, EIO, CODE_SERVICE_SHORT, 0, "%lld of %lld bytes arrived",
                            (long long)file->position, (long long)end);
            return -1;
        }
        if (file->end < 0 || file->end == bytes) {
            return 0;
        }
        drop_stream(file); /* the end of a part that was read ahead */
    }
}

static int64_t read_at_position(struct file *file, const struct use *use,
                                struct storlet_error *failure) {
    size_t size = use->size < SSIZE_MAX / 2 ? use->size : SSIZE_MAX / 2;
    ssize_t count = read_some(file, use->buffer, size, failure);
    if (count < 0) {
        feed_explain(&file->feed, failure);
    }
    return count;
}

static ssize_t read_object(struct storlet_run *run, const struct storlet_file *file, void *buffer,
                           size_t size, struct storlet_error *error) {
    struct use use = {.act = read_at_position, .is_final = true, .buffer = buffer, .size = size};
    return use_file(run, file, &use, error);
}

static int64_t seek_to(struct file *file, const struct use *use, struct storlet_error *failure) {
    int64_t base = use->whence == SEEK_CUR ? file->position : 0;
    int64_t position;
    if (!can_seek(file)) {
        explain_failure(failure, ESPIPE, "", 0, "the result of a storlet cannot seek");
        return -1;
    }
    if (use->whence == SEEK_END) {
        base = file->facts.api.bytes;
    } else if (use->whence != SEEK_SET && use->whence != SEEK_CUR) {
        invalid(failure, "whence is not SEEK_SET, SEEK_CUR or SEEK_END");
        return -1;
    }
    if (__builtin_add_overflow(base, use->offset, &position) || position < 0) {
        invalid(failure, "the position is negative or too large");
        return -1;
    }
    file->position = position;
    return position;
}

static int64_t seek_object(struct storlet_run *run, const struct storlet_file *file, int64_t offset,
                           int whence, struct storlet_error *error) {
    struct use use = {.act = seek_to, .takes_failed = true, .offset = offset, .whence = whence};
    return use_file(run, file, &use, error);
}

/* --- created objects ---------------------------------------------------------------------------
 */

static bool create_first(struct file *file, const char *path, const void *given,
                         struct storlet_error *failure) {
    const struct storlet_creation *asked = given;
    struct storlet_creation creation = STORLET_CREATION;
    json_t *fields = json_object();
    if (asked != NULL) {
        memcpy(&creation, asked, asked->size < sizeof creation ? asked->size : sizeof creation);
    }
    fields_put_name(&fields, "path", path);
    fields_put_if_any(&fields, "content_type", creation.content_type);
    if (creation.metadata_count > 0) {
        fields_put_texts(&fields, "metadata", creation.metadata, creation.metadata_count);
    }
    if (creation.delete_after < 0) {
        fields_refuse(&fields, "delete_after", "from 0");
    } else if (creation.delete_after > 0) {
        fields_put(&fields, "delete_after", json_integer(creation.delete_after));
    }
    file->is_created = true;
    file->stream.kind = ANSWER_SINK;
    file->has_stream = store_ask(&file->stream, "create", fields, failure);
    return file->has_stream && read_facts(&file->facts, file->stream.answer, failure);
}

static int create_object(struct storlet_run *run, const char *path,
                         const struct storlet_creation *creation, const struct storlet_file **file,
                         struct storlet_error *error) {
    return new_file(run, create_first, path, creation, file, error);
}

/* `close` or `discard` of a created file. False with a failure. */
static bool end_created(struct file *file, const char *operation, struct storlet_error *failure) {
    struct request request = {.kind = ANSWER_NOTHING};
    json_t *fields = json_object();
    fields_put(&fields, "file", json_integer(file->stream.id));
    if (strcmp(operation, "close") == 0) {
        fields_put(&fields, "bytes", json_integer(file->position));
    }
    if (!store_ask(&request, operation, fields, failure)) {
        return false;
    }
    services_drop(&request);
    return true;
}

static bool require_unfinished(const struct file *file, struct storlet_error *failure) {
    if (file->stream.fd < 0) {
        explain_failure(failure, EBADF, CODE_BAD_REQUEST, 400, "the file is finished already");
        return false;
    }
    return true;
}

static void close_sink(struct file *file) {
    if (file->stream.fd >= 0) {
        close(file->stream.fd);
        file->stream.fd = -1;
    }
}

/* All was written: report it to the store, and close the stream. */
static int64_t finish_created(struct file *file, const struct use *use,
                              struct storlet_error *failure) {
    (void)use;
    if (!require_unfinished(file, failure)) {
        return -1;
    }
    shutdown(file->stream.fd, SHUT_WR);
    bool is_done = end_created(file, "close", failure);
    close_sink(file);
    return is_done ? 0 : -1;
}

static int64_t write_created(struct file *file, const struct use *use,
                             struct storlet_error *failure) {
    const char *data = use->data;
    if (!require_unfinished(file, failure)) {
        return -1;
    }
    for (size_t left = use->size; left > 0;) {
        ssize_t count = write(file->stream.fd, data, left);
        if (count < 0 && errno != EINTR) {
            /* The reason is the answer to "close". */
            if (finish_created(file, use, failure) == 0) {
                explain_failure(failure, EAGAIN, CODE_SERVICE_GONE, 503,
                                "the store takes no more bytes");
            }
            return -1;
        }
        if (count > 0) {
            data += count;
            left -= (size_t)count;
            file->position += count;
        }
    }
    return 0;
}

static int64_t discard_created(struct file *file, const struct use *use,
                               struct storlet_error *failure) {
    (void)use;
    close_sink(file);
    bool is_done = end_created(file, "discard", failure);
    pthread_mutex_lock(&lock);
    file->is_closed = true;
    pthread_mutex_unlock(&lock);
    return is_done ? 0 : -1;
}

static int write_object(struct storlet_run *run, const struct storlet_file *file, const void *data,
                        size_t size, struct storlet_error *error) {
    struct use use = {.act = write_created, .is_created = true, .is_final = true};
    use.data = data;
    use.size = size;
    return (int)use_file(run, file, &use, error);
}

static int finish_object(struct storlet_run *run, const struct storlet_file *file,
                         struct storlet_error *error) {
    struct use use = {.act = finish_created, .is_created = true};
    return (int)use_file(run, file, &use, error);
}

static int discard_object(struct storlet_run *run, const struct storlet_file *file,
                          struct storlet_error *error) {
    struct use use = {.act = discard_created, .is_created = true, .takes_failed = true};
    return (int)use_file(run, file, &use, error);
}

/* --- calls -------------------------------------------------------------------------------------
 */

static void put_ranges(json_t **fields, const struct storlet_call *call) {
    json_t *ranges = json_array();
    for (size_t i = 0; i < call->range_count; i++) {
        json_t *range = json_object();
        if (call->ranges[i].first < 0) {
            fields_refuse(fields, "ranges", "from 0");
        }
        fields_put(&range, "start", json_integer(call->ranges[i].first));
        if (call->ranges[i].last >= 0) {
            fields_put(&range, "end", json_integer(call->ranges[i].last));
        }
        json_array_append_new(ranges, range);
    }
    fields_put(fields, "ranges", ranges);
}

/* The call of a storlet, which may have been compiled with an older header. */
static struct storlet_call read_call(const struct storlet_call *given) {
    struct storlet_call call = STORLET_CALL;
    memcpy(&call, given, given->size < sizeof call ? given->size : sizeof call);
    return call;
}

static bool has_data(const struct storlet_call *call) {
    return call->data != NULL || call->read_data != NULL;
}

static struct feed feed_of(const struct storlet_call *call) {
    return (struct feed){.data = call->data,
                         .size = call->data_size,
                         .read_data = call->read_data,
                         .context = call->context};
}

static json_t *fields_of_call(const struct storlet_call *call, const char *output) {
    json_t *fields = json_object();
    fields_put_name(&fields, "storlet", call->storlet);
    if (!has_data(call)) {
        fields_put_name(&fields, "path", call->path);
    } else if (call->path != NULL || (call->data != NULL && call->read_data != NULL)) {
        fields_refuse(&fields, "data", "the one input: set path, data or read_data");
    }
    if (call->parameter_count > 0) {
        fields_put_texts(&fields, "parameters", call->parameters, call->parameter_count);
    }
    if (call->range_count > 0) {
        put_ranges(&fields, call);
    }
    if (output != NULL) {
        fields_put_name(&fields, "output", output);
    }
    return fields;
}

static bool call_first(struct file *file, const char *path, const void *given,
                       struct storlet_error *failure) {
    struct storlet_call call = read_call(given);
    (void)path;
    file->stream.kind = ANSWER_STREAM;
    if (has_data(&call)) {
        file->feed = feed_of(&call);
        file->stream.feed = &file->feed;
    }
    file->has_stream = store_ask(&file->stream, "call", fields_of_call(&call, NULL), failure);
    if (!file->has_stream || !read_facts(&file->facts, file->stream.answer, failure)) {
        return false;
    }
    file->facts.api.etag = NULL; /* no part of a result can be read again */
    file->end = -1;
    return true;
}

static int call_storlet(struct storlet_run *run, const struct storlet_call *call,
                        const struct storlet_file **result, struct storlet_error *error) {
    return new_file(run, call_first, NULL, call, result, error);
}

static int call_storlet_into(struct storlet_run *run, const struct storlet_call *given,
                             const char *output, const struct storlet_object **object,
                             struct storlet_error *error) {
    struct storlet_call call = read_call(given);
    struct feed feed = feed_of(&call);
    return facts_by(run, "call", fields_of_call(&call, output == NULL ? "" : output),
                    has_data(&call) ? &feed : NULL, object, error);
}

/* --- changes -----------------------------------------------------------------------------------
 */

static int change_metadata(struct storlet_run *run, const char *path,
                           const struct storlet_field *changes, size_t count,
                           struct storlet_error *error) {
    json_t *fields = json_object();
    fields_put_name(&fields, "path", path);
    fields_put_texts(&fields, "changes", changes, count);
    return store_perform(run, "set_metadata", fields, error);
}

static int copy_object(struct storlet_run *run, const char *source, const char *target,
                       struct storlet_error *error) {
    json_t *fields = json_object();
    fields_put_name(&fields, "source", source);
    fields_put_name(&fields, "target", target);
    return store_perform(run, "copy", fields, error);
}

static int remove_object(struct storlet_run *run, const char *path, struct storlet_error *error) {
    json_t *fields = json_object();
    fields_put_name(&fields, "path", path);
    return store_perform(run, "delete", fields, error);
}

/* --- the run -----------------------------------------------------------------------------------
 */

const struct storlet_services store_functions = {
    .size = sizeof store_functions,
    .open = open_object,
    .read = read_object,
    .seek = seek_object,
    .close = close_object,
    .stat = stat_object,
    .forget = forget_object,
    .list = list_container,
    .set_metadata = change_metadata,
    .copy = copy_object,
    .remove = remove_object,
    .create = create_object,
    .write = write_object,
    .finish = finish_object,
    .discard = discard_object,
    .call = call_storlet,
    .call_into = call_storlet_into,
};

/* No thread is in an operation any more. */
bool objects_close(void) {
    bool is_over = true;
    while (files != NULL) {
        struct file *file = files;
        files = file->next;
        drop_stream(file);
        if (feed_end_of_run(&file->feed)) {
            free_file(file);
        } else {
            is_over = false; /* its thread has the memory until this process is replaced */
        }
    }
    while (known != NULL) {
        struct facts *facts = known;
        known = facts->next;
        release_facts(facts);
        free(facts);
    }
    return is_over;
}
