package org.openstack.storlet.common;

import java.io.FileDescriptor;
import java.io.IOException;
import java.util.HashMap;

/**
 * One input in which the storlet can seek.
 *
 * <p>A storlet that declares {@code X-Object-Meta-Storlet-Input: seekable} gets it:
 *
 * <pre>{@code
 * SeekableInputStream in = ((SeekableStorletInputStream) inStreams.get(0)).getStream();
 * in.seek(in.size() - 22);
 * }</pre>
 */
public final class SeekableStorletInputStream extends StorletInputStream {
    private final SeekableInputStream seekable;

    private SeekableStorletInputStream(SeekableInputStream stream, HashMap<String, String> md) {
        super(md);
        this.stream = stream;
        seekable = stream;
    }

    /**
     * Reads a file.
     *
     * @param fd a regular file, open for reading; closed by {@link #close}
     * @param md user metadata of the object
     * @param size bytes of the object
     * @throws IOException when {@code fd} cannot be positioned
     */
    public static SeekableStorletInputStream ofFile(FileDescriptor fd, HashMap<String, String> md, long size)
            throws IOException {
        return new SeekableStorletInputStream(new SeekableFileStream(fd, size), md);
    }

    /**
     * Reads an object through the filter.
     *
     * @param fd a socket to the filter; closed by {@link #close}
     * @param md user metadata of the object
     * @param size bytes of the object
     */
    public static SeekableStorletInputStream ofReads(FileDescriptor fd, HashMap<String, String> md, long size) {
        return new SeekableStorletInputStream(new SeekableReadsStream(fd, size), md);
    }

    /** The bytes of the object, at any place. */
    @Override
    public SeekableInputStream getStream() {
        return seekable;
    }

    /** Bytes that were read from the object's file so far; -1 if the object is elsewhere. */
    public long bytesReadFromFile() {
        return seekable instanceof SeekableFileStream file ? file.taken() : -1;
    }
}
