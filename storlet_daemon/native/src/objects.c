/*
 * The services of storlet.h: files, facts, listings and changes, each by requests of services.c.
 *
 * A file begins with one stream of the whole object or part. After a seek, ranges of the version
 * that was opened are requested, each further one longer, up to AHEAD_MAX.
 *
 * A pointer of a storlet is only used if it is in the list of open files or of known facts.
 */
#define _GNU_SOURCE
#include "services.h"

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
/* More than any page of a listing has. */
#define PAGE_BYTES (16 << 20)

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

/* --- failures ----------------------------------------------------------------------------------
 */

/* Give a failure to the storlet, whose structure may be an older one. Returns -1. */
static int give(struct storlet_error *error, const struct storlet_error *failure) {
    if (error != NULL) {
        uint32_t size = error->size;
        memcpy(error, failure, size < sizeof *failure ? size : sizeof *failure);
        error->size = size;
    }
    errno = failure->number;
    return -1;
}

static bool no_memory(struct storlet_error *failure) {
    explain_failure(failure, ENOMEM, "", 0, "the worker has no memory");
    return false;
}

static bool invalid(struct storlet_error *failure, const char *reason) {
    explain_failure(failure, EINVAL, "bad_request", 400, "%s", reason);
    return false;
}

/* --- requests ----------------------------------------------------------------------------------
 */

/* The fields of a request are a JSON object; with a wrong argument they become a text that says so,
 * and without memory NULL. */
static void refuse(json_t **fields, const char *key, const char *what) {
    if (json_is_object(*fields)) {
        json_decref(*fields);
        *fields = json_sprintf("%.100s is not %s", key, what);
    }
}

/* Add a value, which is given away. */
static void put(json_t **fields, const char *key, json_t *value) {
    if (!json_is_object(*fields)) {
        json_decref(value);
    } else if (json_object_set_new(*fields, key, value) != 0) {
        refuse(fields, key, "text in UTF-8");
    }
}

static void put_text(json_t **fields, const char *key, const char *text) {
    put(fields, key, text == NULL ? NULL : json_string(text));
}

/* A text that must have a character: the store ends a run whose requests are not valid. */
static void put_name(json_t **fields, const char *key, const char *text) {
    if (text == NULL || text[0] == '\0') {
        refuse(fields, key, "text of at least one character");
    } else {
        put_text(fields, key, text);
    }
}

static void put_text_if_any(json_t **fields, const char *key, const char *text) {
    if (text != NULL && text[0] != '\0') {
        put_text(fields, key, text);
    }
}

static void put_texts(json_t **fields, const char *key, const struct storlet_field *given,
                      size_t count) {
    json_t *texts = json_object();
    for (size_t i = 0; i < count; i++) {
        const char *value = given[i].value;
        put_text(&texts, given[i].name == NULL ? "" : given[i].name, value == NULL ? "" : value);
    }
    if (json_is_object(texts) || !json_is_object(*fields)) {
        put(fields, key, texts);
    } else {
        json_decref(*fields);
        *fields = texts;
    }
}

/* As services_ask, for a call on data, which is given before the answer. */
static bool ask_feeding(struct request *request, const char *operation, json_t *fields,
                        struct storlet_error *failure) {
    if (!services_send(request, operation, fields, failure)) {
        return false;
    }
    int fd = services_feeding(request);
    if (fd >= 0) {
        feed_begin(request->feed, fd);
    }
    if (services_await(request, failure)) {
        return true;
    }
    feed_end(request->feed);
    feed_explain(request->feed, failure);
    return false;
}

/* As services_ask, with fields that may be a fault. */
static bool ask(struct request *request, const char *operation, json_t *fields,
                struct storlet_error *failure) {
    if (json_is_object(fields)) {
        return request->feed == NULL ? services_ask(request, operation, fields, failure)
                                     : ask_feeding(request, operation, fields, failure);
    }
    if (fields == NULL) {
        return no_memory(failure);
    }
    explain_failure(failure, EINVAL, "bad_request", 400, "%s: %s", operation,
                    json_string_value(fields));
    json_decref(fields);
    return false;
}

/* A request whose answer is that it was performed. Returns 0 or -1. */
static int perform(struct storlet_run *run, const char *operation, json_t *fields,
                   struct storlet_error *error) {
    struct storlet_error failure = STORLET_ERROR;
    struct request request = {.kind = ANSWER_NOTHING};
    if (!services_enter(run, &failure)) {
        json_decref(fields);
        return give(error, &failure);
    }
    bool is_done = ask(&request, operation, fields, &failure);
    if (is_done) {
        services_drop(&request);
    }
    services_leave();
    return is_done ? 0 : give(error, &failure);
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
    return facts->api.metadata != NULL || no_memory(failure);
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
        return give(error, &failure);
    }
    struct facts *facts = NULL;
    if (ask(&request, operation, fields, &failure)) {
        facts = calloc(1, sizeof *facts);
        bool is_read = facts == NULL ? no_memory(&failure)
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
    return facts != NULL ? 0 : give(error, &failure);
}

