package org.openstack.storlet.daemon;

import java.util.Map;
import org.openstack.storlet.secrets.Secrets;

/** The secrets of one run. */
final class RunSecrets extends Secrets {
    private RunSecrets(Map<String, byte[]> values) {
        super(values);
    }

    /** Begins the secrets of a run, which may be none. */
    static void begin(Map<String, byte[]> values) {
        setCurrent(new RunSecrets(values));
    }

    /** Ends them: their object throws from now on. */
    static void end() {
        setCurrent(null);
    }
}
