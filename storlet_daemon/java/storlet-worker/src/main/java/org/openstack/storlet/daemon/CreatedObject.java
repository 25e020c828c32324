package org.openstack.storlet.daemon;

import java.io.IOException;
import java.util.Objects;
import org.openstack.storlet.internal.ErrorCodes;
import org.openstack.storlet.services.ServiceException;
import org.openstack.storlet.services.StoredOutputStream;

/** An object that a storlet creates: its bytes are gathered and counted, and sent to the store. */
final class CreatedObject extends StoredOutputStream {
    private static final int BUFFER_BYTES = 64 * 1024;

    /** A write later than this after the last flush is flushed at once: it counts as progress. */
    private static final long FLUSH_NANOSECONDS = 100_000_000;

    private final ServiceChannel channel;
    private final long file;
    private final SharedDescriptor descriptor;
    private final byte[] buffer = new byte[BUFFER_BYTES];
    private int gathered;
    private long sent;
    private long flushedAt = System.nanoTime() - FLUSH_NANOSECONDS;
    private boolean isComplete;

    /** Takes over {@code descriptor}, the writing end of the stream of the request {@code file}. */
    CreatedObject(ServiceChannel channel, long file, SharedDescriptor descriptor) {
        this.channel = channel;
        this.file = file;
        this.descriptor = descriptor;
    }

    @Override
    public void write(int b) throws IOException {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public synchronized void write(byte[] b, int off, int len) throws IOException {
        Objects.checkFromIndexSize(off, len, b.length);
        requireOpen();
        if (len > BUFFER_BYTES - gathered) {
            flush();
        }
        if (len >= BUFFER_BYTES) {
            send(b, off, len);
        } else {
            System.arraycopy(b, off, buffer, gathered, len);
            gathered += len;
        }
        if (System.nanoTime() - flushedAt >= FLUSH_NANOSECONDS) {
            flush();
        }
    }

    @Override
    public synchronized void flush() throws IOException {
        requireOpen();
        int count = gathered;
        gathered = 0;
        send(buffer, 0, count);
        flushedAt = System.nanoTime();
    }

    private void requireOpen() throws IOException {
        channel.requireRun();
        if (descriptor.isClosed()) {
            throw new IOException("the stream is closed");
        }
    }

    private void send(byte[] bytes, int from, int count) throws IOException {
        int number = descriptor.enter();
        if (number < 0) {
            requireOpen();
        }
        try {
            Native.write(number, bytes, from, count);
        } catch (IOException cause) {
            throw refused(cause);
        } finally {
            descriptor.leave();
        }
        sent += count;
    }

    /** The store has closed the stream; its reason is the reply to the end of the object. */
    private IOException refused(IOException cause) throws IOException {
        release();
        finish();
        return new ServiceException("the store takes no more bytes: " + cause.getMessage(), ErrorCodes.SERVICE_GONE, 503);
    }

    private void finish() throws IOException {
        channel.requireRun();
        channel.ask(new ServiceRequest("close", "write").count("file", file).count("bytes", sent));
    }

    /** Closes the stream, which is no end of the object. */
    @Override
    public synchronized void close() throws IOException {
        if (descriptor.isClosed()) {
            return;
        }
        try {
            flush();
        } finally {
            release();
        }
    }

    private void release() {
        channel.release(descriptor);
    }

    @Override
    public synchronized void complete() throws IOException {
        if (isComplete) {
            return;
        }
        close();
        finish();
        isComplete = true;
    }

    @Override
    public synchronized void discard() throws IOException {
        release();
        gathered = 0;
        channel.ask(new ServiceRequest("discard", "write").count("file", file));
    }
}
