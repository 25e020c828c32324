/*
 * The secrets of a run: their values, and the removal of the values from texts about the run.
 *
 * A value is removed as it is and in the forms that programs print: hexadecimal digits, base64, the
 * quoting of URLs, and the text of JSON; also each line of it, and the start of each form. The
 * filter removes the same from complete texts. It must happen here, too, before a text is cut.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A form has at least as many bytes as the mark that replaces it. */
#define MARK "[secret]"
#define LEAST (sizeof MARK - 1)
/* Begins of forms and lines: a value has many of them. */
#define LEAST_PART 16

/* --- base64 ------------------------------------------------------------------------------------
 */

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The bytes of `text` with its padding, with a NUL after them; NULL: it is not base64. */
static char *decoded(const char *text, size_t *size) {
    size_t length = strlen(text);
    size_t padding = length > 0 && text[length - 1] == '=' ? 1 : 0;
    padding += length > 1 && text[length - 2] == '=' ? 1 : 0;
    char *data = length % 4 == 0 ? malloc(length / 4 * 3 + 1) : NULL;
    uint32_t bits = 0;
    size_t used = 0;
    for (size_t at = 0; data != NULL && at < length; at++) {
        const char *digit = at < length - padding ? strchr(DIGITS, text[at]) : DIGITS;
        if (digit == NULL) {
            free(data);
            return NULL;
        }
        bits = bits << 6 | (uint32_t)(digit - DIGITS);
        if (at % 4 == 3) {
            data[used++] = (char)(bits >> 16);
            data[used++] = (char)(bits >> 8);
            data[used++] = (char)bits;
        }
    }
    if (data != NULL) {
        *size = used - padding;
        data[*size] = '\0';
    }
    return data;
}

bool is_base64(const char *text) {
    size_t size;
    char *data = decoded(text, &size);
    free(data);
    return data != NULL;
}

/* --- forms -------------------------------------------------------------------------------------
 */

/* Takes ownership of `data`, which may be NULL. */
static void add_form(struct secrets *secrets, char *data, size_t size, size_t least) {
    if (data == NULL || size < least) {
        secrets->has_all_forms = secrets->has_all_forms && data != NULL;
        free(data);
        return;
    }
    struct form *forms =
        realloc(secrets->forms, (secrets->form_count + 1) * sizeof *secrets->forms);
    if (forms == NULL) {
        secrets->has_all_forms = false;
        free(data);
        return;
    }
    secrets->forms = forms;
    forms[secrets->form_count++] = (struct form){data, size};
}

static void add_copy(struct secrets *secrets, const char *data, size_t size, size_t least) {
    char *copy = malloc(size + 1);
    if (copy != NULL) {
        memcpy(copy, data, size);
    }
    add_form(secrets, copy, size, least);
}

static void add_hexadecimal(struct secrets *secrets, const char *value, size_t size,
                            const char *format) {
    char *text = malloc(2 * size + 1);
    for (size_t i = 0; text != NULL && i < size; i++) {
        snprintf(text + 2 * i, 3, format, (unsigned char)value[i]);
    }
    add_form(secrets, text, 2 * size, LEAST);
}

/* Without padding; `last` are the digits 62 and 63. */
static void add_base64(struct secrets *secrets, const char *value, size_t size, const char *last) {
    char *text = malloc(size / 3 * 4 + 4);
    size_t length = size / 3 * 4 + (size % 3 == 0 ? 0 : size % 3 + 1);
    for (size_t i = 0; text != NULL && i < length; i++) {
        uint32_t bits = 0;
        for (size_t at = i / 4 * 3; at < i / 4 * 3 + 3; at++) {
            bits = bits << 8 | (at < size ? (unsigned char)value[at] : 0);
        }
        uint32_t digit = bits >> (6 * (3 - i % 4)) & 63;
        text[i] = digit < 62 ? DIGITS[digit] : last[digit - 62];
    }
    add_form(secrets, text, length, LEAST);
}

static void add_quoted(struct secrets *secrets, const char *value, size_t size, const char *safe) {
    char *text = malloc(3 * size + 1);
    size_t used = 0;
    for (size_t i = 0; text != NULL && i < size; i++) {
        unsigned char byte = (unsigned char)value[i];
        if (byte < 0x80 && byte != 0 && (isalnum(byte) || strchr(safe, byte) != NULL)) {
            text[used++] = (char)byte;
        } else {
            used += (size_t)snprintf(text + used, 4, "%%%02X", byte);
        }
    }
    add_form(secrets, text, used, LEAST);
}

/* The text in a JSON document; a value that is not UTF-8 has none. */
static void add_json(struct secrets *secrets, const char *value, size_t size, size_t flags) {
    json_t *text = json_stringn(value, size);
    char *dumped = text == NULL ? NULL : json_dumps(text, JSON_ENCODE_ANY | flags);
    json_decref(text);
    if (dumped != NULL) {
        add_copy(secrets, dumped + 1, strlen(dumped) - 2, LEAST);
        free(dumped);
    }
}

