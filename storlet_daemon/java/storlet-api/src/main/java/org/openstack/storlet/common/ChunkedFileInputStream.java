package org.openstack.storlet.common;

import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.OutputStream;
import org.openstack.storlet.internal.Inputs;

/**
 * A file input stream that also reads descriptors without a position: pipes and sockets.
 *
 * <p>The JDK's {@code readAllBytes}, {@code readNBytes} and {@code skip} need the position, which
 * fails there with "Illegal seek".
 */
class ChunkedFileInputStream extends FileInputStream {
    ChunkedFileInputStream(FileDescriptor fd) {
        super(fd);
    }

    @Override
    public long transferTo(OutputStream out) throws IOException {
        return Inputs.transfer(this, out, Inputs.CHUNK_BYTES);
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
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        byte[] chunk = new byte[Math.min(Inputs.CHUNK_BYTES, length)];
        int left = length;
        while (left > 0) {
            int count = read(chunk, 0, Math.min(chunk.length, left));
            if (count < 0) {
                break;
            }
            all.write(chunk, 0, count);
            left -= count;
        }
        return all.toByteArray();
    }

    /** Reads and drops bytes, so that it never skips beyond the end. */
    @Override
    public long skip(long length) throws IOException {
        byte[] chunk = new byte[(int) Math.min(Inputs.CHUNK_BYTES, Math.max(1, length))];
        long left = length;
        while (left > 0) {
            int count = read(chunk, 0, (int) Math.min(chunk.length, left));
            if (count < 0) {
                break;
            }
            left -= count;
        }
        return Math.max(0, length) - Math.max(0, left);
    }
}
