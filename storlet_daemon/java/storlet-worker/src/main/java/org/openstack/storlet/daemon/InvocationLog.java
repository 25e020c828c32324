package org.openstack.storlet.daemon;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import org.openstack.storlet.common.StorletLogger;

/**
 * The log of one invocation: a memory file of fixed size, written from its start. At its limit it
 * ends with a line that notes that, without an error to the storlet. Without a log every message is
 * dropped.
 *
 * <p>The file offset, not a counter, gives the length, because programs that the storlet starts
 * write to the same open file.
 */
final class InvocationLog extends StorletLogger {
    private final FileOutputStream file;
    private final int descriptor;
    private final long limit;
    private final byte[] lastLine;
    private boolean isOpen;
    private boolean hasEnded;

    /** A log that drops everything. */
    InvocationLog() {
        file = null;
        descriptor = -1;
        limit = 0;
        lastLine = null;
    }

    /** Takes over the descriptor of {@code log}. */
    InvocationLog(Invocation.Log log) throws IOException {
        FileDescriptor adopted = new FileDescriptor();
        Native.adopt(adopted, log.descriptor());
        file = new FileOutputStream(adopted);
        descriptor = log.descriptor();
        limit = log.limit();
        lastLine = ("log truncated at " + limit + " bytes\n").getBytes(StandardCharsets.UTF_8);
        isOpen = true;
    }

    /**
     * @throws IllegalStateException after the end of the invocation
     */
    @Override
    public void emitLog(String message) {
        if (hasEnded()) {
            throw new IllegalStateException(
                    "this logger's invocation has ended; use the logger of the current one");
        }
        if (file != null) {
            byte[] line = (message + "\n").getBytes(StandardCharsets.UTF_8);
            write(line, 0, line.length);
        }
    }

    @Override
    public void Flush() {}

    private synchronized boolean hasEnded() {
        return hasEnded;
    }

    /** The invocation has ended: closes the log for good. */
    synchronized void end() {
        hasEnded = true;
        close();
    }

    @Override
    public synchronized void close() {
        isOpen = false;
        if (file != null) {
            closeQuietly();
        }
    }

    synchronized void write(byte[] bytes, int from, int count) {
        if (!isOpen) {
            return;
        }
        // One byte more than the last line, for the line end of a truncated message.
        long room = limit - lastLine.length - 1 - Native.offset(descriptor);
        try {
            if (count <= room) {
                file.write(bytes, from, count);
            } else {
                isOpen = false;
                writeEnd(bytes, from, (int) Math.max(0, room));
            }
        } catch (IOException full) {
            // A program of the storlet has filled the log in the meantime.
            isOpen = false;
        }
    }

    private void writeEnd(byte[] bytes, int from, int room) throws IOException {
        int cut = Failure.characterStart(bytes, from + room) - from;
        if (cut > 0) {
            file.write(bytes, from, cut);
            if (bytes[from + cut - 1] != '\n') {
                file.write('\n');
            }
        }
        long left = limit - Native.offset(descriptor);
        file.write(lastLine, 0, (int) Math.min(left, lastLine.length));
    }

    private void closeQuietly() {
        try {
            file.close();
        } catch (IOException lost) {
            // Closing a memory file loses no data.
        }
    }

    /** The target of {@code System.out} and {@code System.err}: the current invocation's log. */
    static final class Sink extends OutputStream {
        private volatile InvocationLog current;

        /** @param log of the invocation that begins, or null after its end */
        void follow(InvocationLog log) {
            current = log;
        }

        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int from, int count) {
            InvocationLog log = current;
            if (log != null) {
                log.write(bytes, from, count);
            }
        }
    }
}
