package org.openstack.storlet.daemon;

import java.io.IOException;
import org.openstack.storlet.internal.ErrorCodes;
import org.openstack.storlet.services.ServiceException;
import org.openstack.storlet.services.Stat;

/**
 * The bytes of an object, or of a range of it, at any position if size and ETag are known. After a
 * seek it reads with ranged requests for the version that was opened. For one thread at a time, but
 * for {@link #close}.
 */
final class ObjectReader {
    /**
     * First read-ahead after a seek; it doubles with each further request, up to the larger number.
     */
    private static final long SEEK_BYTES = 64 * 1024;
    private static final long SEEK_BYTES_MAX = 8 * 1024 * 1024;

    /** A seek forward by less reads on; a longer one is a new request. */
    private static final long SKIP_BYTES = 256 * 1024;

    private static final long WITH_THE_OBJECT = -1;

    private final ServiceChannel channel;
    private final String path;
    private final long first;
    private final Stat stat;

    /** The next read begins at the first one; the stream has reached the second. */
    private long position;
    private long reached;

    private volatile ServiceStream stream;
    private volatile boolean isClosed;

    /** Where the stream ends. */
    private long end = WITH_THE_OBJECT;
    private long ahead = SEEK_BYTES;

    /**
     * @param first position in the object of the first byte
     * @param stream of the bytes from there
     */
    ObjectReader(ServiceChannel channel, String path, long first, ServiceStream stream, Stat stat) {
        this.channel = channel;
        this.path = path;
        this.first = first;
        this.stream = stream;
        this.stat = stat;
    }

    static ServiceRequest request(String path) throws ServiceException {
        return new ServiceRequest("open", "read").name("path", path);
    }

    boolean isSeekable() {
        return stat.size() >= 0 && stat.etag() != null && !stat.etag().isEmpty();
    }

    long position() {
        return position;
    }

    void seek(long to) throws IOException {
        if (!isSeekable()) {
            throw new UnsupportedOperationException("the result of a rule's storlet cannot seek");
        }
        if (to < 0) {
            throw new IOException("negative position " + to);
        }
        position = to;
    }

    /** Throws if it was closed, or the run has ended. */
    void requireOpen() throws IOException {
        channel.requireRun();
        if (isClosed) {
            throw new IOException("the stream is closed");
        }
    }

    int read(byte[] into, int offset, int length) throws IOException {
        boolean isAtEnd = stat.size() >= 0 && position >= stat.size();
        if (isAtEnd && (stream == null || position != reached)) {
            return -1;
        }
        move(length);
        ServiceStream from = stream;
        int count = from == null ? -1 : from.read(into, offset, length);
        if (count < 0 && end != WITH_THE_OBJECT) {
            // The end of a bounded request only.
            drop();
            if (position >= stat.size()) {
                return -1;
            }
            move(length);
            count = stream.read(into, offset, length);
            if (count < 0) {
                throw new ServiceException("the store sent none of the requested bytes", ErrorCodes.SERVICE_SHORT, 0);
            }
        }
        position += Math.max(0, count);
        reached = position;
        return count;
    }

    /** Has a stream at the position. */
    private void move(long wanted) throws IOException {
        long distance = position - reached;
        if (stream != null && distance != 0) {
            if (distance > 0 && distance <= SKIP_BYTES && (end == WITH_THE_OBJECT || position < end)) {
                skip(distance);
            } else {
                drop();
                ahead = SEEK_BYTES;
            }
        }
        if (stream == null && isSeekable()) {
            end = Math.min(position + Math.max(wanted, ahead), stat.size());
            ahead = Math.min(2 * ahead, SEEK_BYTES_MAX);
            ServiceRequest request = request(path).count("start", first + position).count("end", first + end - 1);
            attach(channel.open(request.text("etag", stat.etag())));
            reached = position;
        }
    }

    private void skip(long distance) throws IOException {
        byte[] skipped = new byte[(int) Math.min(distance, SEEK_BYTES)];
        for (long left = distance; left > 0; ) {
            int count = stream.read(skipped, 0, (int) Math.min(left, skipped.length));
            if (count < 0) {
                drop();
                return;
            }
            left -= count;
            reached += count;
        }
    }

    private void attach(ServiceStream opened) throws IOException {
        stream = opened;
        if (isClosed) {
            // Another thread has closed this object, and may not have seen the stream.
            opened.close();
            requireOpen();
        }
    }

    private void drop() {
        ServiceStream from = stream;
        stream = null;
        if (from != null) {
            from.close();
        }
    }

    /** For any thread. */
    void close() {
        isClosed = true;
        ServiceStream from = stream;
        if (from != null) {
            from.close();
        }
    }
}
