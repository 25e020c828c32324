package org.openstack.storlet.secrets;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * The secrets of the storlet that runs:
 *
 * <pre>{@code
 * byte[] key = Secrets.current().get("mac-key");
 * }</pre>
 *
 * <p>A value has the bytes that the owner of the account has set. Do not print a value or a part of
 * it, and do not keep it for later runs. Any number of threads of the run may use the object. When
 * the run has ended, it throws {@link SecretException}.
 */
public abstract class Secrets {
    private static volatile Secrets current;

    private final Thread thread = Thread.currentThread();
    private volatile Map<String, byte[]> values;

    /** For the subclass of the sandbox; called by the thread that will run the storlet. */
    protected Secrets(Map<String, byte[]> values) {
        this.values = new TreeMap<>(values);
    }

    /**
     * The secrets of the run that calls. Only for the thread of {@code invoke}: so no thread that
     * an earlier run has left behind can use the secrets of a later one. Other threads of the run
     * use the object that this method returns.
     *
     * @throws SecretException outside of a run
     */
    public static Secrets current() {
        Secrets found = current;
        if (found == null) {
            throw new SecretException("there are no secrets outside of a run");
        }
        if (found.thread != Thread.currentThread()) {
            throw new IllegalStateException(
                    "Secrets.current() is for the thread of invoke: call it there, and give the object to other threads");
        }
        return found;
    }

    /** For the subclass of the sandbox: begins a run, or ends it with null. */
    protected static void setCurrent(Secrets secrets) {
        Secrets ended = current;
        current = secrets;
        if (ended != null) {
            ended.values = Map.of();
        }
    }

    /**
     * The value of a secret, as a copy.
     *
     * @throws SecretException when the run has no secret of this name
     */
    public final byte[] get(String name) {
        Map<String, byte[]> found = values;
        byte[] value = found.get(name);
        if (value == null) {
            String declared = found.isEmpty() ? "none" : String.join(", ", found.keySet());
            throw new SecretException("this run has no secret '" + name + "'; the storlet declares: " + declared
                    + " (X-Object-Meta-Storlet-Secrets)");
        }
        return value.clone();
    }

    /** The names of the secrets of this run. */
    public final Set<String> names() {
        return new TreeSet<>(values.keySet());
    }
}
