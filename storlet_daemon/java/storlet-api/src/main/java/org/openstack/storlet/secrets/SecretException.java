package org.openstack.storlet.secrets;

import java.util.NoSuchElementException;

/** The run has no secret of this name. */
public class SecretException extends NoSuchElementException {
    private static final long serialVersionUID = 1L;

    public SecretException(String message) {
        super(message);
    }
}
