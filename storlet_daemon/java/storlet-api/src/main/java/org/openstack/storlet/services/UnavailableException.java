package org.openstack.storlet.services;

/** The store cannot answer now, or the run has ended. */
public class UnavailableException extends ServiceException {
    private static final long serialVersionUID = 1L;

    public UnavailableException(String message, String code, int status) {
        super(message, code, status);
    }
}
