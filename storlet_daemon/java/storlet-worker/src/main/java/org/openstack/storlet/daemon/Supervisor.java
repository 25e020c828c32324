package org.openstack.storlet.daemon;

import java.io.IOException;

/** The channel to the supervisor. Used only by the worker's single thread. */
final class Supervisor {
    private static final byte[] READY = "{\"type\":\"ready\"}".getBytes();

    private final int channel;
    private final JsonWriter writer = new JsonWriter();

    Supervisor(int channel) {
        this.channel = channel;
    }

    /** Reports that the storlet's code is loaded. */
    void sendReady() throws IOException {
        Native.send(channel, READY, READY.length, -1);
    }

    void sendLoadFailed(Failure failure) throws IOException {
        writer.clear().raw("{\"type\":\"load_failed\",\"message\":").string(failure.message());
        writer.raw(",\"traceback\":").string(failure.traceback()).raw("}");
        send(-1);
    }

    /**
     * Reports the start of an invocation; the supervisor watches its copy of the connection for a
     * disconnect.
     */
    void sendBegin(int connection) throws IOException {
        writer.clear().raw("{\"type\":\"begin\"}");
        send(connection);
    }

    /**
     * Reports the end of the invocation. With {@code recycle} this process exits after the last
     * event.
     */
    void sendEnd(boolean recycle, boolean failed) throws IOException {
        writer.clear().raw("{\"type\":\"end\",\"recycle\":").raw(recycle ? "true" : "false");
        writer.raw(",\"failed\":").raw(failed ? "true}" : "false}");
        send(-1);
    }

    private void send(int passed) throws IOException {
        Native.send(channel, writer.bytes(), writer.length(), passed);
    }
}
