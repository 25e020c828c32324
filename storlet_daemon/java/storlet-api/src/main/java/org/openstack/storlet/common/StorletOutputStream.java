package org.openstack.storlet.common;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.HashMap;

/** One output. Storlets receive a {@link StorletObjectOutputStream}. */
public class StorletOutputStream {
    /** Where the bytes go; subclasses may set it. */
    protected OutputStream stream;

    private final HashMap<String, String> metadata;

    /**
     * @param fd open for writing; closed by {@link #close}
     * @param md metadata known beforehand
     */
    public StorletOutputStream(FileDescriptor fd, HashMap<String, String> md) {
        this(md);
        stream = new FileOutputStream(fd);
    }

    /** For subclasses that set {@link #stream} themselves. */
    protected StorletOutputStream(HashMap<String, String> md) {
        metadata = md;
    }

    public HashMap<String, String> getMetadata() {
        return metadata;
    }

    /** Closes the output; more than once is fine. */
    public void close() {
        closeQuietly(stream);
    }

    static void closeQuietly(OutputStream open) {
        try {
            open.close();
        } catch (IOException lost) {
            // The streams here do not buffer, so every byte was written or refused before.
        }
    }
}
