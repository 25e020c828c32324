package org.openstack.storlet.common;

import java.io.IOException;
import java.io.InputStream;
import org.openstack.storlet.internal.Inputs;

/**
 * An input in which a storlet can seek.
 *
 * <p>On the object node it reads the object's own file. Elsewhere it reads ranges of the object,
 * and reads ahead the more, the longer it is read in order.
 */
public abstract class SeekableInputStream extends InputStream {
    private final long size;

    SeekableInputStream(long size) {
        this.size = size;
    }

    /** Bytes of the input. */
    public final long size() {
        return size;
    }

    /** Offset of the next byte that is read. */
    public abstract long position();

    /**
     * Moves to an offset; beyond the end, reads give nothing.
     *
     * @throws IOException when {@code position} is negative, or the input is closed
     */
    public abstract void seek(long position) throws IOException;

    @Override
    public final int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) == 1 ? one[0] & 0xff : -1;
    }

    @Override
    public abstract int read(byte[] b, int off, int len) throws IOException;

    /** Moves forward, at most to the end. */
    @Override
    public final long skip(long n) throws IOException {
        long skipped = Inputs.skippable(n, size - position());
        if (skipped > 0) {
            seek(position() + skipped);
        }
        return skipped;
    }

    @Override
    public final int available() {
        return (int) Math.min(Math.max(0, size - position()), Integer.MAX_VALUE);
    }

    static long checked(long position) throws IOException {
        if (position < 0) {
            throw new IOException("negative position " + position);
        }
        return position;
    }
}
