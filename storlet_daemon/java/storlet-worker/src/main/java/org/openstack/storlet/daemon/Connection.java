package org.openstack.storlet.daemon;

import java.io.IOException;
import java.util.Map;

/**
 * The connection of one invocation: sends its events in order, and nothing after the last.
 *
 * <p>Synchronized, because a storlet may set its metadata from another thread. After
 * {@link #close} such a thread receives an error, and never a descriptor of another connection.
 */
final class Connection implements AutoCloseable {
    private static final byte[] STARTED = "{\"type\":\"started\"}".getBytes();

    /** Shared by all connections of this process, of which one at a time is open. */
    private static final JsonWriter WRITER = new JsonWriter();

    /** The longest message less some room, so that all languages have about the same limit. */
    private static final int MESSAGE_ROOM = Native.MESSAGE_MAX - 512;

    private int socket;

    /** Takes over the descriptor {@code socket}. */
    Connection(int socket) {
        this.socket = socket;
    }

    synchronized void sendStarted() throws IOException {
        Native.send(open(), STARTED, STARTED.length, -1);
    }

    /**
     * Sends the metadata of an output.
     *
     * @param output its number
     * @param limit most bytes of it as JSON; 0 means what fits into a message
     * @return false when it is larger, and nothing was sent
     */
    synchronized boolean sendMetadata(int output, Map<String, String> metadata, long limit) throws IOException {
        WRITER.clear().raw("{\"type\":\"metadata\",\"output\":").number(output).raw(",\"metadata\":");
        int before = WRITER.length();
        WRITER.object(metadata);
        if (limit > 0 && WRITER.length() - before > limit || WRITER.length() > MESSAGE_ROOM) {
            return false;
        }
        WRITER.raw("}");
        Native.send(open(), WRITER.bytes(), WRITER.length(), -1);
        return true;
    }

    /** Sends the last event: success if {@code failure} is null. Ignores a closed connection. */
    synchronized void sendDone(Failure failure, Usage usage) {
        WRITER.clear();
        if (failure == null) {
            WRITER.raw("{\"type\":\"done\",\"outcome\":\"ok\"");
        } else {
            WRITER.raw("{\"type\":\"done\",\"outcome\":\"error\",\"code\":").string(failure.code());
            WRITER.raw(",\"message\":").string(failure.message());
            WRITER.raw(",\"traceback\":").string(failure.traceback());
        }
        if (usage != null) {
            WRITER.raw(",\"usage\":{\"cpu_seconds\":").seconds(usage.cpuMicroseconds());
            WRITER.raw(",\"peak_memory_bytes\":").number(usage.peakMemoryBytes());
            if (usage.inputBytes() >= 0) {
                WRITER.raw(",\"input_bytes\":").number(usage.inputBytes());
            }
            WRITER.raw("}");
        }
        WRITER.raw("}");
        try {
            Native.send(open(), WRITER.bytes(), WRITER.length(), -1);
        } catch (IOException gone) {
            // The filter has disconnected and needs no answer.
        }
    }

    @Override
    public synchronized void close() {
        if (socket >= 0) {
            Native.close(socket);
            socket = -1;
        }
    }

    private int open() throws IOException {
        if (socket < 0) {
            throw new IOException("the invocation is over");
        }
        return socket;
    }
}
