/*
 * System calls of the Java worker that the JDK lacks: waiting on a listening socket that several
 * processes share, messages with descriptors (SCM_RIGHTS), and setting the descriptor of a
 * java.io.FileDescriptor.
 *
 * org.openstack.storlet.daemon.Native calls every function here; its comments are the contract.
 * Failures of system calls become java.io.IOException with the call's name; only EINTR is retried.
 * A function returns or closes every descriptor that it has received.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <jni.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_MAX 65536
#define DESCRIPTORS_MAX 32

/* Results of receive() that are not a length; the same numbers are in Native.java. */
#define RECEIVED_TRUNCATED (-1)
#define RECEIVED_NOTHING (-2)

/* Bytes of one read() or send() of a stream, and of the stack of its thread. */
#define CHUNK_MAX 65536

#define NATIVE(name) Java_org_openstack_storlet_daemon_Native_##name

static int listener = -1;
static int channel = -1;
static int waiter = -1;
static int nowhere = -1;
static bool retiring = false;
static jfieldID descriptor_number;

static void throw_io(JNIEnv *env, const char *call) {
    char text[160];
    char reason[96];
    int error = errno;
    snprintf(text, sizeof text, "%s: %s", call, strerror_r(error, reason, sizeof reason));
    jclass type = (*env)->FindClass(env, "java/io/IOException");
    if (type != NULL) {
        (*env)->ThrowNew(env, type, text);
    }
}

static bool set_flags(int fd, int get, int set, int add, int drop) {
    int flags = fcntl(fd, get);
    if (flags < 0) {
        return false;
    }
    int wanted = (flags | add) & ~drop;
    return wanted == flags || fcntl(fd, set, wanted) == 0;
}

static bool watch(int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(waiter, EPOLL_CTL_ADD, fd, &event) == 0;
}

JNIEXPORT void JNICALL NATIVE(open)(JNIEnv *env, jclass self, jint listen_fd, jint channel_fd) {
    (void)self;
    jclass type = (*env)->FindClass(env, "java/io/FileDescriptor");
    if (type == NULL) {
        return;
    }
    descriptor_number = (*env)->GetFieldID(env, type, "fd", "I");
    if (descriptor_number == NULL) {
        return;
    }
    /* Other storlets of the tenant have the same uid: without this they could read this process's
     * memory and descriptors in /proc. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
        throw_io(env, "prctl");
        return;
    }
    listener = listen_fd;
    channel = channel_fd;
    waiter = epoll_create1(EPOLL_CLOEXEC);
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    /* Close on exec: programs of the storlet must not inherit the sockets, and so the next
     * invocation. */
    if (waiter < 0 || nowhere < 0 || !set_flags(listener, F_GETFD, F_SETFD, FD_CLOEXEC, 0) ||
        !set_flags(channel, F_GETFD, F_SETFD, FD_CLOEXEC, 0) || !set_flags(listener, F_GETFL, F_SETFL, O_NONBLOCK, 0) ||
        !watch(listener, EPOLLIN | EPOLLEXCLUSIVE) || !watch(channel, EPOLLIN | EPOLLRDHUP)) {
        throw_io(env, "prepare the sockets");
    }
}

/* True: another worker may have accepted the connection, or the client disconnected; poll again. */
static bool is_passing(int error) {
    return error == EAGAIN || error == EINTR || error == ECONNABORTED;
}

JNIEXPORT jint JNICALL NATIVE(accept)(JNIEnv *env, jclass self, jboolean drains) {
    (void)env;
    (void)self;
    for (;;) {
        if (!retiring) {
            struct epoll_event events[2];
            int count = epoll_wait(waiter, events, 2, -1);
            if (count < 0 && errno != EINTR) {
                return -1;
            }
            for (int i = 0; i < count; i++) {
                /* The supervisor never sends, so this is its end: serve the rest of the backlog,
                 * then exit. */
                retiring = retiring || events[i].data.fd == channel;
            }
        }
        if (retiring && !drains) {
            return -1;
        }
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection >= 0) {
            return connection;
        }
        if (!is_passing(errno) || (retiring && errno == EAGAIN)) {
            return -1;
        }
    }
}

