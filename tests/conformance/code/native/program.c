/*
 * The probe as a program: the functions of storlet_run over the descriptors and variables of the
 * other form.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <storlet.h>

int probe(struct storlet_run *run);

static ssize_t read_input(struct storlet_run *run, size_t input, void *buffer, size_t size) {
    return read(run->inputs[input].fd, buffer, size);
}

static int write_output(struct storlet_run *run, size_t output, const void *data, size_t size) {
    const char *rest = data;
    while (size > 0) {
        ssize_t count = write(run->output_fd(run, output), rest, size);
        if (count < 0) {
            return -1;
        }
        rest += count;
        size -= (size_t)count;
    }
    return 0;
}

static int set_metadata(struct storlet_run *run, size_t output, const struct storlet_field *fields,
                        size_t count) {
    json_t *metadata = json_object();
    (void)run;
    if (output > 0) {
        return 0; /* a program's further outputs have none */
    }
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(metadata, fields[i].name, json_string(fields[i].value));
    }
    char *text = json_dumps(metadata, JSON_COMPACT);
    ssize_t size = write(atoi(getenv("STORLET_METADATA_FD")), text, strlen(text));
    return size < 0 ? -1 : 0;
}

static json_t *outputs;

static int output_fd(struct storlet_run *run, size_t output) {
    (void)run;
    return (int)json_integer_value(json_object_get(json_array_get(outputs, output), "fd"));
}

static void log_line(struct storlet_run *run, const char *line) {
    (void)run;
    fprintf(stderr, "%s\n", line);
}

/* Reads the descriptor, which has no more after it. */
static int secret_value(struct storlet_run *run, const char *name, const char **value,
                        size_t *size) {
    static char data[65536];
    char variable[128];
    (void)run;
    snprintf(variable, sizeof variable, "STORLET_SECRET_FD_%s", name);
    for (char *at = variable; *at != '\0'; at++) {
        *at = *at == '-' ? '_' : (char)toupper(*at);
    }
    const char *number = getenv(variable);
    if (number == NULL) {
        errno = ENOENT;
        return -1;
    }
    *size = 0;
    ssize_t count;
    while ((count = read(atoi(number), data + *size, sizeof data - 1 - *size)) > 0) {
        *size += (size_t)count;
    }
    data[*size] = '\0';
    *value = data;
    return (int)count;
}

static struct storlet_field *fields_of(json_t *object, size_t *count) {
    struct storlet_field *fields = calloc(json_object_size(object) + 1, sizeof *fields);
    const char *key;
    json_t *value;
    *count = 0;
    json_object_foreach(object, key, value) {
        fields[(*count)++] = (struct storlet_field){key, json_string_value(value)};
    }
    return fields;
}

int main(void) {
    json_t *inputs = json_loads(getenv("STORLET_INPUTS"), 0, NULL);
    json_t *parameters = json_loads(getenv("STORLET_PARAMETERS"), 0, NULL);
    outputs = json_loads(getenv("STORLET_OUTPUTS"), 0, NULL);
    struct storlet_input known[32];
    struct storlet_run run = {.input_count = json_array_size(inputs),
                              .inputs = known,
                              .output_count = json_array_size(outputs),
                              .read = read_input,
                              .write = write_output,
                              .set_metadata = set_metadata,
                              .output_fd = output_fd,
                              .log = log_line,
                              .fail = log_line,
                              .secret = secret_value,
                              .execution_path = getenv("STORLET_PARAM_storlet_execution_path")};
    run.parameters = fields_of(parameters, &run.parameter_count);
    for (size_t i = 0; i < run.input_count; i++) {
        json_t *input = json_array_get(inputs, i);
        known[i].fd = (int)json_integer_value(json_object_get(input, "fd"));
        known[i].metadata = fields_of(json_object_get(input, "metadata"), &known[i].metadata_count);
    }
    return probe(&run) == 0 ? 0 : 1;
}
