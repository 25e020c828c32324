package org.openstack.storlet.daemon;

import java.io.FileDescriptor;
import java.io.IOException;

/** System calls that the JDK does not offer; the C side is {@code jni/storletjni.c}. Descriptors are plain numbers here. */
final class Native {
    /** Longest message, in bytes. */
    static final int MESSAGE_MAX = 65536;

    /** Most descriptors on one message. */
    static final int DESCRIPTORS_MAX = 32;

    /** Result of {@link #receive}: message or descriptors did not fit; what had arrived is closed. */
    static final int TRUNCATED = -1;

    /** Result of {@link #receive}: nothing arrived for ten seconds. */
    static final int NOTHING = -2;

    private Native() {}

    /** Takes over the shared listening socket and the channel to the supervisor. Once, before anything else. */
    static native void open(int listener, int channel) throws IOException;

    /**
     * Waits for the next connection.
     *
     * @param drains whether connections that wait already are still taken when the supervisor has hung up
     * @return its descriptor, or -1: the supervisor has hung up and nobody waits, or the listening socket is gone
     */
    static native int accept(boolean drains);

    /**
     * Waits for one message.
     *
     * @param buffer of {@link #MESSAGE_MAX} bytes, filled from its start
     * @param descriptors element 0 becomes the number of descriptors received, which follow it; the caller owns them
     * @return bytes received (0: the peer hung up), {@link #TRUNCATED} or {@link #NOTHING}
     */
    static native int receive(int connection, byte[] buffer, int[] descriptors) throws IOException;

    /** Sends one message, with a copy of the descriptor {@code passed} unless that is negative. Blocks while the peer is slow. */
    static native void send(int socket, byte[] buffer, int length, int passed) throws IOException;

    static native void close(int descriptor);

    /** The file offset, or -1 when there is none. */
    static native long offset(int descriptor);

    /** Makes {@code into} stand for a descriptor, which it owns from then on, and makes that one blocking. */
    static native void adopt(FileDescriptor into, int descriptor) throws IOException;

    /** Points descriptors 1 and 2 at an open file, or with a negative number at /dev/null. For programs that the storlet starts. */
    static native void redirect(int descriptor);

    /** Element 0: microseconds of processor time of this process and its ended children; element 1: peak memory in bytes. */
    static native void usage(long[] into);

    /** Is any child process left, running or not yet waited for? */
    static native boolean hasChildren();
}
