package org.openstack.storlet.services;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Map;
import org.openstack.storlet.internal.ErrorCodes;

/**
 * The store, for the storlet that runs, in the caller's name:
 *
 * <pre>{@code
 * Services services = Services.current();
 * try (StoredInputStream photo = services.open("/photos/cat.jpg")) {
 *     byte[] head = photo.readNBytes(1024);
 * }
 * for (Entry entry : services.list("photos", ListQuery.ALL.withPrefix("2026/"))) {
 *     logger.emitLog(entry.name() + " " + entry.size());
 * }
 * services.setMetadata("/photos/cat.jpg", Map.of("Checked", "yes"));
 * try (StoredOutputStream index = services.create("/index/names")) {
 *     index.write("cat.jpg\n".getBytes(UTF_8));
 *     index.complete();
 * }
 * }</pre>
 *
 * <p>Any number of threads of the run may use it at the same time. When the run has ended, it and
 * all its streams throw {@link UnavailableException}.
 *
 * <p>All methods that reach the store throw {@link NotFoundException}, {@link DeniedException},
 * {@link LimitExceededException}, {@link UnavailableException}, or {@link ServiceException} for
 * anything else.
 */
public abstract class Services {
    private static final String NONE =
            "this run has no services: the storlet does not declare X-Object-Meta-Storlet-Services, or the"
                    + " request is allowed by a signature only; a run without a cluster has none either";

    private static volatile Services current;

    private final Thread thread = Thread.currentThread();

    /** For the subclass of the sandbox; called by the thread that will run the storlet. */
    protected Services() {}

    /**
     * The services of the run that calls. Only for the thread of {@code invoke}: so no thread that
     * an earlier run has left behind can use the services of a later one. Other threads of the run
     * use the object that this method returns.
     *
     * @throws DeniedException when the run has none
     */
    public static Services current() throws DeniedException {
        Services found = current;
        if (found == null) {
            throw new DeniedException(NONE, ErrorCodes.SERVICE_NONE, 403);
        }
        if (found.thread != Thread.currentThread()) {
            throw new IllegalStateException(
                    "Services.current() is for the thread of invoke: call it there, and give the object to other threads");
        }
        return found;
    }

    /** For the subclass of the sandbox: begins a run, or ends it with null. */
    protected static void setCurrent(Services services) {
        current = services;
    }

    /** Opens an object for reading. */
    public final StoredInputStream open(String path) throws ServiceException {
        return openPart(path, null, null);
    }

    /** Opens the bytes of an object from {@code first}. The stream consists of these bytes only. */
    public final StoredInputStream open(String path, long first) throws ServiceException {
        return openPart(path, first, null);
    }

    /** Opens the bytes of an object from {@code first} to {@code last}, both included. */
    public final StoredInputStream open(String path, long first, long last) throws ServiceException {
        return openPart(path, first, last);
    }

    /** Opens an object, or the bytes between two, each of which may be null. */
    protected abstract StoredInputStream openPart(String path, Long first, Long last) throws ServiceException;

    /** The facts about an object. */
    public abstract Stat stat(String path) throws ServiceException;

    /** The objects of a container; see {@link #list(String, ListQuery)}. */
    public final Iterable<Entry> list(String container) {
        return list(container, ListQuery.ALL);
    }

    /**
     * The objects of a container that {@code query} selects. The iterator reads the pages of the
     * listing one after the other; its methods throw {@link java.io.UncheckedIOException} with the
     * reason as its cause.
     */
    public abstract Iterable<Entry> list(String container, ListQuery query);

    /**
     * Changes items of an object's user metadata; the other items stay. Null or an empty text
     * removes an item. The key {@code Content-Type} is the content type.
     */
    public abstract void setMetadata(String path, Map<String, String> changes) throws ServiceException;

    /** Runs another storlet on an object; see {@link #call(StorletCall)}. */
    public final StoredInputStream call(String storlet, String path) throws ServiceException {
        return call(StorletCall.of(storlet, path));
    }

    /**
     * Runs another storlet, in any language, on the node that has the object. Its output is a
     * stream that cannot seek, with its metadata. The end of the stream is the storlet's success.
     *
     * @throws CallFailedException when that storlet fails; a read of the stream may throw it, too
     */
    public abstract StoredInputStream call(StorletCall call) throws ServiceException;

    /** Runs another storlet on bytes; see {@link #call(StorletCall, InputStream)}. */
    public final StoredInputStream call(StorletCall call, byte[] data) throws IOException {
        return call(call, new ByteArrayInputStream(data));
    }

    /**
     * Runs another storlet on data, which a thread reads to its end while the storlet of this run
     * reads the result.
     *
     * @throws IOException also when {@code data} cannot be read
     */
    public abstract StoredInputStream call(StorletCall call, InputStream data) throws IOException;

    /**
     * Runs another storlet on data, and stores its output as the object {@code output}.
     *
     * @return the facts about the object
     */
    public abstract Stat callInto(StorletCall call, InputStream data, String output) throws IOException;

    /**
     * Runs another storlet, and stores its output as the object {@code output}.
     *
     * @return the facts about the object
     * @throws CallFailedException when that storlet fails; then nothing is stored
     */
    public abstract Stat callInto(StorletCall call, String output) throws ServiceException;

    /** Creates an object; see {@link #create(String, CreateOptions)}. */
    public final StoredOutputStream create(String path) throws ServiceException {
        return create(path, CreateOptions.NONE);
    }

    /** Creates an object, or replaces one, when the run succeeds. */
    public abstract StoredOutputStream create(String path, CreateOptions options) throws ServiceException;

    /** Copies an object with its metadata; an object at {@code target} is replaced. */
    public abstract void copy(String source, String target) throws ServiceException;

    /** Deletes an object. */
    public abstract void delete(String path) throws ServiceException;
}
