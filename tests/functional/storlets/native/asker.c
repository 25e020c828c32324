/*
 * A storlet that uses the store as the parameter `ask` says: asker.py in C, with the same outcomes.
 *
 * `ask` is a list in JSON: ["open", "/c/o"], ["seek", "/c/o", [[0, 10], [-5, 5]]], ... The output
 * is a list of the outcomes: ["ok", ...], or the name of Python's exception, its code and its text.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <storlet.h>

#include <tested.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

#define THREADS_MAX 64

typedef struct storlet_run run_t;

/* --- MD5 ---------------------------------------------------------------------------------------
 */

struct md5 {
    uint32_t state[4];
    uint64_t size;
    unsigned char block[64];
};

static void md5_block(struct md5 *sum) {
    static const unsigned char shifts[4][4] = {
        {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    static const uint32_t sines[64] = {
        0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613,
        0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193,
        0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d,
        0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
        0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122,
        0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
        0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244,
        0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
        0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb,
        0xeb86d391};
    uint32_t words[16];
    uint32_t a = sum->state[0], b = sum->state[1], c = sum->state[2], d = sum->state[3];
    memcpy(words, sum->block, sizeof words); /* little-endian machines only */
    for (unsigned i = 0; i < 64; i++) {
        unsigned round = i / 16;
        uint32_t mixed = round == 0   ? (b & c) | (~b & d)
                         : round == 1 ? (d & b) | (~d & c)
                         : round == 2 ? b ^ c ^ d
                                      : c ^ (b | ~d);
        unsigned word = round == 0   ? i
                        : round == 1 ? (5 * i + 1) % 16
                        : round == 2 ? (3 * i + 5) % 16
                                     : (7 * i) % 16;
        uint32_t turned = a + mixed + sines[i] + words[word];
        unsigned shift = shifts[round][i % 4];
        a = d;
        d = c;
        c = b;
        b += turned << shift | turned >> (32 - shift);
    }
    sum->state[0] += a;
    sum->state[1] += b;
    sum->state[2] += c;
    sum->state[3] += d;
}

static void md5_add(struct md5 *sum, const unsigned char *data, size_t size) {
    while (size > 0) {
        size_t at = sum->size % 64;
        size_t part = 64 - at < size ? 64 - at : size;
        memcpy(sum->block + at, data, part);
        sum->size += part;
        data += part;
        size -= part;
        if (sum->size % 64 == 0) {
            md5_block(sum);
        }
    }
}

static void md5_text(struct md5 *sum, char text[33]) {
    uint64_t bits = sum->size * 8;
    unsigned char length[8];
    memcpy(length, &bits, sizeof length);
    md5_add(sum, (const unsigned char *)"\x80", 1);
    while (sum->size % 64 != 56) {
        md5_add(sum, (const unsigned char *)"", 1);
    }
    md5_add(sum, length, sizeof length);
    const unsigned char *bytes = (const unsigned char *)sum->state;
    for (size_t i = 0; i < 16; i++) {
        sprintf(text + 2 * i, "%02x", bytes[i]);
    }
}

static struct md5 md5_begin(void) {
    return (struct md5){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
}

/* --- JSON --------------------------------------------------------------------------------------
 */

static json_t *text_or_null(const char *text) {
    return text == NULL ? json_null() : json_string(text);
}

static json_t *count_or_null(int64_t count) {
    return count < 0 ? json_null() : json_integer(count);
}

static json_t *latin_1(const unsigned char *data, size_t size) {
    char *text = malloc(2 * size + 1);
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        if (data[i] < 0x80) {
            text[used++] = (char)data[i];
        } else {
            text[used++] = (char)(0xc0 | data[i] >> 6);
            text[used++] = (char)(0x80 | (data[i] & 0x3f));
        }
    }
    json_t *made = json_stringn(text, used);
    free(text);
    return made;
}

static json_t *metadata_of(const struct storlet_object *object) {
    json_t *metadata = json_object();
    for (size_t i = 0; i < object->metadata_count; i++) {
        json_object_set_new(metadata, object->metadata[i].name,
                            json_string(object->metadata[i].value));
    }
    return metadata;
}

static json_t *facts_of(const struct storlet_object *object) {
    json_t *facts = json_object();
    json_object_set_new(facts, "metadata", metadata_of(object));
    json_object_set_new(facts, "size", count_or_null(object->bytes));
    json_object_set_new(facts, "etag", text_or_null(object->etag));
    json_object_set_new(facts, "content_type", text_or_null(object->content_type));
    json_object_set_new(facts, "last_modified", text_or_null(object->last_modified));
    return facts;
}

static size_t fields_of(json_t *texts, struct storlet_field fields[64]) {
    size_t count = 0;
    const char *key;
    json_t *value;
    json_object_foreach(texts, key, value) {
        if (count < 64) {
            fields[count++] = (struct storlet_field){key, json_string_value(value)};
        }
    }
    return count;
}

static const char *path_of(json_t *asked) {
    return json_string_value(json_array_get(asked, 1));
}

static const char *name_of(const struct storlet_error *error) {
    if (error->storlet[0] != '\0') {
        return "CallFailed";
    }
    switch (error->number) {
    case ENOENT:
        return "NotFound";
    case EACCES:
        return "Denied";
    case ESTALE:
        return "Changed";
    case ENOBUFS:
        return "LimitExceeded";
    case EAGAIN:
        return "Unavailable";
    case ECANCELED:
        return "OSError";
    case ESPIPE:
        return "UnsupportedOperation";
    default:
        return "ServiceError";
    }
}

/* --- reading -----------------------------------------------------------------------------------
 */

/* The MD5 of what is left of a file, and its first bytes. */
static int sum_up(run_t *run, const struct storlet_file *file, char text[33], unsigned char *head,
                  size_t *head_size, size_t *total, struct storlet_error *error) {
    unsigned char data[65536];
    struct md5 sum = md5_begin();
    ssize_t size;
    size_t kept = 0;
    while ((size = run->services->read(run, file, data, sizeof data, error)) > 0) {
        md5_add(&sum, data, (size_t)size);
        size_t part = (size_t)size < *head_size - kept ? (size_t)size : *head_size - kept;
        memcpy(head + kept, data, part);
        kept += part;
    }
    *head_size = kept;
    *total = sum.size;
    md5_text(&sum, text);
    return size < 0 ? -1 : 0;
}

static int do_open(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    json_t *span = json_array_get(asked, 2);
    json_t *last = json_array_get(span, 1);
    struct storlet_range range = {json_integer_value(json_array_get(span, 0)),
                                  json_is_integer(last) ? json_integer_value(last) : -1};
    const struct storlet_range *given = json_is_array(span) ? &range : NULL;
    unsigned char head[100];
    size_t head_size = sizeof head;
    size_t size;
    char sum[33];
    if (run->services->open(run, path_of(asked), given, &file, error) != 0 ||
        sum_up(run, file, sum, head, &head_size, &size, error) != 0) {
        return -1;
    }
    json_array_append_new(found, json_string(sum));
    json_array_append_new(found, count_or_null(file->object->bytes));
    json_array_append_new(found, text_or_null(file->object->etag));
    json_array_append_new(found, metadata_of(file->object));
    json_array_append_new(found, latin_1(head, head_size));
    run->services->close(run, file);
    return 0;
}

/* Up to `size` bytes at the position, until the end. */
static ssize_t read_fully(run_t *run, const struct storlet_file *file, unsigned char *data,
                          size_t size, struct storlet_error *error) {
    size_t used = 0;
    while (used < size) {
        ssize_t count = run->services->read(run, file, data + used, size - used, error);
        if (count <= 0) {
            return count < 0 ? -1 : (ssize_t)used;
        }
        used += (size_t)count;
    }
    return (ssize_t)used;
}

static int do_seek(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    size_t index;
    json_t *span;
    if (run->services->open(run, path_of(asked), NULL, &file, error) != 0) {
        return -1;
    }
    json_array_foreach(json_array_get(asked, 2), index, span) {
        unsigned char data[4096];
        int64_t start = json_integer_value(json_array_get(span, 0));
        size_t size = (size_t)json_integer_value(json_array_get(span, 1));
        int whence = start < 0 ? SEEK_END : SEEK_SET;
        if (run->services->seek(run, file, start, whence, error) < 0) {
            return -1;
        }
        ssize_t count = read_fully(run, file, data, size, error);
        if (count < 0) {
            return -1;
        }
        json_array_append_new(found, latin_1(data, (size_t)count));
    }
    run->services->close(run, file);
    return 0;
}

static int do_replaced(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    const struct storlet_object *now;
    const struct storlet_field opened = {"Opened", "yes"};
    unsigned char data[5];
    bool is_other = false;
    if (run->services->open(run, path_of(asked), NULL, &file, error) != 0 ||
        read_fully(run, file, data, sizeof data, error) < 0 ||
        run->services->set_metadata(run, json_string_value(json_array_get(asked, 3)), &opened, 1,
                                    error) != 0) {
        return -1;
    }
    json_array_append_new(found, latin_1(data, sizeof data));
    while (!is_other) {
        const struct timespec pause = {0, 50 * 1000 * 1000};
        nanosleep(&pause, NULL);
        if (run->services->stat(run, path_of(asked), &now, error) != 0) {
            return -1;
        }
        is_other = now->bytes != file->object->bytes;
        run->services->forget(run, now);
    }
    int64_t place = json_integer_value(json_array_get(asked, 2));
    if (run->services->seek(run, file, place, SEEK_SET, error) < 0 ||
        read_fully(run, file, data, sizeof data, error) < 0) {
        return -1;
    }
    json_array_append_new(found, latin_1(data, sizeof data));
    return 0;
}

static int do_stat(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_object *object;
    if (run->services->stat(run, path_of(asked), &object, error) != 0) {
        return -1;
    }
    json_array_append_new(found, facts_of(object));
    run->services->forget(run, object);
    return 0;
}

/* --- listings ----------------------------------------------------------------------------------
 */

static int note_entry(void *context, const struct storlet_entry *entry) {
    json_t *row = json_array();
    json_array_append_new(row, json_string(entry->name));
    json_array_append_new(row, count_or_null(entry->bytes));
    json_array_append_new(row, text_or_null(entry->etag));
    json_array_append_new(row, text_or_null(entry->content_type));
    json_array_append_new(row, text_or_null(entry->last_modified));
    json_array_append_new(row, json_boolean(entry->is_prefix));
    return json_array_append_new(context, row);
}

static int note_name(void *context, const struct storlet_entry *entry) {
    return json_array_append_new(context, json_string(entry->name));
}

static int list_into(run_t *run, json_t *asked, json_t *found,
                     int (*each)(void *context, const struct storlet_entry *entry),
                     struct storlet_error *error) {
    json_t *given = json_array_get(asked, 2);
    struct storlet_query query = STORLET_QUERY;
    json_t *entries = json_array();
    query.prefix = json_string_value(json_object_get(given, "prefix"));
    query.delimiter = json_string_value(json_object_get(given, "delimiter"));
    query.marker = json_string_value(json_object_get(given, "marker"));
    query.end_marker = json_string_value(json_object_get(given, "end_marker"));
    query.reverse = json_is_true(json_object_get(given, "reverse"));
    query.limit = json_integer_value(json_object_get(given, "limit"));
    int result = run->services->list(run, path_of(asked), &query, each, entries, error);
    json_array_append_new(found, entries);
    return result;
}

static int do_list(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    return list_into(run, asked, found, note_entry, error);
}

static int do_find(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    return list_into(run, asked, found, note_name, error);
}

/* --- changes -----------------------------------------------------------------------------------
 */

static int do_set(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    struct storlet_field changes[64];
    size_t count = fields_of(json_array_get(asked, 2), changes);
    (void)found;
    return run->services->set_metadata(run, path_of(asked), changes, count, error);
}

static int do_copy(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    (void)found;
    return run->services->copy(run, path_of(asked), json_string_value(json_array_get(asked, 2)),
                               error);
}

static int do_delete(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    (void)found;
    return run->services->remove(run, path_of(asked), error);
}

/* --- created objects ---------------------------------------------------------------------------
 */

static int do_create(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    const char *text = json_string_value(json_array_get(asked, 2));
    json_t *options = json_array_get(asked, 3);
    json_t *given = json_array_get(asked, 4);
    json_int_t times = json_is_integer(given) ? json_integer_value(given) : 1;
    struct storlet_field fields[64];
    struct storlet_creation creation = STORLET_CREATION;
    (void)found;
    creation.content_type = json_string_value(json_object_get(options, "content_type"));
    creation.metadata_count = fields_of(json_object_get(options, "metadata"), fields);
    creation.metadata = fields;
    creation.delete_after = json_integer_value(json_object_get(options, "delete_after"));
    size_t size = strlen(text);
    char *block = malloc(size * 65536 + 1);
    for (size_t i = 0; i < 65536; i++) {
        memcpy(block + i * size, text, size);
    }
    int result = run->services->create(run, path_of(asked), &creation, &file, error);
    while (result == 0 && times > 0) {
        json_int_t part = times < 65536 ? times : 65536;
        result = run->services->write(run, file, block, size * (size_t)part, error);
        times -= part;
    }
    free(block);
    return result == 0 ? run->services->finish(run, file, error) : result;
}

static int do_create_many(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *files[64];
    json_t *paths = json_array_get(asked, 1);
    const char *text = json_string_value(json_array_get(asked, 2));
    size_t count = json_array_size(paths);
    int result = 0;
    (void)found;
    for (size_t i = 0; i < count && result == 0; i++) {
        const char *path = json_string_value(json_array_get(paths, i));
        result = run->services->create(run, path, NULL, &files[i], error);
    }
    for (; *text != '\0' && result == 0; text++) {
        for (size_t i = 0; i < count && result == 0; i++) {
            result = run->services->write(run, files[i], text, 1, error);
        }
    }
    for (size_t i = 0; i < count && result == 0; i++) {
        result = run->services->finish(run, files[i], error);
    }
    return result;
}

static int do_leave(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    const char *text = json_string_value(json_array_get(asked, 2));
    const char *how = json_string_value(json_array_get(asked, 3));
    (void)found;
    if (run->services->create(run, path_of(asked), NULL, &file, error) != 0 ||
        run->services->write(run, file, text, strlen(text), error) != 0) {
        return -1;
    }
    if (strcmp(how, "closed and discarded") == 0 &&
        run->services->finish(run, file, error) != 0) {
        return -1;
    }
    if (strcmp(how, "discarded") == 0 || strcmp(how, "closed and discarded") == 0) {
        return run->services->discard(run, file, error);
    }
    if (strcmp(how, "exception") == 0) {
        struct storlet_error own = STORLET_ERROR;
        run->services->discard(run, file, NULL);
        own.number = ECANCELED;
        snprintf(own.message, sizeof own.message, "in the block");
        *error = own;
        return -1;
    }
    if (strcmp(how, "dropped") == 0) {
        run->services->close(run, file); /* closes no created object */
    }
    return 0;
}

/* Write until the store refuses more. */
static int do_refused(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    static const char block[65536];
    (void)found;
    if (run->services->create(run, path_of(asked), NULL, &file, error) != 0) {
        return -1;
    }
    while (run->services->write(run, file, block, sizeof block, error) == 0) {
    }
    if (json_is_true(json_array_get(asked, 2))) {
        run->services->discard(run, file, NULL);
    }
    return -1;
}

/* Report another number of bytes than were written, by a message of our own, and end after its
 * reply.  `create` is the first request of the run. */
static int do_lie(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    static const char text[] = "{\"type\":\"close\",\"id\":1000,\"file\":1,\"bytes\":2}";
    const struct storlet_file *file;
    (void)found;
    if (run->services->create(run, path_of(asked), NULL, &file, error) != 0 ||
        run->services->write(run, file, "abc", 3, error) != 0) {
        return -1;
    }
    struct pollfd reply = {services_socket(), POLLIN, 0};
    send(reply.fd, text, sizeof text - 1, MSG_NOSIGNAL);
    poll(&reply, 1, 60000);
    return 0;
}

/* Be killed while an object is being created. */
static int do_die_creating(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    static const char block[65536];
    json_int_t times = json_integer_value(json_array_get(asked, 2));
    (void)found;
    if (run->services->create(run, path_of(asked), NULL, &file, error) != 0) {
        return -1;
    }
    while (times-- > 0 && run->services->write(run, file, block, sizeof block, error) == 0) {
    }
    return kill(getpid(), SIGKILL);
}

/* --- calls -------------------------------------------------------------------------------------
 */

/* A call, and the room for its parts. */
struct asked_call {
    struct storlet_call call;
    struct storlet_field fields[64];
    struct storlet_range ranges[64];
};

static void read_call(json_t *asked, json_t *parameters, json_t *spans, struct asked_call *made) {
    size_t index;
    json_t *span;
    made->call = (struct storlet_call)STORLET_CALL;
    made->call.storlet = json_string_value(json_array_get(asked, 1));
    made->call.parameter_count = fields_of(parameters, made->fields);
    made->call.parameters = made->fields;
    made->call.ranges = made->ranges;
    json_array_foreach(spans, index, span) {
        json_t *last = json_array_get(span, 1);
        made->ranges[made->call.range_count++] =
            (struct storlet_range){json_integer_value(json_array_get(span, 0)),
                                   json_is_integer(last) ? json_integer_value(last) : -1};
    }
}

struct called {
    unsigned char head[5000];
    size_t head_size;
    size_t size;
    char sum[33];
};

/* The result of a call; MD5, size and metadata are added to `found`. */
static int read_result(run_t *run, const struct storlet_call *call, struct called *called,
                       json_t *found, const struct storlet_file **file,
                       struct storlet_error *error) {
    called->head_size = sizeof called->head;
    if (run->services->call(run, call, file, error) != 0 ||
        sum_up(run, *file, called->sum, called->head, &called->head_size, &called->size, error) !=
            0) {
        return -1;
    }
    json_array_append_new(found, json_string(called->sum));
    json_array_append_new(found, json_integer((json_int_t)called->size));
    json_array_append_new(found, metadata_of((*file)->object));
    return 0;
}

static int do_call(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    struct asked_call made;
    struct called called;
    read_call(asked, json_array_get(asked, 3), json_array_get(asked, 4), &made);
    made.call.path = json_string_value(json_array_get(asked, 2));
    if (read_result(run, &made.call, &called, found, &file, error) != 0) {
        return -1;
    }
    json_array_append_new(found, text_or_null(file->object->content_type));
    json_array_append_new(found, latin_1(called.head, called.head_size));
    run->services->close(run, file);
    return 0;
}

/* Data that is read piece by piece. */
struct source {
    const char *data;
    size_t left;
};

static ssize_t read_source(void *context, void *buffer, size_t size) {
    struct source *source = context;
    /* Pieces of another size than those that are sent. */
    size_t part = source->left < size - 7 ? source->left : size - 7;
    memcpy(buffer, source->data, part);
    source->data += part;
    source->left -= part;
    return (ssize_t)part;
}

/* Call a storlet on data, as bytes and by a function; both outputs. */
static int do_call_on(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    const char *text = json_string_value(json_array_get(asked, 2));
    size_t length = strlen(text);
    size_t times = (size_t)json_integer_value(json_array_get(asked, 3));
    char *whole = malloc(length * times + 1);
    for (size_t i = 0; i < times; i++) {
        memcpy(whole + i * length, text, length);
    }
    struct source source = {whole, length * times};
    struct asked_call made;
    struct called called;
    read_call(asked, json_array_get(asked, 4), json_array_get(asked, 5), &made);
    made.call.data = whole;
    made.call.data_size = length * times;
    int result = read_result(run, &made.call, &called, found, &file, error);
    if (result == 0) {
        run->services->close(run, file);
        made.call.data = NULL;
        made.call.read_data = read_source;
        made.call.context = &source;
        result = read_result(run, &made.call, &called, found, &file, error);
    }
    if (result == 0) {
        json_array_append_new(found, latin_1(called.head, called.head_size));
        run->services->close(run, file);
    }
    free(whole);
    return result;
}

static int store_result(run_t *run, const struct storlet_call *call, json_t *output, json_t *found,
                        struct storlet_error *error) {
    const struct storlet_object *object;
    if (run->services->call_into(run, call, json_string_value(output), &object, error) != 0) {
        return -1;
    }
    json_array_append_new(found, facts_of(object));
    return 0;
}

/* Call a storlet, and store its output. */
static int do_store(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    struct asked_call made;
    read_call(asked, json_array_get(asked, 4), json_array_get(asked, 5), &made);
    made.call.path = json_string_value(json_array_get(asked, 2));
    return store_result(run, &made.call, json_array_get(asked, 3), found, error);
}

static int do_store_on(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    struct asked_call made;
    read_call(asked, json_array_get(asked, 4), json_array_get(asked, 5), &made);
    made.call.data = json_string_value(json_array_get(asked, 2));
    made.call.data_size = strlen(made.call.data);
    return store_result(run, &made.call, json_array_get(asked, 3), found, error);
}

/* Read the first bytes of a result, and close it. */
static int do_head_of(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    struct asked_call made;
    unsigned char data[4096];
    struct storlet_field fields[] = {{"do", "flood"}, {"bytes", "50000000"}};
    read_call(asked, NULL, NULL, &made);
    made.call.path = json_string_value(json_array_get(asked, 2));
    made.call.parameters = fields;
    made.call.parameter_count = 2;
    size_t size = (size_t)json_integer_value(json_array_get(asked, 3));
    if (run->services->call(run, &made.call, &file, error) != 0) {
        return -1;
    }
    ssize_t count = read_fully(run, file, data, size, error);
    run->services->close(run, file);
    json_array_append_new(found, json_integer(count));
    return count < 0 ? -1 : 0;
}

static ssize_t read_and_die(void *context, void *buffer, size_t size) {
    int *pieces = context;
    if ((*pieces)++ > 0) {
        sleep(1);
        kill(getpid(), SIGKILL);
    }
    memset(buffer, 'x', size);
    return (ssize_t)size;
}

/* Be killed while the input of a called storlet is being written. */
static int do_cut(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    struct asked_call made;
    int pieces = 0;
    read_call(asked, NULL, NULL, &made);
    made.call.read_data = read_and_die;
    made.call.context = &pieces;
    return store_result(run, &made.call, json_array_get(asked, 2), found, error);
}

static ssize_t read_badly(void *context, void *buffer, size_t size) {
    (void)context, (void)buffer, (void)size;
    errno = EBADMSG;
    return -1;
}

/* Call a storlet on data that cannot be read to its end. */
static int do_broken(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    struct asked_call made;
    struct called called;
    read_call(asked, NULL, NULL, &made);
    made.call.read_data = read_badly;
    return read_result(run, &made.call, &called, found, &file, error);
}

/* Data without an end. */
struct endless {
    run_t *run;
    const char *how;
    const struct storlet_file *file; /* NULL until the result has begun */
    int pieces;
};

/* A byte in 50 ms; after the first one, none or the end of the result, if that is how. */
static ssize_t read_endless(void *context, void *buffer, size_t size) {
    struct endless *endless = context;
    (void)size;
    if (endless->pieces++ > 0 && strcmp(endless->how, "hang") == 0) {
        sleep(60);
    }
    if (endless->file != NULL && strcmp(endless->how, "close inside") == 0) {
        endless->run->services->close(endless->run, endless->file);
        endless->how = "closed";
    }
    usleep(50 * 1000);
    *(char *)buffer = 'x';
    return 1;
}

/* The first byte of a result on such data; then close it, leave it open, or leave the function. */
static int do_endless(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    const char *how = json_string_value(json_array_get(asked, 2));
    struct asked_call made;
    static volatile struct endless endless;
    char byte;
    endless = (struct endless){.run = run, .how = strdup(how)}; /* it outlives the run */
    read_call(asked, NULL, NULL, &made);
    made.call.read_data = read_endless;
    made.call.context = (void *)&endless;
    if (run->services->call(run, &made.call, &file, error) != 0 ||
        run->services->read(run, file, &byte, 1, error) < 0) {
        return -1;
    }
    json_array_append_new(found, json_stringn(&byte, 1));
    if (strcmp(how, "close") == 0) {
        run->services->close(run, file);
    }
    endless.file = file;
    while (strcmp(how, "close inside") == 0 && strcmp(endless.how, "closed") != 0) {
        usleep(1000);
    }
    return 0;
}

/* --- threads -----------------------------------------------------------------------------------
 */

struct part {
    run_t *run;
    const char *path;
    size_t number;
    int result;
    char sum[33];
    struct storlet_error error;
};

/* Run `work` in `count` threads; the first failure, if there is one. */
static int in_threads(run_t *run, json_t *asked, struct part *parts, void *(*work)(void *),
                      struct storlet_error *error) {
    pthread_t threads[THREADS_MAX];
    size_t count = (size_t)json_integer_value(json_array_get(asked, 2));
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        parts[i] = (struct part){run, path_of(asked), i, 0, "", STORLET_ERROR};
        pthread_create(&threads[i], NULL, work, &parts[i]);
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        if (parts[i].result != 0 && result == 0) {
            *error = parts[i].error;
            result = -1;
        }
    }
    return result;
}

static void *set_item(void *given) {
    struct part *part = given;
    char name[32];
    snprintf(name, sizeof name, "Item-%zu", part->number);
    const struct storlet_field change = {name, "x"};
    part->result =
        part->run->services->set_metadata(part->run, part->path, &change, 1, &part->error);
    return NULL;
}

static int do_set_many(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    struct part parts[THREADS_MAX];
    (void)found;
    return in_threads(run, asked, parts, set_item, error);
}

static void *read_whole(void *given) {
    struct part *part = given;
    const struct storlet_file *file;
    size_t no_head = 0;
    size_t size;
    part->result = part->run->services->open(part->run, part->path, NULL, &file, &part->error);
    if (part->result == 0) {
        part->result = sum_up(part->run, file, part->sum, NULL, &no_head, &size, &part->error);
        part->run->services->close(part->run, file);
    }
    return NULL;
}

/* Read an object in many threads. */
static int do_parts(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    struct part parts[THREADS_MAX];
    size_t count = (size_t)json_integer_value(json_array_get(asked, 2));
    json_t *sums = json_array();
    int result = in_threads(run, asked, parts, read_whole, error);
    for (size_t i = 0; i < count; i++) {
        bool is_known = false;
        size_t index;
        json_t *each;
        json_array_foreach(sums, index, each) {
            is_known = is_known || strcmp(json_string_value(each), parts[i].sum) == 0;
        }
        if (!is_known) {
            json_array_append_new(sums, json_string(parts[i].sum));
        }
    }
    json_array_append_new(found, sums);
    json_array_append_new(found, json_integer((json_int_t)count));
    return result;
}

static json_t *outcome_of(run_t *run, json_t *asked);

struct calling {
    run_t *run;
    json_t *asked;
    json_t *outcome;
};

static void *call_once(void *given) {
    struct calling *calling = given;
    calling->outcome = outcome_of(calling->run, calling->asked);
    return NULL;
}

/* Call a storlet in many threads; the outcomes. */
static int do_call_many(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    pthread_t threads[THREADS_MAX];
    struct calling parts[THREADS_MAX];
    size_t count = (size_t)json_integer_value(json_array_get(asked, 3));
    json_t *outcomes = json_array();
    json_t *once = json_pack("[s, O, O]", "call", json_array_get(asked, 1),
                             json_array_get(asked, 2));
    (void)error;
    for (size_t i = 0; i < count; i++) {
        parts[i] = (struct calling){run, once, NULL};
        pthread_create(&threads[i], NULL, call_once, &parts[i]);
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        json_array_append_new(outcomes, parts[i].outcome);
    }
    json_decref(once);
    json_array_append_new(found, outcomes);
    return 0;
}

/* --- hostile uses ------------------------------------------------------------------------------
 */

/* Open an object many times and read none of them. */
static int do_hold(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    json_int_t count = json_integer_value(json_array_get(asked, 2));
    for (json_int_t i = 0; i < count; i++) {
        if (run->services->open(run, path_of(asked), NULL, &file, error) != 0) {
            return -1;
        }
    }
    json_array_append_new(found, json_integer(count));
    return 0;
}

static int do_garbage(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    (void)run, (void)asked, (void)found, (void)error;
    send(services_socket(), "garbage", 7, MSG_NOSIGNAL);
    sleep(60);
    return 0;
}

/* Send requests, and read no reply. */
static int do_flood(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    int target = services_socket();
    (void)run, (void)found, (void)error;
    for (long id = 1;; id++) {
        char text[512];
        int size = snprintf(text, sizeof text, "{\"type\":\"stat\",\"id\":%ld,\"path\":\"%s\"}", id,
                            path_of(asked));
        send(target, text, (size_t)size, MSG_NOSIGNAL);
    }
}

/* Be killed while a file is open. */
static int do_die(run_t *run, json_t *asked, json_t *found, struct storlet_error *error) {
    const struct storlet_file *file;
    char byte;
    (void)found;
    if (run->services->open(run, path_of(asked), NULL, &file, error) == 0) {
        run->services->read(run, file, &byte, 1, error);
    }
    return kill(getpid(), SIGKILL);
}

/* --- the storlet -------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    int (*function)(run_t *run, json_t *asked, json_t *found, struct storlet_error *error);
} operations[] = {
    {"open", do_open},       {"seek", do_seek},       {"replaced", do_replaced},
    {"stat", do_stat},       {"list", do_list},       {"find", do_find},
    {"set", do_set},         {"set_many", do_set_many}, {"copy", do_copy},
    {"delete", do_delete},   {"hold", do_hold},       {"parts", do_parts},
    {"create", do_create},   {"create_many", do_create_many}, {"leave", do_leave},
    {"refused", do_refused}, {"call", do_call},       {"store", do_store},
    {"garbage", do_garbage}, {"flood", do_flood},     {"die", do_die},
    {"lie", do_lie},         {"die_creating", do_die_creating},
    {"call_on", do_call_on}, {"store_on", do_store_on},
    {"head_of", do_head_of}, {"call_many", do_call_many},
    {"cut", do_cut},         {"broken", do_broken},   {"endless", do_endless},
};

static json_t *outcome_of(run_t *run, json_t *asked) {
    struct storlet_error error = STORLET_ERROR;
    const char *name = json_string_value(json_array_get(asked, 0));
    json_t *found = json_array();
    int result = -1;
    json_array_append_new(found, json_string("ok"));
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        if (strcmp(operations[i].name, name) == 0) {
            result = operations[i].function(run, asked, found, &error);
        }
    }
    if (result == 0) {
        return found;
    }
    json_decref(found);
    return json_pack("[s, s, s]", name_of(&error), error.code, error.message);
}

int asker(run_t *run) {
    json_t *asked = json_loads(parameter(run, "ask"), JSON_ALLOW_NUL, NULL);
    json_t *outcomes = json_array();
    size_t index;
    json_t *each;
    json_array_foreach(asked, index, each) {
        if (strcmp(json_string_value(json_array_get(each, 0)), "fail") == 0) {
            run->fail(run, "on purpose");
            return -1;
        }
        json_array_append_new(outcomes, outcome_of(run, each));
    }
    char *written = json_dumps(outcomes, JSON_COMPACT);
    int result = run->write(run, 0, written, strlen(written)) == 0 ? 0 : errno;
    free(written);
    json_decref(outcomes);
    json_decref(asked);
    return result;
}
