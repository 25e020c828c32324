package org.openstack.storlet.services;

/** The operation exceeds a limit of the run; the message names it. */
public class LimitExceededException extends ServiceException {
    private static final long serialVersionUID = 1L;

    public LimitExceededException(String message, String code, int status) {
        super(message, code, status);
    }
}
