/*
 * A hostile storlet in C, as a shared object in the worker itself. The parameter "do" names the
 * attack; the output is a JSON object with a text for each try: "no: ..." or "got ...".
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <storlet.h>

#include <tested.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

#define REPORT_BYTES 65536

static char report[REPORT_BYTES];
static size_t used;

/* Note one try; `result` is that of a system call. */
static void note(const char *name, long result) {
    const char *mark = used > 0 ? "," : "{";
    int size;
    if (result < 0) {
        size = snprintf(report + used, sizeof report - used, "%s\"%s\":\"no: %s\"", mark, name,
                        strerror(errno));
    } else {
        size = snprintf(report + used, sizeof report - used, "%s\"%s\":\"got %ld\"", mark, name,
                        result);
    }
    used += (size_t)size;
}

static int send_report(struct storlet_run *run) {
    int size = snprintf(report + used, sizeof report - used, "%s}", used > 0 ? "" : "{");
    used += (size_t)size;
    return run->write(run, 0, report, used) == 0 ? 0 : errno;
}

static int identity(struct storlet_run *run) {
    char data[65536];
    ssize_t size;
    while ((size = run->read(run, 0, data, sizeof data)) > 0) {
        if (run->write(run, 0, data, (size_t)size) != 0) {
            return errno;
        }
    }
    return size < 0 ? errno : 0;
}

/* System calls by number, past the C library. */
static int calls(struct storlet_run *run) {
    static const struct {
        const char *name;
        long number;
        long first;
    } tried[] = {
        {"ptrace", SYS_ptrace, PTRACE_TRACEME}, {"bpf", SYS_bpf, 0},
        {"mount", SYS_mount, 0},                {"umount2", SYS_umount2, 0},
        {"unshare", SYS_unshare, 0x10000000},   {"setns", SYS_setns, 0},
        {"keyctl", SYS_keyctl, 0},              {"add_key", SYS_add_key, 0},
        {"io_uring_setup", SYS_io_uring_setup, 1}, {"userfaultfd", SYS_userfaultfd, 0},
        {"perf_event_open", SYS_perf_event_open, 0}, {"process_vm_readv", SYS_process_vm_readv, 1},
        {"process_vm_writev", SYS_process_vm_writev, 1}, {"kexec_load", SYS_kexec_load, 0},
        {"init_module", SYS_init_module, 0},    {"reboot", SYS_reboot, 0xfee1dead},
        {"swapon", SYS_swapon, 0},              {"pivot_root", SYS_pivot_root, 0},
        {"chroot", SYS_chroot, 0},              {"syslog", SYS_syslog, 3},
        {"quotactl", SYS_quotactl, 0},          {"open_by_handle_at", SYS_open_by_handle_at, 0},
        {"pidfd_getfd", SYS_pidfd_getfd, 0},    {"fsopen", SYS_fsopen, 0},
        {"open_tree", SYS_open_tree, 0},        {"move_mount", SYS_move_mount, 0},
        {"memfd_secret", 447, 0},               {"seccomp", SYS_seccomp, 0},
        {"clone3", SYS_clone3, 0},              {"vmsplice", SYS_vmsplice, 1},
    };
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        note(tried[i].name, syscall(tried[i].number, tried[i].first, 0, 0, 0, 0, 0));
    }
    /* A new namespace by clone, with the flags of a container. */
    long child = syscall(SYS_clone, 0x10000000 | 0x20000000 | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        _exit(0);
    }
    note("clone into new namespaces", child);
    return send_report(run);
}

static bool is_own(pid_t pid) { return pid == getpid() || pid == getppid(); }

/* Other processes of the sandbox: the supervisor, and workers of the tenant's other storlets. */
static int neighbours(struct storlet_run *run) {
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        char name[80];
        char path[64];
        char data[16];
        struct iovec own = {data, sizeof data};
        struct iovec other = {(void *)0x1000, sizeof data};
        if (pid <= 0 || pid == getpid()) {
            continue;
        }
        snprintf(name, sizeof name, "ptrace %d", pid);
        note(name, ptrace(PTRACE_ATTACH, pid, 0, 0));
        snprintf(name, sizeof name, "seize %d", pid);
        note(name, ptrace(PTRACE_SEIZE, pid, 0, 0));
        snprintf(name, sizeof name, "read memory of %d", pid);
        note(name, process_vm_readv(pid, &own, 1, &other, 1, 0));
        snprintf(path, sizeof path, "/proc/%d/mem", pid);
        note(path, open(path, O_RDWR | O_CLOEXEC));
        snprintf(path, sizeof path, "/proc/%d/fd/0", pid);
        note(path, open(path, O_RDONLY | O_CLOEXEC));
        snprintf(path, sizeof path, "/proc/%d/environ", pid);
        note(path, open(path, O_RDONLY | O_CLOEXEC));
        if (!is_own(pid)) {
            snprintf(name, sizeof name, "signal %d", pid);
            note(name, kill(pid, SIGTERM));
        }
    }
    if (processes != NULL) {
        closedir(processes);
    }
    return send_report(run);
}

