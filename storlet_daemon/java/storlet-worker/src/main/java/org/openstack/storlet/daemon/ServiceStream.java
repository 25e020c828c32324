package org.openstack.storlet.daemon;

import java.io.IOException;
import org.openstack.storlet.internal.ErrorCodes;
import org.openstack.storlet.services.ServiceException;

/** The bytes of one reply of the store; its end is verified. Any thread may close it. */
final class ServiceStream {
    private final ServiceChannel channel;
    private final ServiceReply reply;
    private final SharedDescriptor descriptor;
    private long taken;
    private boolean isComplete;

    /**
     * @param reply that brought the stream
     * @param descriptor of the channel, which this stream closes
     */
    ServiceStream(ServiceChannel channel, ServiceReply reply, SharedDescriptor descriptor) {
        this.channel = channel;
        this.reply = reply;
        this.descriptor = descriptor;
    }

    ServiceReply reply() {
        return reply;
    }

    /** The bytes that were read so far. */
    long taken() {
        return taken;
    }

    /** Reads like {@link java.io.InputStream#read(byte[], int, int)}; for one thread at a time. */
    int read(byte[] into, int offset, int length) throws IOException {
        if (isComplete) {
            return -1;
        }
        int number = descriptor.enter();
        if (number < 0) {
            throw closed();
        }
        int count;
        try {
            count = Native.read(number, into, offset, length);
        } finally {
            descriptor.leave();
        }
        if (count == 0) {
            finish();
            return -1;
        }
        taken += count;
        return count;
    }

    private void finish() throws IOException {
        if (descriptor.isClosed()) {
            // The close has ended the read.
            throw closed();
        }
        long sent = channel.endOf(reply.id());
        if (sent != taken) {
            throw new ServiceException(taken + " of " + sent + " bytes arrived", ErrorCodes.SERVICE_SHORT, 0);
        }
        isComplete = true;
        close();
    }

    private IOException closed() throws ServiceException {
        channel.requireRun();
        return new IOException("the stream is closed");
    }

    /** Ends reading; more than once is fine. */
    void close() {
        channel.release(descriptor);
    }
}
