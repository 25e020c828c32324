package org.openstack.storlet.services;

/** The called storlet failed; code and status are those of its error. */
public class CallFailedException extends ServiceException {
    private static final long serialVersionUID = 1L;

    private final String storlet;

    public CallFailedException(String message, String code, int status, String storlet) {
        super(message, code, status);
        this.storlet = storlet;
    }

    /** The name of the storlet that failed. */
    public String storlet() {
        return storlet;
    }
}
