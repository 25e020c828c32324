package org.openstack.storlet.common;

import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * An object elsewhere: requests ranges on a socket, one after the other, and keeps the last one.
 *
 * <p>PROTOCOL.rst, section 2.2, specifies the requests.
 */
final class SeekableReadsStream extends SeekableInputStream {
    /** Read-ahead after a seek; it doubles with each further read. */
    private static final int BYTES_FIRST = 64 * 1024;

    /** The longest read. */
    private static final int BYTES_MAX = 1024 * 1024;

    private final FileInputStream answers;
    private final FileOutputStream requests;
    private long position;

    /** The last range, and where it begins. */
    private byte[] window = new byte[0];

    private long start;
    private int ahead = BYTES_FIRST;

    SeekableReadsStream(FileDescriptor fd, long size) {
        super(size);
        answers = new FileInputStream(fd);
        requests = new FileOutputStream(fd);
    }

    @Override
    public long position() {
        return position;
    }

    @Override
    public void seek(long target) throws IOException {
        position = checked(target);
    }

    @Override
    public int read(byte[] b, int off, int len) throws IOException {
        Objects.checkFromIndexSize(off, len, b.length);
        if (len == 0) {
            return 0;
        }
        long wanted = Math.min(len, size() - position);
        if (wanted <= 0) {
            return -1;
        }
        if (position < start || position >= start + window.length) {
            fetch(wanted);
        }
        int begin = (int) (position - start);
        int count = (int) Math.min(wanted, window.length - begin);
        System.arraycopy(window, begin, b, off, count);
        position += count;
        return count;
    }

    /** Reads the range that begins at the position; a reader that continues gets more. */
    private void fetch(long wanted) throws IOException {
        long skipped = position - (start + window.length);
        if (skipped < 0 || skipped > BYTES_FIRST) {
            ahead = BYTES_FIRST;
        }
        int length = (int) Math.min(Math.min(Math.max(wanted, ahead), BYTES_MAX), size() - position);
        ahead = Math.min(2 * ahead, BYTES_MAX);
        requests.write(ByteBuffer.allocate(16).putLong(position).putLong(length).array());
        byte[] range = new byte[length];
        for (int filled = 0; filled < length; ) {
            int count = answers.read(range, filled, length - filled);
            if (count < 0) {
                throw new EOFException("the input broke off: the run is being ended");
            }
            filled += count;
        }
        window = range;
        start = position;
    }

    @Override
    public void close() throws IOException {
        window = new byte[0];
        answers.close();
    }
}
