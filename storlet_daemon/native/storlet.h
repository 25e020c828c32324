/*
 * storlet.h: the interface of a native storlet in a shared object, version 1.
 *
 * A shared object exports the version of this header that it was built with, and one function:
 *
 *     #include <storlet.h>
 *
 *     STORLET_ABI_VERSION_OF_THIS_OBJECT
 *
 *     int copy(struct storlet_run *run) {
 *         char data[65536];
 *         ssize_t size;
 *         run->set_metadata(run, 0, run->inputs[0].metadata, run->inputs[0].metadata_count);
 *         while ((size = run->read(run, 0, data, sizeof data)) > 0) {
 *             if (run->write(run, 0, data, (size_t)size) != 0) {
 *                 return errno;
 *             }
 *         }
 *         return size < 0 ? errno : 0;
 *     }
 *
 *     cc -O2 -fPIC -shared -o copy.so copy.c         and   main: copy.so:copy
 *
 * The object is loaded once a worker process; the function is called once an invocation, one after
 * the other. Static variables keep their values between invocations of one process. A process is
 * replaced after a failure, after `runs_per_worker` invocations, and if a function leaves a thread,
 * a child process, a changed signal handler or a duplicate of a descriptor of the invocation.
 *
 * Everything that `run` points to is valid until the function returns. Texts are UTF-8 and end with
 * a NUL. The functions of `run` must be called from one thread at a time. Those of `run->services`
 * may be called from any thread, by several at the same time.
 *
 * The version changes only if the meaning or the place of a field changes. New fields are added at
 * the end of a structure; its `size` says which are there, and STORLET_HAS tests one. So an object
 * that was built with an older header runs in a newer worker, and one that tests before it uses a
 * newer field runs in an older worker, too.
 */
#ifndef STORLET_H
#define STORLET_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STORLET_ABI_VERSION 1

/* Put this once into a source file of the object. Other languages export the same symbol: a 32-bit
 * number of this name that cannot be changed. */
#ifdef __cplusplus
#define STORLET_ABI_VERSION_OF_THIS_OBJECT                                                         \
    extern "C" __attribute__((visibility("default"))) const uint32_t storlet_abi_version =         \
        STORLET_ABI_VERSION;
#else
#define STORLET_ABI_VERSION_OF_THIS_OBJECT                                                         \
    __attribute__((visibility("default"))) const uint32_t storlet_abi_version = STORLET_ABI_VERSION;
#endif

/* Whether the structure at `pointer` has `field` in this worker. */
#define STORLET_HAS(pointer, field)                                                                \
    ((pointer)->size >= offsetof(__typeof__(*(pointer)), field) + sizeof((pointer)->field))

/* A name and its value: a parameter, or one entry of metadata. */
struct storlet_field {
    const char *name;
    const char *value;
};

/* One input. */
struct storlet_input {
    /* The descriptor, at the first byte of the input; for system calls and libraries that need one.
     * -1 if the input is a part of a file that ends before the file does, or can seek: use `read`
     * and `read_at`. */
    int fd;
    /* The user metadata of the object. */
    size_t metadata_count;
    const struct storlet_field *metadata;
};

/* --- services: the store, for a running storlet -------------------------------------------------
 *
 * A storlet may use the store if its metadata declares it, as in
 * X-Object-Meta-Storlet-Services: read, list. Paths are "/container/object", always in the account
 * of the request. Each operation is a request of the caller, with the caller's rights and the
 * account's rules.
 *
 *     struct storlet_error error = STORLET_ERROR;
 *     const struct storlet_file *file;
 *     if (run->services->open(run, "/notes/a.txt", NULL, &file, &error) != 0) {
 *         run->fail(run, error.message);
 *         return errno;
 *     }
 *     while ((size = run->services->read(run, file, data, sizeof data, &error)) > 0) {
 *         ...
 *     }
 *     run->services->close(run, file);
 */

/* Why an operation failed. Begin with `struct storlet_error error = STORLET_ERROR;`. */
struct storlet_error {
    /* The size of this structure in the storlet. */
    uint32_t size;

    /* The reason, a number of errno; errno itself has it, too.
     * ENOENT: there is no such container or object.
     * EACCES: the caller, a rule, or the storlet's own declaration does not allow the operation, or
     * the run has no services.
     * ESTALE: the object was replaced since it was opened.
     * ENOBUFS: a limit of the run. If the run then fails, its code is storlet.limit.services.
     * EAGAIN: the store cannot answer now.
     * EIO: the stream of an object ended before its end mark.
     * ESPIPE: the file cannot seek.
     * EINVAL: an argument is not valid.
     * EBADF: the file is not open, or the run has ended.
     * EBUSY: another thread uses the file.
     * ENOMEM: the worker has no memory.
     * EREMOTEIO: anything else that the store refuses. */
    int number;

