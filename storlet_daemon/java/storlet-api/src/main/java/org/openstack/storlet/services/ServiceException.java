package org.openstack.storlet.services;

import java.io.IOException;
import org.openstack.storlet.internal.ErrorCodes;

/** An operation that failed; its code and status are those of the error codes. */
public class ServiceException extends IOException {
    private static final long serialVersionUID = 1L;

    private final String code;
    private final int status;

    /**
     * @param code the error code; may be empty
     * @param status the HTTP status, or 0
     */
    public ServiceException(String message, String code, int status) {
        super(message);
        this.code = code;
        this.status = status;
    }

    /**
     * The exception for a failure that the store reports.
     *
     * @param storlet the called one that has failed, or null
     */
    public static ServiceException of(String message, String code, int status, String storlet) {
        if (storlet != null) {
            return new CallFailedException(message, code, status, storlet);
        }
        if (code.equals(ErrorCodes.LIMIT_SERVICES) || code.equals(ErrorCodes.LIMIT_OUTPUT)) {
            return new LimitExceededException(message, code, status);
        }
        if (code.equals(ErrorCodes.SERVICE_CHANGED)) {
            return new ChangedException(message, code, status);
        }
        if (status == 401 || status == 403) {
            return new DeniedException(message, code, status);
        }
        if (status == 404) {
            return new NotFoundException(message, code, status);
        }
        if (status >= 500 || status == 429) {
            return new UnavailableException(message, code, status);
        }
        return new ServiceException(message, code, status);
    }

    /** The error code, such as {@code access.denied}. */
    public String code() {
        return code;
    }

    /** The HTTP status; 0 if there is none. */
    public int status() {
        return status;
    }
}
