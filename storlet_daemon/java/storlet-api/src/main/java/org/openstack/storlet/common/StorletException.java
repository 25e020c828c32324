package org.openstack.storlet.common;

/** Says that an invocation has failed, and why. The message reaches whoever asked for the invocation. */
public class StorletException extends Exception {
    private static final long serialVersionUID = 1L;

    /** @param message one line for the caller */
    public StorletException(String message) {
        super(message);
    }
}
