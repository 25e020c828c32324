package org.openstack.storlet.daemon;

/**
 * A descriptor of a socket that several threads use, and that any thread may close.
 *
 * <p>Its number stays taken until the last thread has left its system call. Otherwise the process
 * could give the number to another file, which such a thread would then read or write: a file of
 * the next invocation, if the thread was left behind by an earlier one.
 */
final class SharedDescriptor {
    private final int number;
    private int users;
    private boolean isClosed;

    /** Takes over the descriptor {@code number}. */
    SharedDescriptor(int number) {
        this.number = number;
    }

    /**
     * The number, for one system call; -1 when it is closed. {@link #leave} must follow, unless it
     * is -1.
     */
    synchronized int enter() {
        if (isClosed) {
            return -1;
        }
        users++;
        return number;
    }

    synchronized void leave() {
        users--;
        if (isClosed && users == 0) {
            Native.close(number);
        }
    }

    synchronized boolean isClosed() {
        return isClosed;
    }

    /** Closes it, and ends the system calls that threads wait in; more than once is fine. */
    synchronized void close() {
        if (isClosed) {
            return;
        }
        isClosed = true;
        if (users == 0) {
            Native.close(number);
        } else {
            Native.shutdown(number);
        }
    }
}
