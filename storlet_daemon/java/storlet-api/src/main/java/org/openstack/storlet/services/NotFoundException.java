package org.openstack.storlet.services;

/** There is no such container or object. */
public class NotFoundException extends ServiceException {
    private static final long serialVersionUID = 1L;

    public NotFoundException(String message, String code, int status) {
        super(message, code, status);
    }
}
