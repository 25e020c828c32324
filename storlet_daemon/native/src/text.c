/* Texts from a tenant's code: any bytes, which become UTF-8 of bounded length. */
#include "worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of the character at the start of `data`; 0 if they are not UTF-8. */
static size_t character(const unsigned char *data, size_t size) {
    static const struct {
        unsigned char first, last, second_first, second_last;
        size_t length;
    } forms[] = {
        {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (data[0] < forms[i].first || data[0] > forms[i].last) {
            continue;
        }
        if (forms[i].length == 1) {
            return 1;
        }
        if (size < forms[i].length || data[1] < forms[i].second_first ||
            data[1] > forms[i].second_last) {
            return 0;
        }
        for (size_t at = 2; at < forms[i].length; at++) {
            if ((data[at] & 0xc0) != 0x80) {
                return 0;
            }
        }
        return forms[i].length;
    }
    return 0;
}

/* A JSON text: each byte that is not UTF-8, and each NUL, is replaced by '?'. */
json_t *clean_text(const char *data, size_t size) {
    char *copy = malloc(size + 1);
    if (copy == NULL) {
        return json_string("");
    }
    memcpy(copy, data, size);
    for (size_t at = 0; at < size;) {
        size_t length = character((unsigned char *)copy + at, size - at);
        if (length == 0 || copy[at] == '\0') {
            copy[at] = '?';
            length = 1;
        }
        at += length;
    }
    json_t *text = json_stringn(copy, size);
    free(copy);
    return text;
}

static bool is_control(const unsigned char *data, size_t length) {
    return length == 1 ? data[0] < 0x20 || data[0] == 0x7f
                       : length == 2 && data[0] == 0xc2 && data[1] < 0xa0;
}

/* One line without control characters and without spaces at its ends, of at most SUMMARY_MAX
 * characters. */
void one_line(const char *text, size_t size, char *line, size_t capacity) {
    size_t used = 0, characters = 0;
    bool wants_space = false;
    const unsigned char *data = (const unsigned char *)text;
    for (size_t at = 0; at < size;) {
        size_t length = character(data + at, size - at);
        const char *shown = length == 0 ? "?" : text + at;
        size_t step = length == 0 ? 1 : length;
        if (data[at] == ' ' || is_control(data + at, length)) {
            wants_space = used > 0;
            at += step;
            continue;
        }
        if (characters + 4 > SUMMARY_MAX || used + step + 5 > capacity) {
            memcpy(line + used, "...", 3);
            used += 3;
            break;
        }
        if (wants_space) {
            line[used++] = ' ';
            characters++;
            wants_space = false;
        }
        memcpy(line + used, shown, step);
        used += step;
        characters++;
        at += step;
    }
    line[used] = '\0';
}

void fail(struct outcome *outcome, const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(outcome->message, sizeof outcome->message, format, arguments);
    va_end(arguments);
    outcome->code = code;
}

/* The detail: `data`, or its end from the start of a line. */
void set_detail(struct outcome *outcome, const char *data, size_t size) {
    size_t room = sizeof outcome->detail - 1;
    if (size > room) {
        data += size - room;
        size = room;
        const char *line = memchr(data, '\n', size);
        if (line != NULL && line + 1 < data + size) {
            size -= (size_t)(line + 1 - data);
            data = line + 1;
        }
    }
    memcpy(outcome->detail, data, size);
    outcome->detail[size] = '\0';
}
