/* An index: the name and the first line of each object of a container, with a tab between. */
#include <stdio.h>
#include <string.h>
#include <storlet.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

struct index {
    struct storlet_run *run;
    const char *container;
    int result; /* errno of a failure; 0: none */
};

static const char *parameter(struct storlet_run *run, const char *name, const char *absent) {
    for (size_t i = 0; i < run->parameter_count; i++) {
        if (strcmp(run->parameters[i].name, name) == 0) {
            return run->parameters[i].value;
        }
    }
    return absent;
}

/* The first line of an object, of which only the first bytes are read. Returns its size, or -1. */
static ssize_t first_line(struct index *index, const char *name, char *line, size_t size,
                          struct storlet_error *error) {
    const struct storlet_services *services = index->run->services;
    const struct storlet_file *file;
    char path[2048];
    snprintf(path, sizeof path, "/%s/%s", index->container, name);
    if (services->open(index->run, path, NULL, &file, error) != 0) {
        return -1;
    }
    ssize_t count;
    size_t used = 0;
    do {
        count = services->read(index->run, file, line + used, size - used, error);
        used += count > 0 ? (size_t)count : 0;
    } while (count > 0 && used < size && memchr(line, '\n', used) == NULL);
    services->close(index->run, file);
    const char *end = memchr(line, '\n', used);
    return count < 0 ? -1 : end != NULL ? end - line : (ssize_t)used;
}

/* One entry of the listing. Not 0 ends it. */
static int add(void *context, const struct storlet_entry *entry) {
    struct index *index = context;
    struct storlet_run *run = index->run;
    struct storlet_error error = STORLET_ERROR;
    char line[1024];
    ssize_t size = first_line(index, entry->name, line, sizeof line, &error);
    if (size < 0 && error.number == EACCES) {
        run->log(run, error.message); /* the caller may not read this one */
        return 0;
    }
    if (size < 0) {
        run->fail(run, error.message);
        index->result = error.number;
    } else if (run->write(run, 0, entry->name, strlen(entry->name)) != 0 ||
               run->write(run, 0, "\t", 1) != 0 || run->write(run, 0, line, (size_t)size) != 0 ||
               run->write(run, 0, "\n", 1) != 0) {
        index->result = errno;
    }
    return index->result;
}

int make_index(struct storlet_run *run) {
    struct storlet_error error = STORLET_ERROR;
    struct storlet_query query = STORLET_QUERY;
    struct index index = {.run = run, .container = parameter(run, "container", "notes")};
    query.prefix = parameter(run, "prefix", NULL);
    if (run->services->list(run, index.container, &query, add, &index, &error) != 0) {
        run->fail(run, error.message);
        return error.number;
    }
    return index.result;
}
