package org.openstack.storlet.services;

import java.io.IOException;
import java.io.InputStream;
import java.util.Map;

/**
 * An object of the store that was opened, or a range of it. It reads one version of the object: if
 * the object is replaced, a read after a {@link #seek} throws {@link ChangedException}.
 *
 * <p>A stream that is neither closed nor read to its end is an open file of the run until the run
 * ends.
 */
public abstract class StoredInputStream extends InputStream {
    private final Stat stat;

    /** For subclasses of the sandbox, and of authors' tests. */
    protected StoredInputStream(Stat stat) {
        this.stat = stat;
    }

    /**
     * Continues reading at a position. Bytes that were not read yet are requested from the store,
     * and some after them.
     *
     * @param position in the stream, from 0; at its end or behind it, reads find the end
     * @throws UnsupportedOperationException when {@link #isSeekable} is false
     */
    public abstract void seek(long position) throws IOException;

    /** The position of the next byte, from 0. */
    public abstract long position() throws IOException;

    /** Size and ETag of the object are known. They are not for the result of a rule's storlet. */
    public abstract boolean isSeekable();

    /** Bytes of this stream; -1 if they are not known before its end. */
    public final long size() {
        return stat.size();
    }

    /** User metadata of the object. */
    public final Map<String, String> metadata() {
        return stat.metadata();
    }

    /** The ETag of the object; null for the result of a rule's storlet. */
    public final String etag() {
        return stat.etag();
    }

    /** The content type of the object. */
    public final String contentType() {
        return stat.contentType();
    }

    /** The time of the last change, as HTTP writes it. */
    public final String lastModified() {
        return stat.lastModified();
    }
}
