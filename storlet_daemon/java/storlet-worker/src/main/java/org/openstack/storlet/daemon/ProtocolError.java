package org.openstack.storlet.daemon;

/** What the filter sent is not what the protocol allows: the caller's fault, and no reason to replace this worker. */
final class ProtocolError extends Exception {
    private static final long serialVersionUID = 1L;

    ProtocolError(String message) {
        super(message, null, false, false);
    }
}
