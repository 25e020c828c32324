package org.openstack.storlet.services;

/** The object was replaced since it was opened. */
public class ChangedException extends ServiceException {
    private static final long serialVersionUID = 1L;

    public ChangedException(String message, String code, int status) {
        super(message, code, status);
    }
}
