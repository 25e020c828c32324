package org.openstack.storlet.common;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.IOException;
import java.util.Objects;

/** The object's own file. */
final class SeekableFileStream extends SeekableInputStream {
    private final FileInputStream file;
    private long position;

    /** Bytes that were read so far. */
    private long taken;

    /** @throws IOException when {@code fd} cannot be positioned */
    SeekableFileStream(FileDescriptor fd, long size) throws IOException {
        super(size);
        file = new FileInputStream(fd);
        file.getChannel().position(0);
    }

    long taken() {
        return taken;
    }

    @Override
    public long position() {
        return position;
    }

    @Override
    public void seek(long target) throws IOException {
        file.getChannel().position(checked(target));
        position = target;
    }

    @Override
    public int read(byte[] b, int off, int len) throws IOException {
        Objects.checkFromIndexSize(off, len, b.length);
        if (len == 0) {
            return 0;
        }
        int count = file.read(b, off, (int) Math.min(len, Math.max(0, size() - position)));
        if (count <= 0) {
            return -1;
        }
        position += count;
        taken += count;
        return count;
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
