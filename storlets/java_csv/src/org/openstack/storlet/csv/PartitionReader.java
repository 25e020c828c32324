package org.openstack.storlet.csv;

import java.io.IOException;
import java.io.InputStream;

/**
 * The bytes of the whole lines that belong to one partition of an object; without a partition, all
 * bytes.
 *
 * <p>A line belongs to the partition that holds the byte before it. So a later partition begins
 * after its first line break, and every partition ends with the line that starts at its end.
 */
final class PartitionReader {
    private final InputStream source;
    private final long limit;
    private final byte[] buffer = new byte[64 * 1024];
    private int at;
    private int end;
    private long offset;
    private boolean atLineStart;

    /**
     * @param isLater the input does not begin with the object
     * @param limit how many bytes of the input belong to the partition
     */
    PartitionReader(InputStream source, boolean isLater, long limit) throws IOException {
        this.source = source;
        this.limit = limit;
        if (isLater) {
            skipLine();
        }
        atLineStart = true;
    }

    /** The next byte, or -1 at the end of the partition. */
    int read() throws IOException {
        if (atLineStart && offset > limit) {
            return -1;
        }
        int b = next();
        atLineStart = b == '\n';
        return b;
    }

    private void skipLine() throws IOException {
        int b = next();
        while (b >= 0 && b != '\n') {
            b = next();
        }
    }

    private int next() throws IOException {
        if (at == end) {
            end = source.read(buffer);
            at = 0;
            if (end <= 0) {
                end = 0;
                return -1;
            }
        }
        offset++;
        return buffer[at++] & 255;
    }
}
