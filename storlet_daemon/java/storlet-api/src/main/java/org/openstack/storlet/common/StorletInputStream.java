package org.openstack.storlet.common;

import java.io.FileDescriptor;
import java.io.IOException;
import java.io.InputStream;
import java.util.HashMap;

/** One input: the bytes of an object and its user metadata. */
public class StorletInputStream {
    /** Where the bytes come from; subclasses set it. */
    protected InputStream stream;

    private final HashMap<String, String> metadata;

    /**
     * Reads a whole file or pipe.
     *
     * @param fd open for reading; closed by {@link #close}
     * @param md user metadata of the object
     */
    public StorletInputStream(FileDescriptor fd, HashMap<String, String> md) {
        this(md);
        stream = new ChunkedFileInputStream(fd);
    }

    /** For subclasses that set {@link #stream} themselves. */
    protected StorletInputStream(HashMap<String, String> md) {
        metadata = md;
    }

    /** User metadata of the object, without the prefix {@code X-Object-Meta-}. */
    public HashMap<String, String> getMetadata() {
        return metadata;
    }

    /** The bytes of the object, in order. */
    public InputStream getStream() {
        return stream;
    }

    /** Closes the stream; more than once is fine. */
    public void close() {
        try {
            stream.close();
        } catch (IOException lost) {
            // A close after reads loses no data; the signature permits no exception.
        }
    }
}
