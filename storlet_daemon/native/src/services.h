/* services.c and feed.c for library.c and request.c: requests to the store. */
#ifndef STORLET_SERVICES_H
#define STORLET_SERVICES_H

#include "../storlet.h"
#include "worker.h"

#include <pthread.h>
#include <stdatomic.h>

enum answer { ANSWER_STREAM, ANSWER_SINK, ANSWER_FACTS, ANSWER_NOTHING };

/* The data on which a storlet is called: bytes, or a function that gives them. */
struct feed {
    const char *data;
    size_t size;
    ssize_t (*read_data)(void *context, void *buffer, size_t size);
    void *context;
    int fd;
    pthread_t thread;
    bool is_running; /* the thread is to be joined */
    atomic_int error; /* of the function, or of the start of the thread; 0: none */
};

/*
 * One request, and the stream of its answer. The memory is the caller's, from services_ask until
 * services_drop. The thread that reads the socket fills it.
 */
struct request {
    struct request *next;
    int64_t id; /* 0: not sent */
    enum answer kind;
    struct feed *feed; /* the data of a call; NULL for all other requests */
    int feeding;       /* the descriptor that takes it; -1: none has come, or it was taken */
    bool is_begun;     /* any reply is there */
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
/* The same in parts, for a call on data: its request, the descriptor that takes the data or -1 if
 * the call has failed before, and the answer. */
bool services_send(struct request *request, const char *operation, json_t *fields,
                   struct storlet_error *failure);
int services_feeding(struct request *request);
bool services_await(struct request *request, struct storlet_error *failure);
/* Read from the stream of an answer: as read(), and its end is verified. */
ssize_t services_read(struct request *request, void *buffer, size_t size,
                      struct storlet_error *failure);
void services_drop(struct request *request);
/* The store broke the protocol: the run fails. */
void services_distrust(const char *fault, struct storlet_error *failure);

void explain_failure(struct storlet_error *failure, int number, const char *code, int status,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/* feed.c: give the data of a call to the descriptor, which it takes over. */
void feed_begin(struct feed *feed, int fd);
/* End it, also before the end of the data. It waits for a function of the storlet. False: that
 * function has called this one, so the thread still has the memory. */
bool feed_end(struct feed *feed);
/* The same at the end of a run. False: a function of the storlet does not return. */
bool feed_end_of_run(struct feed *feed);
/* Replace a failure by its cause, if that is the data. */
void feed_explain(const struct feed *feed, struct storlet_error *failure);

/* objects.c: the functions for storlets, and the end of what a run has left open. False: a function
 * of the storlet still runs in a thread. */
extern const struct storlet_services store_functions;
bool objects_close(void);

/* library.c: the texts of a JSON object, in one block that the caller frees; NULL: no memory. */
struct storlet_field *fields_of(json_t *object, const char *name, const char *value, size_t *count);

#endif