static bool wait_readable(int connection, int milliseconds) {
    struct pollfd one = {.fd = connection, .events = POLLIN};
    int ready;
    do {
        ready = poll(&one, 1, milliseconds);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/* Return true if a refused message should be retried: for at most five seconds. */
static bool pause_for_room(int *refusals) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 5 * 1000 * 1000};
    nanosleep(&pause, NULL);
    errno = ETOOMANYREFS;
    return ++*refusals < 1000;
}

static int take_descriptors(struct msghdr *message, jint *descriptors) {
    int count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t size = part->cmsg_len - CMSG_LEN(0);
        for (size_t at = 0; at + sizeof(int) <= size; at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
            if (count < DESCRIPTORS_MAX) {
                descriptors[count++] = fd;
            } else {
                close(fd);
            }
        }
    }
    return count;
}

JNIEXPORT jint JNICALL NATIVE(receive)(JNIEnv *env, jclass self, jint connection, jbyteArray buffer, jintArray into,
                                       jint milliseconds) {
    (void)self;
    /* On the stack, because threads of a storlet receive replies of the store; see send(). */
    char received[MESSAGE_MAX];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    } control;
    struct iovec data = {.iov_base = received, .iov_len = sizeof received};
    struct msghdr message;
    ssize_t length;
    for (;;) {
        memset(&message, 0, sizeof message);
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        length = recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (length >= 0) {
            break;
        }
        if (errno == EAGAIN) {
            if (!wait_readable(connection, milliseconds)) {
                return RECEIVED_NOTHING;
            }
        } else if (errno != EINTR) {
            throw_io(env, "recvmsg");
            return 0;
        }
    }
    jint descriptors[1 + DESCRIPTORS_MAX];
    int count = take_descriptors(&message, descriptors + 1);
    if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        for (int i = 1; i <= count; i++) {
            close(descriptors[i]);
        }
        count = 0;
        length = RECEIVED_TRUNCATED;
    }
    descriptors[0] = count;
    (*env)->SetIntArrayRegion(env, into, 0, 1 + count, descriptors);
    if (length <= 0) {
        return (jint)length;
    }
    (*env)->SetByteArrayRegion(env, buffer, 0, (jsize)length, (const jbyte *)received);
    return (jint)length;
}

JNIEXPORT void JNICALL NATIVE(send)(JNIEnv *env, jclass self, jint socket, jbyteArray buffer, jint length, jint passed) {
    (void)self;
    if (length < 0 || length > MESSAGE_MAX) {
        errno = EMSGSIZE;
        throw_io(env, "sendmsg");
        return;
    }
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    /* On the stack, because several threads of a storlet may send; the smallest stack is larger
     * than this. */
    char bytes[length > 4096 ? MESSAGE_MAX : 4096];
    (*env)->GetByteArrayRegion(env, buffer, 0, length, (jbyte *)bytes);
    if ((*env)->ExceptionCheck(env)) {
        return;
    }
    struct iovec data = {.iov_base = bytes, .iov_len = (size_t)length};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (passed >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(part), &passed, sizeof passed);
    }
    ssize_t sent;
    int refusals = 0;
    do {
        /* On older kernels a worker may use sendmsg() on the channel only. */
        sent = passed >= 0 ? sendmsg(socket, &message, MSG_NOSIGNAL)
                           : send(socket, bytes, (size_t)length, MSG_NOSIGNAL);
        /* The kernel limits descriptors in flight per user: another storlet of the account can use
         * them up. */
    } while (sent < 0 && (errno == EINTR || (errno == ETOOMANYREFS && pause_for_room(&refusals))));
    if (sent < 0) {
        throw_io(env, "sendmsg");
    }
}

JNIEXPORT void JNICALL NATIVE(close)(JNIEnv *env, jclass self, jint fd) {
    (void)env;
    (void)self;
    close(fd);
}

