package org.openstack.storlet.common;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * The log of one invocation. Logging never makes a storlet fail: messages that cannot be written
 * are dropped.
 */
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
            // A full or closed log must not make a storlet fail.
        }
    }

    /** Does nothing, because messages are not buffered. */
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