/* The object's file, by each way to change it. */
static int donated(struct storlet_run *run) {
    int fd = run->inputs[0].fd;
    struct stat status;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    used = (size_t)snprintf(report, sizeof report, "{\"kind\":\"%s\"", is_file ? "file" : "stream");
    note("write", write(fd, "x", 1));
    note("pwrite", pwrite(fd, "x", 1, 0));
    note("truncate", ftruncate(fd, 0));
    note("open to write", open(path, O_WRONLY | O_CLOEXEC));
    note("open to read and write", open(path, O_RDWR | O_CLOEXEC));
    note("open and truncate", open(path, O_WRONLY | O_TRUNC | O_CLOEXEC));
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    note("map to write", shared == MAP_FAILED ? -1 : 0);
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    note("map, then write", mapped == MAP_FAILED ? -1 : mprotect(mapped, 4096, PROT_READ | PROT_WRITE));
    note("mode", fchmod(fd, 0666));
    note("owner", fchown(fd, getuid(), getgid()));
    note("attribute", fsetxattr(fd, "user.swift.metadata", "x", 1, 0));
    note("remove attribute", fremovexattr(fd, "user.swift.metadata"));
    note("allocate", fallocate(fd, 0, 0, 1 << 20));
    note("punch a hole", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1));
    note("link", linkat(fd, "", AT_FDCWD, "/tmp/linked", AT_EMPTY_PATH));
    note("link by name", linkat(AT_FDCWD, path, AT_FDCWD, "/tmp/linked", AT_SYMLINK_FOLLOW));
    if (mapped != MAP_FAILED) {
        munmap(mapped, 4096);
    }
    return send_report(run);
}

/* The descriptor of the filter's connection: a socket above the channel that is connected. */
static int connection(void) {
    for (int fd = 5; fd < 64; fd++) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        int kind = 0;
        socklen_t length = sizeof kind;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
            getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 && kind == SOCK_SEQPACKET) {
            return fd;
        }
    }
    return -1;
}

/* A worker that answers the protocol wrongly on purpose: to the filter, and to the supervisor. */
static int lie(struct storlet_run *run) {
    const char *text = parameter(run, "text");
    bool is_for_filter = strcmp(parameter(run, "to"), "filter") == 0;
    int target = is_for_filter ? connection() : 4;
    run->write(run, 0, "half", 4);
    send(target, text, strlen(text), MSG_NOSIGNAL);
    if (strcmp(parameter(run, "then"), "exit") == 0) {
        _exit(0);
    }
    return EPROTO;
}

static const char *asked; /* a path */

/* Valid requests without end. Their replies are not read. */
static void flood(int target, const char *type, long first) {
    for (long id = first;; id++) {
        char text[512];
        int size = snprintf(text, sizeof text, "{\"type\":\"%s\",\"id\":%ld,\"path\":\"%s\"}", type,
                            id, asked);
        if (send(target, text, (size_t)size, MSG_NOSIGNAL) < 0) {
            pause();
        }
    }
}

/* Send descriptors, which the other end must not take. */
static int send_descriptors(int target) {
    char control[CMSG_SPACE(sizeof(int))] = {0};
    char text[] = "{\"type\":\"stat\",\"id\":1,\"path\":\"/c/o\"}";
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memset(CMSG_DATA(rights), 0, sizeof(int));
    return sendmsg(target, &message, MSG_NOSIGNAL) < 0 ? errno : EPROTO;
}

/* Uses the services until the run is killed, beside the other threads. */
static void *use_services(void *given) {
    struct storlet_run *run = given;
    for (;;) {
        struct storlet_error error = STORLET_ERROR;
        const struct storlet_file *file;
        char data[100];
        if (run->services->open(run, asked, NULL, &file, &error) == 0) {
            run->services->read(run, file, data, sizeof data, &error);
        }
        run->services->close(run, (const struct storlet_file *)(uintptr_t)0x1000);
        run->services->remove(run, "/nowhere/at-all", &error);
    }
    return NULL;
}

