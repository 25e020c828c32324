package org.openstack.storlet.daemon;

import java.io.IOException;
import java.io.InputStream;

/**
 * Writes the input of a called storlet in a thread of its own: the called storlet may give output
 * before it has read all.
 *
 * <p>The thread is no daemon: a process whose run leaves it behind is replaced.
 */
final class CallInput implements Runnable {
    private static final int PIECE_BYTES = 64 * 1024;
    private static final int LENGTH_BYTES = 4;

    private final ServiceChannel channel;
    private final long id;
    private final SharedDescriptor descriptor;
    private final InputStream source;
    private volatile Throwable fault;

    /**
     * @param id of the call
     * @param descriptor of the channel, the writing end of the stream, which the thread closes
     */
    CallInput(ServiceChannel channel, long id, SharedDescriptor descriptor, InputStream source) {
        this.channel = channel;
        this.id = id;
        this.descriptor = descriptor;
        this.source = source;
        new Thread(this, "storlet call").start();
    }

    long id() {
        return id;
    }

    @Override
    public void run() {
        byte[] frame = new byte[LENGTH_BYTES + PIECE_BYTES];
        try {
            int count;
            do {
                // Without an empty frame at the end the input counts as incomplete.
                count = Math.max(0, source.read(frame, LENGTH_BYTES, PIECE_BYTES));
                for (int i = 0; i < LENGTH_BYTES; i++) {
                    frame[i] = (byte) (count >>> 8 * (LENGTH_BYTES - 1 - i));
                }
            } while (write(frame, LENGTH_BYTES + count) && count > 0);
        } catch (Throwable raised) {
            fault = raised;
        } finally {
            close();
        }
    }

    /** False if the called storlet reads no more. */
    private boolean write(byte[] frame, int length) {
        int number = descriptor.enter();
        if (number < 0) {
            return false;
        }
        try {
            Native.write(number, frame, 0, length);
            return true;
        } catch (IOException ended) {
            return false;
        } finally {
            descriptor.leave();
        }
    }

    /** Throws the exception with which the source could not be read. */
    void requireSource() throws IOException {
        if (fault instanceof IOException failed) {
            throw failed;
        }
        if (fault != null) {
            throw new IOException("the input of the called storlet could not be read", fault);
        }
    }

    /** Ends the thread as soon as it writes. */
    void close() {
        channel.release(descriptor);
    }
}
