package org.openstack.storlet.daemon;

/** The filter's message violates the protocol: an error of the sender; this worker stays. */
final class ProtocolError extends Exception {
    private static final long serialVersionUID = 1L;

    ProtocolError(String message) {
        super(message, null, false, false);
    }
}