static int stat_object(struct storlet_run *run, const char *path,
                       const struct storlet_object **object, struct storlet_error *error) {
    json_t *fields = json_object();
    put_name(&fields, "path", path);
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
    put_name(&fields, "path", file->path);
    if (start >= 0) {
        put(&fields, "start", json_integer(start));
    }
    if (end >= 0) {
        put(&fields, "end", json_integer(end));
    }
    if (file->facts.api.etag != NULL) {
        put_text(&fields, "etag", file->facts.api.etag);
    }
    file->stream.kind = ANSWER_STREAM;
    file->has_stream = ask(&file->stream, "open", fields, failure);
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
        return no_memory(failure);
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
        return give(error, &failure);
    }
    struct file *file = calloc(1, sizeof *file);
    bool is_open = file == NULL ? no_memory(&failure) : first(file, path, given, &failure);
    if (is_open) {
        *made = enlist(file);
    } else if (file != NULL) {
        free_file(file);
    }
    services_leave();
    return is_open ? 0 : give(error, &failure);
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
        explain_failure(failure, EBADF, "bad_request", 400, "the file is not open for this");
        file = NULL;
    } else if (file->is_busy) {
        explain_failure(failure, EBUSY, "bad_request", 400, "another thread uses the file");
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
        return give(error, &failure);
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
    return result >= 0 ? result : give(error, &failure);
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
            explain_failure(failure, EIO, "services.short", 0, "%lld of %lld bytes arrived",
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

/* --- listings ----------------------------------------------------------------------------------
 */

struct listing {
    struct storlet_query query;
    const char *container;
    json_t *page;      /* the last one; NULL before the first */
    const char *after; /* the last name of it, or the marker */
    int64_t left;      /* entries that are still wanted; -1: all */
    bool has_more;
    bool is_over; /* the storlet wants no more */
};

static json_t *fields_of_listing(const struct listing *listing) {
    json_t *fields = json_object();
    put_name(&fields, "container", listing->container);
    put_text_if_any(&fields, "prefix", listing->query.prefix);
    put_text_if_any(&fields, "delimiter", listing->query.delimiter);
    put_text_if_any(&fields, "marker", listing->after);
    put_text_if_any(&fields, "end_marker", listing->query.end_marker);
    if (listing->query.reverse != 0) {
        put(&fields, "reverse", json_true());
    }
    if (listing->left > 0) {
        put(&fields, "limit", json_integer(listing->left));
    }
    return fields;
}

/* All bytes of a stream, which the caller frees; NULL with a failure. */
static char *read_all(struct request *stream, size_t *size, struct storlet_error *failure) {
    size_t capacity = 65536;
    char *data = malloc(capacity);
    *size = 0;
    while (data != NULL) {
        ssize_t count = services_read(stream, data + *size, capacity - *size, failure);
        if (count == 0) {
            return data;
        }
        *size += count > 0 ? (size_t)count : 0;
        bool is_full = *size == capacity;
        if (count < 0 || (is_full && capacity >= PAGE_BYTES)) {
            if (count > 0) {
                services_distrust("a page of a listing is too long", failure);
            }
            free(data);
            return NULL;
        }
        if (is_full) {
            char *grown = realloc(data, capacity *= 2);
            if (grown == NULL) {
                free(data);
            }
            data = grown;
        }
    }
    no_memory(failure);
    return NULL;
}

static bool is_text(json_t *value) {
    return value == NULL || json_is_string(value);
}

/* Swift writes an empty text for what it does not know. */
static const char *text_of(json_t *value) {
    return json_string_length(value) > 0 ? json_string_value(value) : NULL;
}

/* False: it is no entry of a listing. */
static bool read_entry(json_t *found, struct storlet_entry *entry) {
    json_t *prefix = field(found, "subdir");
    json_t *name = prefix != NULL ? prefix : field(found, "name");
    json_t *bytes = field(found, "bytes");
    json_t *etag = field(found, "hash");
    json_t *type = field(found, "content_type");
    json_t *modified = field(found, "last_modified");
    if (!json_is_string(name) || !(bytes == NULL || json_is_integer(bytes)) || !is_text(etag) ||
        !is_text(type) || !is_text(modified)) {
        return false;
    }
    *entry = (struct storlet_entry){.size = sizeof *entry,
                                    .is_prefix = prefix != NULL,
                                    .name = json_string_value(name),
                                    .bytes = bytes == NULL ? -1 : json_integer_value(bytes),
                                    .etag = text_of(etag),
                                    .content_type = text_of(type),
                                    .last_modified = text_of(modified)};
    return true;
}

/* Replace the page by the next one. False with a failure. */
static bool next_page(struct listing *listing, struct storlet_error *failure) {
    struct request request = {.kind = ANSWER_STREAM};
    if (!ask(&request, "list", fields_of_listing(listing), failure)) {
        return false;
    }
    size_t size;
    char *data = read_all(&request, &size, failure);
    listing->has_more = json_is_true(field(request.answer, "has_more"));
    services_drop(&request);
    if (data == NULL) {
        return false;
    }
    json_error_t error;
    json_t *page = json_loadb(data, size, 0, &error);
    free(data);
    if (!json_is_array(page)) {
        json_decref(page);
        services_distrust("a page of a listing is no list in JSON", failure);
        return false;
    }
    json_decref(listing->page);
    listing->page = page;
    return true;
}

/* Give the entries of the page to the storlet. False with a failure. */
static bool give_entries(struct listing *listing,
                         int (*each)(void *context, const struct storlet_entry *entry),
                         void *context, struct storlet_error *failure) {
    size_t index;
    json_t *found;
    json_array_foreach(listing->page, index, found) {
        struct storlet_entry entry;
        if (!read_entry(found, &entry)) {
            services_distrust("an entry of a listing has no name", failure);
            return false;
        }
        listing->after = entry.name;
        listing->is_over = each(context, &entry) != 0;
        if (listing->is_over || (listing->left > 0 && --listing->left == 0)) {
            listing->is_over = true;
            return true;
        }
    }
    return true;
}

static bool list_all(struct listing *listing,
                     int (*each)(void *context, const struct storlet_entry *entry), void *context,
                     struct storlet_error *failure) {
    do {
        if (!next_page(listing, failure) || !give_entries(listing, each, context, failure)) {
            return false;
        }
    } while (!listing->is_over && listing->has_more && json_array_size(listing->page) > 0);
    return true;
}

static int list_container(struct storlet_run *run, const char *container,
                          const struct storlet_query *query,
                          int (*each)(void *context, const struct storlet_entry *entry),
                          void *context, struct storlet_error *error) {
    struct storlet_error failure = STORLET_ERROR;
    struct listing listing = {.query = STORLET_QUERY, .container = container};
    if (query != NULL) {
        size_t size = query->size < sizeof listing.query ? query->size : sizeof listing.query;
        memcpy(&listing.query, query, size);
    }
    listing.after = listing.query.marker;
    listing.left = listing.query.limit > 0 ? listing.query.limit : -1;
    if (!services_enter(run, &failure)) {
        return give(error, &failure);
    }
    bool is_listed = list_all(&listing, each, context, &failure);
    json_decref(listing.page);
    services_leave();
    return is_listed ? 0 : give(error, &failure);
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
    put_name(&fields, "path", path);
    put_text_if_any(&fields, "content_type", creation.content_type);
    if (creation.metadata_count > 0) {
        put_texts(&fields, "metadata", creation.metadata, creation.metadata_count);
    }
    if (creation.delete_after < 0) {
        refuse(&fields, "delete_after", "from 0");
    } else if (creation.delete_after > 0) {
        put(&fields, "delete_after", json_integer(creation.delete_after));
    }
    file->is_created = true;
    file->stream.kind = ANSWER_SINK;
    file->has_stream = ask(&file->stream, "create", fields, failure);
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
    put(&fields, "file", json_integer(file->stream.id));
    if (strcmp(operation, "close") == 0) {
        put(&fields, "bytes", json_integer(file->position));
    }
    if (!ask(&request, operation, fields, failure)) {
        return false;
    }
    services_drop(&request);
    return true;
}

static bool require_unfinished(const struct file *file, struct storlet_error *failure) {
    if (file->stream.fd < 0) {
        explain_failure(failure, EBADF, "bad_request", 400, "the file is finished already");
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
                explain_failure(failure, EAGAIN, "services.gone", 503,
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
            refuse(fields, "ranges", "from 0");
        }
        put(&range, "start", json_integer(call->ranges[i].first));
        if (call->ranges[i].last >= 0) {
            put(&range, "end", json_integer(call->ranges[i].last));
        }
        json_array_append_new(ranges, range);
    }
    put(fields, "ranges", ranges);
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
    put_name(&fields, "storlet", call->storlet);
    if (!has_data(call)) {
        put_name(&fields, "path", call->path);
    } else if (call->path != NULL || (call->data != NULL && call->read_data != NULL)) {
        refuse(&fields, "data", "the one input: set path, data or read_data");
    }
    if (call->parameter_count > 0) {
        put_texts(&fields, "parameters", call->parameters, call->parameter_count);
    }
    if (call->range_count > 0) {
        put_ranges(&fields, call);
    }
    if (output != NULL) {
        put_name(&fields, "output", output);
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
    file->has_stream = ask(&file->stream, "call", fields_of_call(&call, NULL), failure);
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
    put_name(&fields, "path", path);
    put_texts(&fields, "changes", changes, count);
    return perform(run, "set_metadata", fields, error);
}

static int copy_object(struct storlet_run *run, const char *source, const char *target,
                       struct storlet_error *error) {
    json_t *fields = json_object();
    put_name(&fields, "source", source);
    put_name(&fields, "target", target);
    return perform(run, "copy", fields, error);
}

static int remove_object(struct storlet_run *run, const char *path, struct storlet_error *error) {
    json_t *fields = json_object();
    put_name(&fields, "path", path);
    return perform(run, "delete", fields, error);
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