JNIEXPORT jint JNICALL NATIVE(read)(JNIEnv *env, jclass self, jint fd, jbyteArray into, jint offset, jint length) {
    (void)self;
    /* The JVM may move the array while this thread waits, so the bytes are copied. */
    char bytes[CHUNK_MAX];
    ssize_t count;
    do {
        count = read(fd, bytes, length < CHUNK_MAX ? (size_t)length : CHUNK_MAX);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        throw_io(env, "read");
        return 0;
    }
    (*env)->SetByteArrayRegion(env, into, offset, (jsize)count, (const jbyte *)bytes);
    return (jint)count;
}

JNIEXPORT void JNICALL NATIVE(write)(JNIEnv *env, jclass self, jint fd, jbyteArray from, jint offset, jint length) {
    (void)self;
    char bytes[CHUNK_MAX];
    while (length > 0) {
        jint size = length < CHUNK_MAX ? length : CHUNK_MAX;
        (*env)->GetByteArrayRegion(env, from, offset, size, (jbyte *)bytes);
        if ((*env)->ExceptionCheck(env)) {
            return;
        }
        for (jint at = 0; at < size;) {
            ssize_t count = send(fd, bytes + at, (size_t)(size - at), MSG_NOSIGNAL);
            if (count >= 0) {
                at += (jint)count;
            } else if (errno != EINTR) {
                throw_io(env, "send");
                return;
            }
        }
        offset += size;
        length -= size;
    }
}

JNIEXPORT void JNICALL NATIVE(shutdown)(JNIEnv *env, jclass self, jint socket) {
    (void)env;
    (void)self;
    shutdown(socket, SHUT_RDWR);
}

JNIEXPORT void JNICALL NATIVE(block)(JNIEnv *env, jclass self, jint fd) {
    (void)self;
    if (!set_flags(fd, F_GETFL, F_SETFL, 0, O_NONBLOCK)) {
        throw_io(env, "fcntl");
    }
}

JNIEXPORT jlong JNICALL NATIVE(offset)(JNIEnv *env, jclass self, jint fd) {
    (void)env;
    (void)self;
    return lseek(fd, 0, SEEK_CUR);
}

JNIEXPORT void JNICALL NATIVE(adopt)(JNIEnv *env, jclass self, jobject descriptor, jint fd) {
    (void)self;
    /* Java streams treat EAGAIN as an error, so a pipe must block; the flag affects only this end
     * of the pipe. */
    if (!set_flags(fd, F_GETFL, F_SETFL, 0, O_NONBLOCK)) {
        throw_io(env, "adopt a descriptor");
        return;
    }
    (*env)->SetIntField(env, descriptor, descriptor_number, fd);
}

JNIEXPORT void JNICALL NATIVE(redirect)(JNIEnv *env, jclass self, jint fd) {
    (void)env;
    (void)self;
    dup2(fd >= 0 ? fd : nowhere, STDOUT_FILENO);
    dup2(fd >= 0 ? fd : nowhere, STDERR_FILENO);
}

static jlong microseconds(const struct rusage *usage) {
    return ((jlong)usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 + usage->ru_utime.tv_usec +
           usage->ru_stime.tv_usec;
}

JNIEXPORT void JNICALL NATIVE(usage)(JNIEnv *env, jclass self, jlongArray into) {
    (void)self;
    struct rusage own;
    struct rusage children;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    long peak_kilobytes = own.ru_maxrss > children.ru_maxrss ? own.ru_maxrss : children.ru_maxrss;
    jlong values[2] = {microseconds(&own) + microseconds(&children), (jlong)peak_kilobytes * 1024};
    (*env)->SetLongArrayRegion(env, into, 0, 2, values);
}

JNIEXPORT jboolean JNICALL NATIVE(hasChildren)(JNIEnv *env, jclass self) {
    (void)env;
    (void)self;
    siginfo_t child;
    /* WNOWAIT: the exit status belongs to the JDK's own reaper thread. */
    return waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0;
}
