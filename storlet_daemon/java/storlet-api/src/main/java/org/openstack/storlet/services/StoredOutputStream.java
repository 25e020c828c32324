package org.openstack.storlet.services;

import java.io.IOException;
import java.io.OutputStream;

/**
 * An object that is being created. It is stored when the run succeeds, together with the run's
 * outputs; until then no reader sees it.
 *
 * <p>{@link #complete} is the end of the object, before or after {@link #close}: a block that an
 * exception leaves closes its streams, too, so a close does not show that all was written. A run
 * that returns with an object that is neither complete nor discarded fails.
 *
 * <pre>{@code
 * try (StoredOutputStream index = services.create("/index/names")) {
 *     index.write(names);
 *     index.complete();
 * }
 * }</pre>
 */
public abstract class StoredOutputStream extends OutputStream {
    /** For subclasses of the sandbox, and of authors' tests. */
    protected StoredOutputStream() {}

    /**
     * The object is complete; closes the stream.
     *
     * @throws ServiceException when the store does not have all bytes: then the run fails, unless
     *     the object is discarded
     */
    public abstract void complete() throws IOException;

    /** Does not store the object; also after {@link #complete}, as long as the storlet runs. */
    public abstract void discard() throws IOException;
}
