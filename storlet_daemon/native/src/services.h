/* services.c for library.c and objects.c: requests to the store. */
#ifndef STORLET_SERVICES_H
#define STORLET_SERVICES_H

#include "../storlet.h"
#include "worker.h"

enum answer { ANSWER_STREAM, ANSWER_SINK, ANSWER_FACTS, ANSWER_NOTHING };

/*
 * One request, and the stream of its answer. The memory is the caller's, from services_ask until
 * services_drop. The thread that reads the socket fills it.
 */
struct request {
    struct request *next;
    int64_t id; /* 0: not sent */
    enum answer kind;
    bool is_answered;
    bool is_ended; /* of a stream: `ended` or `failed` is there */
    int fd;        /* of a stream; -1 where there is none, or after its end */
    int64_t taken; /* bytes that were read from it */
    json_t *answer;
    json_t *end;
};

/* A run begins; `socket` is -1 if it has no services. */
void services_begin(struct storlet_run *run, int socket, json_t *operations);
/* Its end. False: a thread of the storlet still uses the services. */
bool services_end(struct outcome *outcome);
bool services_have_exceeded(void);

/* Around each operation: false with a failure if `run` has ended. */
bool services_enter(struct storlet_run *run, struct storlet_error *failure);
void services_leave(void);

/* Send a request of these fields, which are given away, and wait for its answer. */
bool services_ask(struct request *request, const char *operation, json_t *fields,
                  struct storlet_error *failure);
/* Read from the stream of an answer: as read(), and its end is verified. */
ssize_t services_read(struct request *request, void *buffer, size_t size,
                      struct storlet_error *failure);
void services_drop(struct request *request);
/* The store broke the protocol: the run fails. */
void services_distrust(const char *fault, struct storlet_error *failure);

void explain_failure(struct storlet_error *failure, int number, const char *code, int status,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/* objects.c: the functions for storlets, and the end of what a run has left open. */
extern const struct storlet_services store_functions;
void objects_close(void);

/* library.c: the texts of a JSON object, in one block that the caller frees; NULL: no memory. */
struct storlet_field *fields_of(json_t *object, const char *name, const char *value, size_t *count);

#endif