static void add_forms(struct secrets *secrets, const char *value, size_t size) {
    add_copy(secrets, value, size, LEAST);
    add_hexadecimal(secrets, value, size, "%02x");
    add_hexadecimal(secrets, value, size, "%02X");
    add_base64(secrets, value, size, "+/");
    add_base64(secrets, value, size, "-_");
    add_quoted(secrets, value, size, "_.-~/");
    add_quoted(secrets, value, size, "_.-~");
    add_json(secrets, value, size, 0);
    add_json(secrets, value, size, JSON_ENSURE_ASCII);
}

static void strip(const char **value, size_t *size) {
    while (*size > 0 && isspace((unsigned char)**value)) {
        ++*value;
        --*size;
    }
    while (*size > 0 && isspace((unsigned char)(*value)[*size - 1])) {
        --*size;
    }
}

static void add_lines(struct secrets *secrets, const char *value, size_t size) {
    const char *end = value + size;
    while (value < end) {
        const char *feed = memchr(value, '\n', (size_t)(end - value));
        const char *line = value;
        size_t length = (size_t)((feed == NULL ? end : feed) - line);
        value = feed == NULL ? end : feed + 1;
        strip(&line, &length);
        add_copy(secrets, line, length, LEAST_PART);
    }
}

/* The longest first: a form may be a part of another. */
static int by_size(const void *one, const void *other) {
    size_t first = ((const struct form *)one)->size, second = ((const struct form *)other)->size;
    return first < second ? 1 : first > second ? -1 : 0;
}

/* --- the secrets of a run ----------------------------------------------------------------------
 */

/* The texts were checked when the message arrived. False: no memory. */
bool secrets_begin(struct secrets *secrets, json_t *texts) {
    const char *name;
    json_t *text;
    memset(secrets, 0, sizeof *secrets);
    secrets->has_all_forms = true;
    json_object_foreach(texts, name, text) {
        struct secret *secret = &secrets->each[secrets->count];
        secret->name = name;
        secret->value = decoded(json_string_value(text), &secret->size);
        if (secret->value == NULL) {
            return false;
        }
        secrets->count++;
        const char *stripped = secret->value;
        size_t size = secret->size;
        add_forms(secrets, stripped, size);
        strip(&stripped, &size);
        if (size != secret->size) {
            /* A value from a file may end with a line feed, which a storlet removes. */
            add_forms(secrets, stripped, size);
        }
        add_lines(secrets, stripped, size);
    }
    if (secrets->form_count > 0) {
        qsort(secrets->forms, secrets->form_count, sizeof *secrets->forms, by_size);
    }
    return secrets->has_all_forms;
}

void secrets_end(struct secrets *secrets) {
    for (size_t i = 0; i < secrets->count; i++) {
        free(secrets->each[i].value);
    }
    for (size_t i = 0; i < secrets->form_count; i++) {
        free(secrets->forms[i].data);
    }
    free(secrets->forms);
    memset(secrets, 0, sizeof *secrets);
}

const struct secret *secret_of(const struct secrets *secrets, const char *name) {
    for (size_t i = 0; i < secrets->count; i++) {
        if (strcmp(secrets->each[i].name, name) == 0) {
            return &secrets->each[i];
        }
    }
    return NULL;
}

/* --- removal -----------------------------------------------------------------------------------
 */

static size_t common(const char *one, size_t size, const struct form *form) {
    size_t most = size < form->size ? size : form->size, at = 0;
    while (at < most && one[at] == form->data[at]) {
        at++;
    }
    return at;
}

/* Replace each occurrence of the first `least` bytes of the form, with all that follows of it. */
static size_t replace(const struct form *form, size_t least, char *data, size_t size) {
    size_t from = 0, used = 0;
    for (;;) {
        const char *found = memmem(data + from, size - from, form->data, least);
        size_t kept = (found == NULL ? size : (size_t)(found - data)) - from;
        memmove(data + used, data + from, kept);
        used += kept;
        from += kept;
        if (found == NULL) {
            return used;
        }
        from += common(data + from, size - from, form);
        memcpy(data + used, MARK, LEAST);
        used += LEAST;
    }
}

/* The size of `data` after the removal, which never makes it longer. */
size_t secrets_remove(const struct secrets *secrets, char *data, size_t size) {
    for (size_t i = 0; i < secrets->form_count; i++) {
        size = replace(&secrets->forms[i], secrets->forms[i].size, data, size);
    }
    for (size_t i = 0; i < secrets->form_count; i++) {
        if (secrets->forms[i].size > LEAST_PART) {
            size = replace(&secrets->forms[i], LEAST_PART, data, size);
        }
    }
    return size;
}

/* `text` without the values, cut to `capacity` with its NUL; nothing of it without memory. */
void secrets_copy(const struct secrets *secrets, const char *text, char *target,
                  size_t capacity) {
    if (secrets->form_count == 0) {
        snprintf(target, capacity, "%s", text);
        return;
    }
    char *copy = strdup(text);
    size_t size = copy == NULL ? 0 : secrets_remove(secrets, copy, strlen(copy));
    snprintf(target, capacity, "%.*s", (int)size, copy == NULL ? "" : copy);
    free(copy);
}
