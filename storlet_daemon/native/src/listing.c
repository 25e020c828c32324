/*
 * The entries of a container, page by page: each page is the stream of one request.
 */
#define _GNU_SOURCE
#include "request.h"

#include <stdlib.h>
#include <string.h>

/* More than any page of a listing has. */
#define PAGE_BYTES (16 << 20)

struct listing {
    struct storlet_query query;
    const char *container;
    json_t *page;      /* the last one; NULL before the first */
    const char *after; /* the last name of it, or the marker */
    int64_t left;      /* entries that are still wanted; -1: all */
    bool has_more;
    bool is_over; /* the storlet needs no more */
};

static json_t *fields_of_listing(const struct listing *listing) {
    json_t *fields = json_object();
    fields_put_name(&fields, "container", listing->container);
    fields_put_if_any(&fields, "prefix", listing->query.prefix);
    fields_put_if_any(&fields, "delimiter", listing->query.delimiter);
    fields_put_if_any(&fields, "marker", listing->after);
    fields_put_if_any(&fields, "end_marker", listing->query.end_marker);
    if (listing->query.reverse != 0) {
        fields_put(&fields, "reverse", json_true());
    }
    if (listing->left > 0) {
        fields_put(&fields, "limit", json_integer(listing->left));
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
    explain_no_memory(failure);
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
    if (!store_ask(&request, "list", fields_of_listing(listing), failure)) {
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

int list_container(struct storlet_run *run, const char *container,
                   const struct storlet_query *query,
                   int (*each)(void *context, const struct storlet_entry *entry), void *context,
                   struct storlet_error *error) {
    struct storlet_error failure = STORLET_ERROR;
    struct listing listing = {.query = STORLET_QUERY, .container = container};
    if (query != NULL) {
        size_t size = query->size < sizeof listing.query ? query->size : sizeof listing.query;
        memcpy(&listing.query, query, size);
    }
    listing.after = listing.query.marker;
    listing.left = listing.query.limit > 0 ? listing.query.limit : -1;
    if (!services_enter(run, &failure)) {
        return give_failure(error, &failure);
    }
    bool is_listed = list_all(&listing, each, context, &failure);
    json_decref(listing.page);
    services_leave();
    return is_listed ? 0 : give_failure(error, &failure);
}
