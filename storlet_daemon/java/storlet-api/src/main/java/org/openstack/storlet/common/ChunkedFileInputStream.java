package org.openstack.storlet.common;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.OutputStream;

/**
 * A file input stream whose {@link #transferTo} moves 64 KiB at a time.
 *
 * <p>The JDK's method uses 8 KiB, which is little more than half as fast through a pipe.
 */
class ChunkedFileInputStream extends FileInputStream {
    private static final int CHUNK_BYTES = 64 * 1024;

    ChunkedFileInputStream(FileDescriptor fd) {
        super(fd);
    }

    @Override
    public long transferTo(OutputStream out) throws IOException {
        byte[] chunk = new byte[CHUNK_BYTES];
        long total = 0;
        for (int count = read(chunk, 0, CHUNK_BYTES); count >= 0; count = read(chunk, 0, CHUNK_BYTES)) {
            out.write(chunk, 0, count);
            total += count;
        }
        return total;
    }
}