    /* The status of the store's answer, such as 404. */
    int status;

    /* The error code of the store's answer, such as "access.rule". */
    char code[64];

    /* The reason as one line of text. */
    char message[512];

    /* The name of a called storlet that has failed; empty for all other reasons. */
    char storlet[256];
};

#define STORLET_ERROR {sizeof(struct storlet_error), 0, 0, "", "", ""}

/* The facts about an object. One that is not known, or that a rule withholds, is -1 or NULL. */
struct storlet_object {
    uint32_t size;

    /* Bytes of the object, or of the part of it that was opened. */
    int64_t bytes;

    const char *etag;
    const char *content_type;

    /* The time of the last change, as HTTP writes it. */
    const char *last_modified;

    /* The user metadata. */
    size_t metadata_count;
    const struct storlet_field *metadata;
};

/* An open object: for the functions below. */
struct storlet_file {
    uint32_t size;
    const struct storlet_object *object;
};

/* A part of an object: the first and the last byte, both inclusive. A last byte of -1 is the
 * object's. */
struct storlet_range {
    int64_t first;
    int64_t last;
};

/* The entries of a listing that are wanted. NULL and 0 select all. Begin with
 * `struct storlet_query query = STORLET_QUERY;`. */
struct storlet_query {
    /* The size of this structure in the storlet. */
    uint32_t size;

    /* Entries in the order from the last to the first, if it is not 0. */
    int32_t reverse;

    /* At most this number of entries. */
    int64_t limit;

    /* Names that begin with this text. */
    const char *prefix;

    /* Names up to this text after the prefix, such as "/", as one entry each. */
    const char *delimiter;

    /* Names after this one, and before that one. */
    const char *marker;
    const char *end_marker;
};

#define STORLET_QUERY {sizeof(struct storlet_query), 0, 0, NULL, NULL, NULL, NULL}

/* One entry of a listing: an object, or with a delimiter a common prefix, which has a name only.
 * Other values are -1 or NULL if they are not known. */
struct storlet_entry {
    uint32_t size;
    int32_t is_prefix;
    const char *name;
    int64_t bytes;
    const char *etag;
    const char *content_type;
    const char *last_modified;
};

/* An object that is created. Fields that are NULL or 0 are not set. The store guesses a missing
 * content type from the name. Begin with `struct storlet_creation creation = STORLET_CREATION;`. */
struct storlet_creation {
    /* The size of this structure in the storlet. */
    uint32_t size;
    const char *content_type;

    /* The user metadata. */
    size_t metadata_count;
    const struct storlet_field *metadata;

    /* Seconds until the store deletes the object. */
    int64_t delete_after;
};

#define STORLET_CREATION {sizeof(struct storlet_creation), NULL, 0, NULL, 0}

/* The run of another storlet. Begin with `struct storlet_call call = STORLET_CALL;`. */
struct storlet_call {
    /* The size of this structure in the storlet. */
    uint32_t size;

    /* A storlet of the account in any language, or of the system library, such as "std:grep". */
    const char *storlet;

    /* The object that it reads, on the node that has it. */
    const char *path;

    /* The parameters of the run. */
    size_t parameter_count;
    const struct storlet_field *parameters;

    /* The parts of the object that it reads, each an input; none is the whole object. */
    size_t range_count;
    const struct storlet_range *ranges;

    /* Data that it reads instead of an object; `path` is NULL then. The bytes must stay until the
     * result is closed, or `call_into` has returned. Absent in workers of the first releases: test
     * STORLET_HAS(run, read_at) if the object may run in one. */
    const void *data;
    size_t data_size;

    /* Data of unknown size, instead of `data`: the function puts up to `size` bytes into `buffer`,
     * and returns their number, 0 at the end, or -1 with errno: then the call fails. It is called
     * in a thread of its own, until its end or until the result is closed, and may use the
     * services. The close of the result waits until it returns. */
    ssize_t (*read_data)(void *context, void *buffer, size_t size);
    void *context;
};

#define STORLET_CALL                                                                               \
    {sizeof(struct storlet_call), NULL, NULL, 0, NULL, 0, NULL, NULL, 0, NULL, NULL}

struct storlet_run;

/* The operations. `error` may be NULL. */
struct storlet_services {
    uint32_t size;

