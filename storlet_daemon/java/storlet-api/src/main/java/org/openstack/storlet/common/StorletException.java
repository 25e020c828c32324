package org.openstack.storlet.common;

/** Reports that an invocation has failed. The caller of the storlet gets the message. */
public class StorletException extends Exception {
    private static final long serialVersionUID = 1L;

    /** @param message one line for the caller */
    public StorletException(String message) {
        super(message);
    }
}
