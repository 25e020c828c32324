/*
 * The native worker: one resident process that runs one native storlet. That is a program, which it
 * starts for each invocation, or a function of a shared object, which it has loaded.
 *
 * main.c has the loop, message.c the messages of PROTOCOL.rst. The two forms are in program.c and
 * library.c. input.c reads the inputs of a shared object. holders.c finds processes that a program
 * left, and that hold its outputs. code.c explains why a file cannot run in this sandbox.
 *
 * services.c is the way of a shared object to the store: requests and replies. objects.c and
 * listing.c have the functions of storlet.h that use it, by request.c. feed.c gives data to a
 * storlet that is called.
 *
 * secrets.c has the values of the run's secrets. text.c bounds texts that come from a tenant. log.c
 * is the invocation's log. state.c restores the process after a run, and counters.c reads the
 * kernel's counters of the worker group.
 *
 * Single-threaded, except these five, which threads of a storlet may use. Descriptors are
 * close-on-exec without exception; a program gets its own by number.
 */
#ifndef STORLET_WORKER_H
#define STORLET_WORKER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MESSAGE_MAX 65536
#define DESCRIPTORS_MAX 32
#define SECRETS_MAX 32
#define DETAIL_MAX 16384
#define SUMMARY_MAX 500

#define CODE_LOAD "storlet.load"
#define CODE_FAILED "storlet.failed"
#define CODE_LIMIT_METADATA "storlet.limit.metadata"
#define CODE_LIMIT_MEMORY "storlet.limit.memory"
#define CODE_LIMIT_SCRATCH "storlet.limit.scratch"
#define CODE_LIMIT_PROCESSES "storlet.limit.processes"
#define CODE_LIMIT_SERVICES "storlet.limit.services"
#define CODE_PROTOCOL "protocol"
/* Of requests to the store; the first two are those of answers, too. */
#define CODE_BAD_REQUEST "bad_request"
#define CODE_LIMIT_OUTPUT "storlet.limit.output"
#define CODE_SERVICE_UNDECLARED "services.undeclared"
#define CODE_SERVICE_CHANGED "services.changed"
#define CODE_SERVICE_SHORT "services.short"
#define CODE_SERVICE_GONE "services.gone"
#define CODE_SERVICE_NONE "services.none"

/* The arguments of the process; all texts live as long as it. */
struct config {
    int listener;
    int channel;
    const char *main;
    const char *execution_path;
    const char *control_group; /* empty: none */
    char **arguments;          /* of a program, up to a NULL */
    long runs;                 /* those that are left */
    double seconds;            /* of life */
};

/* In the file itself, or by reads that the filter answers on a socket. */
enum seekable { NOT_SEEKABLE, SEEKABLE_FILE, SEEKABLE_READS };

/* One input. `end` is the offset of the last byte, or -1; `start` is -1 without a range. */
struct input {
    int fd;
    json_t *metadata;
    int64_t start;
    int64_t end;
    enum seekable seekable;
    int64_t size; /* of one that can seek */
};

/* One input of a shared object, and how far it was read. */
struct reader {
    int fd;
    int64_t left; /* bytes of a range that ends within its file */
    enum seekable seekable;
    int64_t size;
    int64_t position; /* of the next read of one that can seek */
    int64_t taken;    /* bytes that were read of a file that can seek */
    pid_t process;
    bool is_broken;   /* the filter answers no more */
    char *window;     /* the last answer of the filter, where it begins, and its bytes */
    int64_t start;
    size_t filled;
    size_t ahead;     /* bytes of the next read on a socket */
};

/* One message as it arrived. It owns its descriptors. */
struct record {
    size_t size;
    bool is_cut;
    size_t count;
    int fds[DESCRIPTORS_MAX];
    char data[MESSAGE_MAX];
};

/* One parsed `invoke`. It owns its descriptors; -1 where one was closed or handed over. */
struct invocation {
    json_t *fields;
    const char *id;
    json_t *parameters;
    size_t input_count;
    struct input inputs[DESCRIPTORS_MAX];
    size_t output_count;
    int outputs[DESCRIPTORS_MAX + 1]; /* by their numbers */
    int log;
    int64_t log_limit;
    size_t metadata_max;
    int services;
    json_t *operations; /* of the services: a list of texts */
    json_t *secrets;    /* texts in base64, or NULL */
};

/* One secret of a run; a NUL follows its value. */
struct secret {
    const char *name;
    char *value;
    size_t size;
};

/* A form in which a program may print a value. */
struct form {
    char *data;
    size_t size;
};

/* The secrets of a run, and all forms of their values, the longest first. */
struct secrets {
    size_t count;
    struct secret each[SECRETS_MAX];
    size_t form_count;
    struct form *forms;
    bool has_all_forms; /* false: no memory */
};