    /* Open an object, or with a `range` that is not NULL a part of it. Service `read`. Returns 0,
     * or -1. A file that is still open at the end of the run is closed then. */
    int (*open)(struct storlet_run *run, const char *path, const struct storlet_range *range,
                const struct storlet_file **file, struct storlet_error *error);

    /* Read up to `size` bytes from the position. Returns their number, 0 at the end, or -1. The
     * end is verified: a file that does not arrive whole is an error. A file may be used by one
     * thread at a time. */
    ssize_t (*read)(struct storlet_run *run, const struct storlet_file *file, void *buffer,
                    size_t size, struct storlet_error *error);

    /* Move the position: `whence` is SEEK_SET, SEEK_CUR or SEEK_END. Returns the new position, or
     * -1. After it, parts of the same version of the object are read, ahead of the storlet. The
     * result of a storlet, of a rule or by `call`, cannot seek. */
    int64_t (*seek)(struct storlet_run *run, const struct storlet_file *file, int64_t offset,
                    int whence, struct storlet_error *error);

    /* Close a file that was opened or called. `file` is not valid after it. */
    void (*close)(struct storlet_run *run, const struct storlet_file *file);

    /* The facts about an object. Service `read`. Returns 0, or -1. `forget` releases them; at the
     * end of the run they are released, too. */
    int (*stat)(struct storlet_run *run, const char *path, const struct storlet_object **object,
                struct storlet_error *error);
    void (*forget)(struct storlet_run *run, const struct storlet_object *object);

    /* Call `each` for each entry of a container, in its order, until it returns something other
     * than 0. `query` may be NULL. Service `list`. An entry is valid until `each` returns. Returns
     * 0, or -1. */
    int (*list)(struct storlet_run *run, const char *container, const struct storlet_query *query,
                int (*each)(void *context, const struct storlet_entry *entry), void *context,
                struct storlet_error *error);

    /* Change items of an object's user metadata; the other items stay. A value that is NULL or
     * empty removes the item. The name Content-Type is the content type. Service `write`. Done at
     * the call, also if the run fails later. Returns 0, or -1. */
    int (*set_metadata)(struct storlet_run *run, const char *path,
                        const struct storlet_field *changes, size_t count,
                        struct storlet_error *error);

    /* Copy an object with its metadata; an object at `target` is replaced. Service `write`. Done at
     * the call. Returns 0, or -1. */
    int (*copy)(struct storlet_run *run, const char *source, const char *target,
                struct storlet_error *error);

    /* Delete an object. Service `delete`. Done at the call. Returns 0, or -1. */
    int (*remove)(struct storlet_run *run, const char *path, struct storlet_error *error);

    /* Create an object, or replace one, with `creation`, which may be NULL. Service `write`. It is
     * stored when the run succeeds, together with the outputs. A run that returns with a file that
     * is neither finished nor discarded fails. Returns 0, or -1. */
    int (*create)(struct storlet_run *run, const char *path,
                  const struct storlet_creation *creation, const struct storlet_file **file,
                  struct storlet_error *error);

    /* Write all of `data` to a created file. Returns 0, or -1: then the run fails, unless the file
     * is discarded. */
    int (*write)(struct storlet_run *run, const struct storlet_file *file, const void *data,
                 size_t size, struct storlet_error *error);

    /* The created file is complete. Returns 0, or -1: then the run fails, unless the file is
     * discarded. */
    int (*finish)(struct storlet_run *run, const struct storlet_file *file,
                  struct storlet_error *error);

    /* Do not store a created file; also after `finish`. `file` is not valid after it. Returns 0,
     * or -1. */
    int (*discard)(struct storlet_run *run, const struct storlet_file *file,
                   struct storlet_error *error);

    /* Run another storlet, and read its result as a file that cannot seek. Service `call`.
     * `file->object` has the metadata of the result. Returns 0, or -1. */
    int (*call)(struct storlet_run *run, const struct storlet_call *call,
                const struct storlet_file **file, struct storlet_error *error);

    /* The same, but the result is stored as the object `output`, whose facts it gives. Returns 0,
     * or -1. */
    int (*call_into)(struct storlet_run *run, const struct storlet_call *call, const char *output,
                     const struct storlet_object **object, struct storlet_error *error);
};

/* One invocation. */
struct storlet_run {
    /* STORLET_ABI_VERSION of the worker, and the size of this structure there. */
    uint32_t abi_version;
    uint32_t size;

    /* The folder of the storlet's files: its own, and its dependencies. */
    const char *execution_path;

