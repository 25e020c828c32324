package org.openstack.storlet.common;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.Objects;
import org.openstack.storlet.internal.Inputs;

/**
 * Reads the bytes {@code start} to {@code end} of a regular file, both included.
 *
 * <p>Every read names its offset and none moves the file offset. Several ranges of one object may
 * arrive on one open file, or on duplicates of it, which share one offset: alternating reads of two
 * inputs would mix their bytes.
 */
public class RangeFileInputStream extends FileInputStream {
    private final FileChannel file;
    private long position;
    private long remaining;

    /**
     * @param fd a regular file, open for reading
     * @param start offset of the first byte
     * @param end offset of the last byte; beyond the end of the file: up to the end
     * @throws IOException when the range is impossible or {@code fd} cannot be positioned
     */
    public RangeFileInputStream(FileDescriptor fd, long start, long end) throws IOException {
        super(fd);
        if (start < 0 || end < start - 1) {
            throw new IOException("impossible range " + start + "-" + end);
        }
        file = super.getChannel();
        position = start;
        remaining = Math.max(0, Math.min(end, file.size() - 1) - start + 1);
        // A pipe has size 0 and would look like an empty object; this call refuses it.
        file.position();
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) == 1 ? one[0] & 0xff : -1;
    }

    @Override
    public int read(byte[] b) throws IOException {
        return read(b, 0, b.length);
    }

    @Override
    public int read(byte[] b, int off, int len) throws IOException {
        Objects.checkFromIndexSize(off, len, b.length);
        if (len == 0) {
            return 0;
        }
        if (remaining == 0) {
            return -1;
        }
        int count = file.read(ByteBuffer.wrap(b, off, (int) Math.min(len, remaining)), position);
        if (count < 0) {
            throw new IOException("the file ended before the range did, at byte " + position);
        }
        position += count;
        remaining -= count;
        // No read uses this offset: it shows the storlet's progress to the filter, for deadlines
        // and usage.
        file.position(position);
        return count;
    }

    @Override
    public byte[] readAllBytes() throws IOException {
        return readNBytes(Integer.MAX_VALUE);
    }

    @Override
    public byte[] readNBytes(int length) throws IOException {
        if (length < 0) {
            throw new IllegalArgumentException("negative length");
        }
        if (Math.min(length, remaining) > Integer.MAX_VALUE - 8) {
            throw new OutOfMemoryError("the range does not fit in one array");
        }
        byte[] all = new byte[(int) Math.min(length, remaining)];
        readNBytes(all, 0, all.length);
        return all;
    }

    @Override
    public long transferTo(OutputStream out) throws IOException {
        return Inputs.transfer(this, out, remaining);
    }

    @Override
    public long skip(long n) {
        long skipped = Inputs.skippable(n, remaining);
        position += skipped;
        remaining -= skipped;
        return skipped;
    }

    @Override
    public int available() {
        return (int) Math.min(remaining, Integer.MAX_VALUE);
    }

    /** Refused: a channel would read the whole file and not the range. */
    @Override
    public FileChannel getChannel() {
        throw new UnsupportedOperationException("a range of an object has no channel");
    }

    @Override
    public boolean markSupported() {
        return false;
    }
}
