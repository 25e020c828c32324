package org.openstack.storlet.common;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** The log of one invocation. Logging never makes a storlet fail: what cannot be written is dropped. */
public class StorletLogger {
    private final FileOutputStream stream;

    /** @param fd open for writing; closed by {@link #close} */
    public StorletLogger(FileDescriptor fd) {
        stream = new FileOutputStream(fd);
    }

    /** For subclasses that override every method. */
    protected StorletLogger() {
        stream = null;
    }

    /** Writes the message and a line end, in UTF-8, at once. */
    public void emitLog(String message) {
        try {
            stream.write((message + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException dropped) {
            // A full or closed log is no reason for a storlet to fail.
        }
    }

    /** Does nothing, because nothing is held back. */
    public void Flush() {}

    /** Closes the log; later messages are dropped. */
    public void close() {
        try {
            stream.close();
        } catch (IOException lost) {
            // See emitLog.
        }
    }
}
