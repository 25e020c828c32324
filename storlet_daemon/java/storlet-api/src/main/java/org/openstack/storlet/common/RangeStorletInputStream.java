package org.openstack.storlet.common;

import java.io.FileDescriptor;
import java.io.IOException;
import java.util.HashMap;

/** One input that is a byte range of an object. */
public class RangeStorletInputStream extends StorletInputStream {
    /**
     * Reads the bytes from {@code start} to {@code end}, both included.
     *
     * @param fd a regular file, open for reading; closed by {@link #close}
     * @param md user metadata of the object
     * @throws IOException when the range is impossible or {@code fd} cannot be positioned
     */
    public RangeStorletInputStream(FileDescriptor fd, HashMap<String, String> md, long start, long end) throws IOException {
        super(md);
        stream = new RangeFileInputStream(fd, start, end);
    }
}
