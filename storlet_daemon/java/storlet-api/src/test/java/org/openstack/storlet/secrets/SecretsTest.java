package org.openstack.storlet.secrets;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.util.Map;
import java.util.Set;
import org.junit.After;
import org.junit.Test;

public class SecretsTest {
    private static final class Given extends Secrets {
        Given(Map<String, byte[]> values) {
            super(values);
        }

        static void begin(Map<String, byte[]> values) {
            setCurrent(new Given(values));
        }

        static void end() {
            setCurrent(null);
        }
    }

    @After
    public void endTheRun() {
        Given.end();
    }

    @Test
    public void aRunHasItsSecretsOnly() {
        Given.begin(Map.of("mac-key", new byte[] {0, -1}));
        Secrets secrets = Secrets.current();
        assertArrayEquals(new byte[] {0, -1}, secrets.get("mac-key"));
        secrets.get("mac-key")[0] = 7;
        assertArrayEquals(new byte[] {0, -1}, secrets.get("mac-key"));
        assertEquals(Set.of("mac-key"), secrets.names());
        String message = assertThrows(SecretException.class, () -> secrets.get("other")).getMessage();
        assertEquals(
                "this run has no secret 'other'; the storlet declares: mac-key (X-Object-Meta-Storlet-Secrets)",
                message);
    }

    @Test
    public void anObjectThatIsKeptHasNothingAfterTheRun() {
        Given.begin(Map.of("mac-key", new byte[8]));
        Secrets kept = Secrets.current();
        Given.begin(Map.of("mac-key", new byte[9]));
        assertThrows(SecretException.class, () -> kept.get("mac-key"));
        assertEquals(9, Secrets.current().get("mac-key").length);
        Given.end();
        assertThrows(SecretException.class, Secrets::current);
    }

    @Test
    public void anotherThreadNeedsTheObject() throws InterruptedException {
        Given.begin(Map.of());
        RuntimeException[] raised = new RuntimeException[1];
        Thread thread = new Thread(() -> raised[0] = assertThrows(IllegalStateException.class, Secrets::current));
        thread.start();
        thread.join();
        assertEquals(IllegalStateException.class, raised[0].getClass());
    }
}
