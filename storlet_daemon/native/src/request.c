/*
 * One request of a storlet, from the fields of its message to the failure that the storlet gets.
 */
#define _GNU_SOURCE
#include "request.h"

#include <errno.h>
#include <string.h>

/* --- failures ----------------------------------------------------------------------------------
 */

int give_failure(struct storlet_error *error, const struct storlet_error *failure) {
    if (error != NULL) {
        uint32_t size = error->size;
        memcpy(error, failure, size < sizeof *failure ? size : sizeof *failure);
        error->size = size;
    }
    errno = failure->number;
    return -1;
}

bool explain_no_memory(struct storlet_error *failure) {
    explain_failure(failure, ENOMEM, "", 0, "the worker has no memory");
    return false;
}

/* --- requests ----------------------------------------------------------------------------------
 */

void fields_refuse(json_t **fields, const char *key, const char *what) {
    if (json_is_object(*fields)) {
        json_decref(*fields);
        *fields = json_sprintf("%.100s is not %s", key, what);
    }
}

void fields_put(json_t **fields, const char *key, json_t *value) {
    if (!json_is_object(*fields)) {
        json_decref(value);
    } else if (json_object_set_new(*fields, key, value) != 0) {
        fields_refuse(fields, key, "text in UTF-8");
    }
}

void fields_put_text(json_t **fields, const char *key, const char *text) {
    fields_put(fields, key, text == NULL ? NULL : json_string(text));
}

void fields_put_name(json_t **fields, const char *key, const char *text) {
    if (text == NULL || text[0] == '\0') {
        fields_refuse(fields, key, "text of at least one character");
    } else {
        fields_put_text(fields, key, text);
    }
}

void fields_put_if_any(json_t **fields, const char *key, const char *text) {
    if (text != NULL && text[0] != '\0') {
        fields_put_text(fields, key, text);
    }
}

void fields_put_texts(json_t **fields, const char *key, const struct storlet_field *given,
                      size_t count) {
    json_t *texts = json_object();
    for (size_t i = 0; i < count; i++) {
        const char *name = given[i].name;
        const char *value = given[i].value;
        fields_put_text(&texts, name == NULL ? "" : name, value == NULL ? "" : value);
    }
    if (json_is_object(texts) || !json_is_object(*fields)) {
        fields_put(fields, key, texts);
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

bool store_ask(struct request *request, const char *operation, json_t *fields,
               struct storlet_error *failure) {
    if (json_is_object(fields)) {
        return request->feed == NULL ? services_ask(request, operation, fields, failure)
                                     : ask_feeding(request, operation, fields, failure);
    }
    if (fields == NULL) {
        return explain_no_memory(failure);
    }
    explain_failure(failure, EINVAL, CODE_BAD_REQUEST, 400, "%s: %s", operation,
                    json_string_value(fields));
    json_decref(fields);
    return false;
}

int store_perform(struct storlet_run *run, const char *operation, json_t *fields,
                  struct storlet_error *error) {
    struct storlet_error failure = STORLET_ERROR;
    struct request request = {.kind = ANSWER_NOTHING};
    if (!services_enter(run, &failure)) {
        json_decref(fields);
        return give_failure(error, &failure);
    }
    bool is_done = store_ask(&request, operation, fields, &failure);
    if (is_done) {
        services_drop(&request);
    }
    services_leave();
    return is_done ? 0 : give_failure(error, &failure);
}
