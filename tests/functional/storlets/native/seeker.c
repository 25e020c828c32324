/* The part of multitool.py that tests of seekable inputs use, in C. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <storlet.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

typedef struct storlet_run run_t;

static const char *parameter(run_t *run, const char *name, const char *absent) {
    for (size_t i = 0; i < run->parameter_count; i++) {
        if (strcmp(run->parameters[i].name, name) == 0) {
            return run->parameters[i].value;
        }
    }
    return absent;
}

static int set_metadata(run_t *run) {
    struct storlet_field fields[32];
    size_t count = 0;
    for (size_t i = 0; i < run->parameter_count && count < 32; i++) {
        if (strncmp(run->parameters[i].name, "set-", 4) == 0) {
            fields[count++] =
                (struct storlet_field){run->parameters[i].name + 4, run->parameters[i].value};
        }
    }
    return run->set_metadata(run, 0, fields, count);
}

/* Write the text that was collected. */
static int flush(run_t *run, FILE *collected, char **text, size_t *size) {
    fclose(collected);
    int result = run->write(run, 0, *text, *size) == 0 ? 0 : errno;
    free(*text);
    return result;
}

/* The bytes of one place, up to the end of the input. Returns 0 or an error. */
static int copy_place(run_t *run, size_t input, const char *place, FILE *out) {
    long long offset = 0;
    size_t length = 0;
    sscanf(place, "%lld,%zu", &offset, &length);
    int whence = offset < 0 ? SEEK_END : SEEK_SET;
    char data[4096];
    if (run->seek(run, input, offset, whence) < 0) {
        return errno;
    }
    while (length > 0) {
        ssize_t count = run->read(run, input, data, length < sizeof data ? length : sizeof data);
        if (count <= 0) {
            return count < 0 ? errno : 0;
        }
        fwrite(data, 1, (size_t)count, out);
        length -= (size_t)count;
    }
    return 0;
}

/* The size of each input, and the bytes at its places. */
static int do_seek(run_t *run) {
    int error = 0;
    for (int times = atoi(parameter(run, "times", "1")); times > 0; times--) {
        for (size_t i = 0; i < run->input_count && error == 0; i++) {
            char *text;
            size_t size;
            FILE *out = open_memstream(&text, &size);
            fprintf(out, "%lld", (long long)run->input_bytes(run, i));
            char *places = strdup(parameter(run, "places", ""));
            char *rest = places;
            for (char *place; error == 0 && (place = strsep(&rest, " ")) != NULL;) {
                fputc('|', out);
                error = copy_place(run, i, place, out);
            }
            free(places);
            fputc('\n', out);
            int failed = flush(run, out, &text, &size);
            error = error != 0 ? error : failed;
        }
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

static int do_upper(run_t *run) {
    char data[65536];
    ssize_t size = 0;
    for (size_t i = 0; i < run->input_count; i++) {
        while ((size = run->read(run, i, data, sizeof data)) > 0) {
            for (ssize_t at = 0; at < size; at++) {
                data[at] = (char)toupper((unsigned char)data[at]);
            }
            if (run->write(run, 0, data, (size_t)size) != 0) {
                return errno;
            }
        }
    }
    return size < 0 ? errno : 0;
}

/* The metadata of each input, one `key=value` a line; values in hexadecimal. */
static int do_describe(run_t *run) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < run->input_count; i++) {
        for (size_t at = 0; at < run->inputs[i].metadata_count; at++) {
            const struct storlet_field *field = &run->inputs[i].metadata[at];
            fprintf(out, "input.%zu.meta.", i);
            for (const char *letter = field->name; *letter != '\0'; letter++) {
                fputc(tolower((unsigned char)*letter), out);
            }
            fputc('=', out);
            for (const char *letter = field->value; *letter != '\0'; letter++) {
                fprintf(out, "%02x", (unsigned char)*letter);
            }
            fputc('\n', out);
        }
    }
    return flush(run, out, &text, &size);
}

int seeker(run_t *run) {
    const char *wanted = parameter(run, "do", "upper");
    if (set_metadata(run) != 0) {
        return errno;
    }
    return strcmp(wanted, "seek") == 0       ? do_seek(run)
           : strcmp(wanted, "describe") == 0 ? do_describe(run)
                                             : do_upper(run);
}
