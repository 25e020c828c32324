package org.openstack.storlet.daemon;

import java.io.IOException;
import java.io.OutputStream;
import java.util.Objects;
import org.openstack.storlet.internal.Inputs;
import org.openstack.storlet.services.Stat;
import org.openstack.storlet.services.StoredInputStream;

/** An object that a storlet has opened: an {@link ObjectReader} with a buffer for small reads. */
class StoredObject extends StoredInputStream {
    private static final int BUFFER_BYTES = 64 * 1024;

    private final ObjectReader reader;
    private byte[] buffer;

    /** The next byte in the buffer, and the end of its bytes, which is the reader's position. */
    private int next;
    private int limit;

    StoredObject(ObjectReader reader, Stat stat) {
        super(stat);
        this.reader = reader;
    }

    @Override
    public synchronized void seek(long position) throws IOException {
        reader.requireOpen();
        long start = reader.position() - limit;
        if (reader.isSeekable() && position >= start && position <= start + limit) {
            next = (int) (position - start);
        } else {
            reader.seek(position);
            next = limit = 0;
        }
    }

    @Override
    public synchronized long position() throws IOException {
        reader.requireOpen();
        return reader.position() - (limit - next);
    }

    @Override
    public boolean isSeekable() {
        return reader.isSeekable();
    }

    @Override
    public synchronized int read() throws IOException {
        reader.requireOpen();
        return next < limit || fill() ? buffer[next++] & 0xff : -1;
    }

    @Override
    public synchronized int read(byte[] b, int off, int len) throws IOException {
        Objects.checkFromIndexSize(off, len, b.length);
        reader.requireOpen();
        if (len == 0) {
            return 0;
        }
        if (next == limit) {
            if (len >= BUFFER_BYTES) {
                next = limit = 0;
                return reader.read(b, off, len);
            }
            if (!fill()) {
                return -1;
            }
        }
        int count = Math.min(len, limit - next);
        System.arraycopy(buffer, next, b, off, count);
        next += count;
        return count;
    }

    /** False at the end. */
    private boolean fill() throws IOException {
        if (buffer == null) {
            buffer = new byte[BUFFER_BYTES];
        }
        next = limit = 0;
        limit = Math.max(0, reader.read(buffer, 0, BUFFER_BYTES));
        return limit > 0;
    }

    @Override
    public synchronized long skip(long n) throws IOException {
        if (n <= 0 || !reader.isSeekable()) {
            return super.skip(n);
        }
        long before = position();
        long count = Inputs.skippable(n, size() - before);
        seek(before + count);
        return count;
    }

    @Override
    public synchronized int available() throws IOException {
        reader.requireOpen();
        return limit - next;
    }

    @Override
    public long transferTo(OutputStream out) throws IOException {
        return Inputs.transfer(this, out, BUFFER_BYTES);
    }

    /** Not synchronized: it ends a read in which another thread waits. */
    @Override
    public void close() {
        reader.close();
    }
}
