package org.openstack.storlet.daemon;

import java.io.FileDescriptor;
import java.io.IOException;

/** System calls that the JDK lacks; the C side is {@code jni/storletjni.c}. */
final class Native {
    /** Longest message, in bytes. */
    static final int MESSAGE_MAX = 65536;

    /** Most descriptors on one message. */
    static final int DESCRIPTORS_MAX = 32;

    /**
     * Result of {@link #receive}: message or descriptors did not fit; received descriptors are
     * closed.
     */
    static final int TRUNCATED = -1;

    /** Result of {@link #receive}: nothing arrived in the given time. */
    static final int NOTHING = -2;

    /** A time for {@link #receive}: it waits until a message or the end of the connection. */
    static final int NO_LIMIT = -1;

    private Native() {}

    /**
     * Takes over the shared listening socket and the channel to the supervisor. Called once,
     * before any other method.
     */
    static native void open(int listener, int channel) throws IOException;

    /**
     * Waits for the next connection.
     *
     * @param drains true to accept queued connections after the supervisor has hung up
     * @return its descriptor; -1 if the supervisor has hung up and no connection is queued, or the
     *     listening socket is closed
     */
    static native int accept(boolean drains);

    /**
     * Waits for one message.
     *
     * @param buffer of {@link #MESSAGE_MAX} bytes, filled from its start
     * @param descriptors element 0 becomes the number of received descriptors, which follow it; the
     *     caller owns them
     * @param milliseconds longest wait, or {@link #NO_LIMIT}
     * @return bytes received (0: the peer hung up), {@link #TRUNCATED} or {@link #NOTHING}
     */
    static native int receive(int connection, byte[] buffer, int[] descriptors, int milliseconds) throws IOException;

    /** Sends one message, with a copy of {@code passed} unless negative. Blocks on a slow peer. */
    static native void send(int socket, byte[] buffer, int length, int passed) throws IOException;

    static native void close(int descriptor);

    /**
     * Reads from a stream, at most 64 KiB at once.
     *
     * @return the number of bytes, at least one unless {@code length} is 0; 0 at the end
     */
    static native int read(int descriptor, byte[] buffer, int offset, int length) throws IOException;

    /** Writes all bytes to a stream; blocks on a slow peer. */
    static native void write(int descriptor, byte[] buffer, int offset, int length) throws IOException;

    /** Ends both directions of a socket, and with them all calls that wait on it. */
    static native void shutdown(int socket);

    /** Makes a descriptor blocking. */
    static native void block(int descriptor) throws IOException;

    /** The file offset, or -1 when there is none. */
    static native long offset(int descriptor);

    /** Passes a descriptor to {@code into}, which then owns it, and makes it blocking. */
    static native void adopt(FileDescriptor into, int descriptor) throws IOException;

    /**
     * Points descriptors 1 and 2 at an open file, or at /dev/null if negative, for child programs.
     */
    static native void redirect(int descriptor);

    /**
     * Element 0: CPU time in microseconds, with reaped children; element 1: peak memory in bytes.
     */
    static native void usage(long[] into);

    /** True if any child process is left, running or unreaped. */
    static native boolean hasChildren();
}
