package org.openstack.storlet.services;

/** The caller, a rule, or the storlet's own declaration does not allow the operation. */
public class DeniedException extends ServiceException {
    private static final long serialVersionUID = 1L;

    public DeniedException(String message, String code, int status) {
        super(message, code, status);
    }
}
