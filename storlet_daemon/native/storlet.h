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
 * a NUL. The functions of `run` must be called from one thread at a time.
 *
 * The version changes only if the meaning or the place of a field changes. New fields are added at
 * the end of `struct storlet_run`; `size` says which are there.
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

/* A name and its value: a parameter, or one entry of metadata. */
struct storlet_field {
    const char *name;
    const char *value;
};

/* One input. */
struct storlet_input {
    /* The descriptor, at the first byte of the input; for system calls and libraries that need one.
     * -1 if the input is a part of a file that ends before the file does: use `read`. */
    int fd;
    /* The user metadata of the object. */
    size_t metadata_count;
    const struct storlet_field *metadata;
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