/* The result of a run or of a load: `code` is NULL after a success. */
struct outcome {
    const char *code;
    char message[2 * SUMMARY_MAX];
    char detail[DETAIL_MAX];
};

struct usage {
    int64_t cpu_microseconds;
    int64_t peak_bytes;
    int64_t input_bytes; /* that were read of files that can seek; -1: the run has none */
};

/* The log of one run: written up to its limit, and the last bytes of it kept. */
struct log {
    int fd; /* -1: the request has none */
    int64_t limit;
    bool is_full;
    bool has_dropped; /* the tail is not all of the log */
    size_t kept;
    char tail[4096];
};

/* One run: its invocation, the connection of the filter, and what was sent to it. */
struct run {
    const struct config *config;
    struct invocation *invocation;
    int connection;
    bool has_metadata[DESCRIPTORS_MAX + 1]; /* of each output */
    bool must_recycle;                      /* the process cannot be restored */
    int64_t input_bytes;                    /* as in the usage */
    struct log log;
    struct secrets secrets;
    struct outcome outcome;
};

/* message.c */
enum received { RECEIVED, RECEIVED_NOTHING, RECEIVED_FAULT };
enum received receive_invocation(int connection, struct invocation *invocation,
                                 char fault[SUMMARY_MAX]);
/* The value of a key, NULL if it is absent or null. */
json_t *field(json_t *object, const char *key);
/* The most bytes that the storlet may read of an input: INT64_MAX without an end. */
int64_t bytes_of(const struct input *input);
void close_invocation(struct invocation *invocation);
bool receive_record(int socket, struct record *record, int milliseconds);
void close_descriptors(struct record *record);
json_t *object_of(const struct record *record, size_t flags, char fault[SUMMARY_MAX]);
bool send_data(int socket, const char *data, size_t size);
/* All bytes of a stream; `send_data` sends one message. */
bool send_all(int socket, const void *data, size_t size);
bool send_text(int socket, const char *text);
bool send_load_failed(int channel, const struct outcome *outcome);
bool send_begin(int channel, const char *id, int connection);
bool send_end(int channel, bool recycle, bool failed);
bool send_metadata(struct run *run, size_t output, json_t *metadata);
bool send_done(int connection, const struct outcome *outcome, const struct usage *usage);

/* text.c */
void fail(struct outcome *outcome, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void set_detail(struct outcome *outcome, const char *data, size_t size);
void one_line(const char *text, size_t size, char *line, size_t capacity);
json_t *clean_text(const char *data, size_t size);

/* secrets.c */
bool is_base64(const char *text);
bool secrets_begin(struct secrets *secrets, json_t *texts);
void secrets_end(struct secrets *secrets);
const struct secret *secret_of(const struct secrets *secrets, const char *name);
size_t secrets_remove(const struct secrets *secrets, char *data, size_t size);
void secrets_copy(const struct secrets *secrets, const char *text, char *target, size_t capacity);

/* log.c */
void log_open(struct log *log, int fd, int64_t limit);
void log_write(struct log *log, const char *data, size_t size);
void log_remove_secrets(struct log *log, const struct secrets *secrets);
void log_last_line(const struct log *log, char *line, size_t capacity);
void log_failure(struct log *log, const char *main, const struct outcome *outcome);

/* state.c */
struct state;
struct state *state_of_process(void);
bool state_restore(struct state *state);
void note_donated(struct state *state, const struct invocation *invocation);
bool has_children(void);
struct usage usage_now(void);
void discard_output(void);
void print_into(int fd);
bool set_flags(int fd, int get, int set, int add, int drop);

/* services.c and what uses it: declared in services.h and request.h */

/* input.c: as the functions of storlet.h */
void reader_open(struct reader *reader, const struct input *input);
void reader_close(struct reader *reader);
ssize_t reader_read(struct reader *reader, void *buffer, size_t size);
ssize_t reader_send(struct reader *reader, int target, size_t size);
ssize_t reader_read_at(struct reader *reader, void *buffer, size_t size, int64_t offset);
int64_t reader_seek(struct reader *reader, int64_t offset, int whence);
int64_t reader_bytes(const struct reader *reader);

/* counters.c */
void counters_open(const char *control_group);
bool has_killed_for_memory(void);
bool has_refused_forks(void);
void explain_by_limits(struct outcome *outcome);

/* code.c */
bool check_program(const char *path, const char *name, struct outcome *outcome);
bool check_library(const char *path, const char *name, struct outcome *outcome);

/* holders.c */
bool close_held(int *fds, size_t count);

/* program.c */
bool program_load(const struct config *config, struct outcome *outcome);
void program_run(struct run *run);

/* library.c */
bool library_load(const struct config *config, struct outcome *outcome);
void library_run(struct run *run);

#endif