/* Wrong uses of the services, by the socket and by the functions. */
static int services(struct storlet_run *run) {
    const char *way = parameter(run, "way");
    int target = services_socket();
    asked = parameter(run, "object");
    if (strcmp(way, "garbage") == 0) {
        send(target, "\xff{[", 3, MSG_NOSIGNAL);
    } else if (strcmp(way, "empty") == 0) {
        send(target, "", 0, MSG_NOSIGNAL);
    } else if (strcmp(way, "large") == 0) {
        static char large[150000];
        memset(large, '[', sizeof large);
        send(target, large, sizeof large, MSG_NOSIGNAL);
    } else if (strcmp(way, "descriptors") == 0) {
        return send_descriptors(target);
    } else if (strcmp(way, "stats") == 0) {
        flood(target, "stat", 1);
    } else if (strcmp(way, "opens") == 0) {
        flood(target, "open", 1);
    } else if (strcmp(way, "backwards") == 0) {
        flood(target, "stat", -5);
    } else if (strcmp(way, "close") == 0) {
        close(target);
        struct storlet_error error = STORLET_ERROR;
        const struct storlet_object *object;
        return run->services->stat(run, asked, &object, &error) == 0 ? 0 : error.number;
    } else if (strcmp(way, "leave") == 0) {
        pthread_t thread;
        return pthread_create(&thread, NULL, use_services, run) == 0 ? EPROTO : EAGAIN;
    } else {
        pthread_t thread;
        for (int i = 0; i < 40; i++) {
            pthread_create(&thread, NULL, use_services, run);
        }
    }
    pause();
    return 0;
}

/* The sockets by which the worker reads inputs that can seek: all streams but the output. */
static size_t input_sockets(struct storlet_run *run, int *sockets, size_t most) {
    int output = run->output_fd(run, 0);
    size_t count = 0;
    for (int fd = 5; fd < 128 && count < most; fd++) {
        int kind = 0;
        socklen_t length = sizeof kind;
        if (fd != output && getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 &&
            kind == SOCK_STREAM) {
            sockets[count++] = fd;
        }
    }
    return count;
}

/* Request bytes of an input, past the worker. */
static void ask(int socket, uint64_t first, uint64_t length) {
    unsigned char request[16];
    for (int i = 0; i < 8; i++) {
        request[i] = (unsigned char)(first >> (56 - 8 * i));
        request[8 + i] = (unsigned char)(length >> (56 - 8 * i));
    }
    send(socket, request, sizeof request, MSG_NOSIGNAL);
}

/* A read that is not inside of the object, or is too long. */
static int outside(struct storlet_run *run) {
    uint64_t size = (uint64_t)run->input_bytes(run, 0);
    const struct {
        const char *way;
        uint64_t first, length;
    } ranges[] = {{"far", (uint64_t)1 << 63, (uint64_t)1 << 63}, {"past", size, 1},
                 {"across", size - 1, 2}, {"long", 0, (1 << 20) + 1}, {"empty", 0, 0}};
    int sockets[32];
    char byte;
    size_t count = input_sockets(run, sockets, 32);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (strcmp(ranges[i].way, parameter(run, "way")) == 0 && count > 0) {
            ask(sockets[0], ranges[i].first, ranges[i].length);
            recv(sockets[0], &byte, 1, 0);
        }
    }
    /* Also if no socket was found: a failure of this function would look like a refusal. */
    return run->write(run, 0, "got through", 11) == 0 ? 0 : errno;
}

/* Reads of single bytes, without end. */
static int flood_reads(struct storlet_run *run) {
    uint64_t size = (uint64_t)run->input_bytes(run, 0);
    int sockets[32];
    size_t count = input_sockets(run, sockets, 32);
    while (count > 0) {
        for (size_t i = 0; i < count; i++) {
            char byte;
            ask(sockets[i], (uint64_t)rand() % size, 1);
            if (recv(sockets[i], &byte, 1, 0) != 1) {
                pause();
            }
        }
    }
    return run->write(run, 0, "no socket", 9) == 0 ? 0 : errno;
}

/* Reads through the worker, whose functions are for one thread at a time. */
static void *use_inputs(void *given) {
    struct storlet_run *run = given;
    char data[4096];
    for (;;) {
        for (size_t i = 0; i < run->input_count; i++) {
            run->seek(run, i, rand(), SEEK_SET);
            run->read(run, i, data, sizeof data);
            run->read_at(run, i, data, sizeof data, rand() % (1 << 24));
        }
    }
    return NULL;
}

static int race_reads(struct storlet_run *run) {
    pthread_t thread;
    for (int i = 0; i < 8; i++) {
        pthread_create(&thread, NULL, use_inputs, run);
    }
    pause();
    return 0;
}

int hostile(struct storlet_run *run) {
    static const struct {
        const char *name;
        storlet_function *function;
    } attacks[] = {{"identity", identity}, {"calls", calls}, {"neighbours", neighbours},
                   {"donated", donated},   {"lie", lie},
                   {"services", services}, {"outside", outside},
                   {"flood_reads", flood_reads}, {"race_reads", race_reads}};
    used = 0;
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
        if (strcmp(attacks[i].name, parameter(run, "do")) == 0) {
            return attacks[i].function(run);
        }
    }
    return EINVAL;
}
