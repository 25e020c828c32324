/* Preloaded into User-Mode Linux by test_control_groups_v2.py.
 *
 * The buffer of its kernel 6.1 for the registers of a process (XSAVE) is too small for processors
 * with AMX. It reads a part of the registers and writes that part back. The host refuses a partial
 * write with EFAULT ("userspace - ptrace set fp regs failed", then a panic). This library turns a
 * partial write into a full one, which leaves the other registers unchanged.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static char registers[64 * 1024];

long ptrace(enum __ptrace_request request, ...)
{
    static long (*real)(enum __ptrace_request, ...);
    va_list arguments;
    va_start(arguments, request);
    int pid = va_arg(arguments, int);
    void *address = va_arg(arguments, void *);
    void *data = va_arg(arguments, void *);
    va_end(arguments);
    if (!real)
        real = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
    if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
        struct iovec *part = data, whole = {registers, sizeof registers};
        if (real(PTRACE_GETREGSET, pid, address, &whole) == 0 && whole.iov_len > part->iov_len) {
            memcpy(registers, part->iov_base, part->iov_len);
            return real(PTRACE_SETREGSET, pid, address, &whole);
        }
    }
    return real(request, pid, address, data);
}