    /* The parameters of the request. */
    size_t parameter_count;
    const struct storlet_field *parameters;

    /* The inputs, at least one. */
    size_t input_count;
    const struct storlet_input *inputs;

    /* The number of outputs: 1, and the further ones that the request names. They may be written in
     * any order. */
    size_t output_count;

    /* Read up to `size` bytes of an input. Returns their number, 0 at the end of the input, or -1
     * with errno. */
    ssize_t (*read)(struct storlet_run *run, size_t input, void *buffer, size_t size);

    /* Write all of `data` to an output, without a buffer between. Returns 0, or -1 with errno.
     * After an error the run fails, also if the function returns 0. */
    int (*write)(struct storlet_run *run, size_t output, const void *data, size_t size);

    /* Set the metadata of an output: once, and before its first byte. An output without it has
     * empty metadata. Returns 0, or -1 with errno (EMSGSIZE: larger than the sandbox allows;
     * EALREADY: too late); after an error the run fails. A field without a value is left out. */
    int (*set_metadata)(struct storlet_run *run, size_t output, const struct storlet_field *fields,
                        size_t count);

    /* The descriptor of an output, for system calls and child processes. Sends empty metadata first
     * if none was set. Do not close it. Returns -1 with errno for an output that does not exist.
     * After it, the run fails if the function leaves a child process: that could still write. */
    int (*output_fd)(struct storlet_run *run, size_t output);

    /* Add a line to the invocation's log. Standard output and standard error are in the log, too.
     */
    void (*log)(struct storlet_run *run, const char *line);

    /* Set the message of the failure; the function then returns something other than 0. */
    void (*fail)(struct storlet_run *run, const char *message);

    /* The store. In a run without services each operation fails with EACCES. Absent in workers of
     * the first release: test STORLET_HAS(run, services) if the object may run in one. */
    const struct storlet_services *services;

    /* Inputs that can seek: of a storlet whose metadata declares X-Object-Meta-Storlet-Input:
     * seekable. For all other inputs these three fail with ESPIPE. Absent in workers of the first
     * releases: test STORLET_HAS(run, read_at) if the object may run in one.
     *
     * On the object node the input is the object's own file. Elsewhere ranges of the object are
     * read, up to 1 MiB at a time, and ahead of the storlet if it reads in order. An object that is
     * replaced or cannot be read ends the run. */

    /* The number of bytes of an input. Returns -1 with errno on failure. */
    int64_t (*input_bytes)(struct storlet_run *run, size_t input);

    /* Move the position of the next `read`: `whence` is SEEK_SET, SEEK_CUR or SEEK_END. It may be
     * beyond the end, where `read` gives nothing. Returns the new position, or -1 with errno. */
    int64_t (*seek)(struct storlet_run *run, size_t input, int64_t offset, int whence);

    /* Read `size` bytes at `offset`; the position stays. Returns their number, less than `size`
     * only at the end of the input, or -1 with errno. */
    ssize_t (*read_at)(struct storlet_run *run, size_t input, void *buffer, size_t size,
                       int64_t offset);

    /* A secret of the account, with the value that its owner has set: of a storlet whose metadata
     * declares it, as in X-Object-Meta-Storlet-Secrets: mac-key. `value` gets the address of `size`
     * bytes, with a NUL after them. Returns 0, or -1 with errno (ENOENT: the run has no secret of
     * this name). Do not keep a value for later runs, and do not print it or a part of it. Absent
     * in workers of the first releases: test STORLET_HAS(run, secret) if the object may run in
     * one. */
    int (*secret)(struct storlet_run *run, const char *name, const char **value, size_t *size);

    /* Copy up to `size` bytes from the position of an input to an output; SIZE_MAX: all that are
     * left. The bytes of a file do not pass through the memory of this process, so this takes less
     * than half of the time of `read` and `write`. Returns the number of bytes, less than `size`
     * only at the end of the input, or -1 with errno. After an error the run fails, also if the
     * function returns 0. Absent in workers of the first releases: test STORLET_HAS(run, copy) if
     * the object may run in one. */
    int64_t (*copy)(struct storlet_run *run, size_t output, size_t input, size_t size);
};

/*
 * The function of a storlet. Returns 0 if the run succeeded; anything else is a failure, and
 * nothing of the output is stored. A number of errno names its reason: ENOMEM is reported as
 * storlet.limit.memory, ENOSPC, EFBIG and EDQUOT as storlet.limit.scratch, everything else as
 * storlet.failed.
 */
typedef int storlet_function(struct storlet_run *run);

#ifdef __cplusplus
}
#endif

#endif
