package org.openstack.storlet.daemon;

import org.openstack.storlet.services.Stat;

/**
 * The output of a called storlet. Its end is the success of that storlet. It has neither size nor
 * ETag, because no range of it can be requested.
 */
final class CallResult extends StoredObject {
    private final CallInput input;

    /** @param input that is being written into the called storlet, or null */
    CallResult(ServiceChannel channel, ServiceStream stream, CallInput input) {
        this(channel, stream, input, factsOf(stream.reply().facts()));
    }

    private CallResult(ServiceChannel channel, ServiceStream stream, CallInput input, Stat stat) {
        super(new ObjectReader(channel, "", 0, stream, stat), stat);
        this.input = input;
    }

    private static Stat factsOf(Stat facts) {
        return new Stat(facts.metadata(), -1, null, facts.contentType(), facts.lastModified());
    }

    @Override
    public void close() {
        if (input != null) {
            input.close();
        }
        super.close();
    }
}
