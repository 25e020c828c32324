/*
 * Loaded before User-Mode Linux (LD_PRELOAD), so that it works on processors with AMX.
 *
 * The kernel accepts PTRACE_SETREGSET for NT_X86_XSTATE only with the whole state.  User-Mode Linux
 * has a buffer of 2,696 bytes, which ends before the state of AMX; the call fails with EFAULT, and
 * the second kernel panics ("ptrace set fp regs failed").  So the rest of the state is completed
 * here, without AMX, which nothing in the second kernel uses.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#define STATE_BYTES 65536
#define HEADER_OFFSET 512 /* of XSTATE_BV in the standard format */
#define AMX_BITS ((uint64_t)3 << 17)

typedef long (*ptrace_call)(enum __ptrace_request, pid_t, void *, void *);

static long set_state(ptrace_call next, pid_t pid, void *address, struct iovec *given)
{
    static unsigned char state[STATE_BYTES] __attribute__((aligned(64)));
    struct iovec whole = {state, sizeof state};
    uint64_t bits;

    if (next(PTRACE_GETREGSET, pid, address, &whole) < 0)
        return -1;
    memcpy(state, given->iov_base, given->iov_len < whole.iov_len ? given->iov_len : whole.iov_len);
    memcpy(&bits, state + HEADER_OFFSET, sizeof bits);
    bits &= ~AMX_BITS;
    memcpy(state + HEADER_OFFSET, &bits, sizeof bits);
    return next(PTRACE_SETREGSET, pid, address, &whole);
}

long ptrace(enum __ptrace_request request, ...)
{
    static ptrace_call next;
    va_list arguments;
    pid_t pid;
    void *address, *data;

    va_start(arguments, request);
    pid = va_arg(arguments, pid_t);
    address = va_arg(arguments, void *);
    data = va_arg(arguments, void *);
    va_end(arguments);
    if (!next)
        next = (ptrace_call)dlsym(RTLD_NEXT, "ptrace");
    if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE)
        return set_state(next, pid, address, data);
    return next(request, pid, address, data);
}
