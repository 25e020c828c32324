import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;

/** The sample java_identity with the probes of probe.py. */
public class ProbeStorlet implements IStorlet {
    private static final int CHUNK_BYTES = 64 * 1024;

    /** Times of the previous run in this process. System.nanoTime() is the monotonic clock. */
    private static String before = "";

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        long began = System.nanoTime();
        StorletInputStream source = inStreams.get(0);
        StorletObjectOutputStream target = (StorletObjectOutputStream) outStreams.get(0);
        HashMap<String, String> metadata = new HashMap<>(source.getMetadata());
        metadata.put("probe", began + " " + before);
        target.setMetadata(metadata);
        long said = System.nanoTime();
        try {
            long got = copy(source.getStream(), target.getStream());
            before = began + " " + said + " " + got + " " + System.nanoTime();
        } catch (IOException cause) {
            throw new StorletException("copying failed: " + cause.getMessage());
        }
    }

    /** When the first input arrived. */
    private static long copy(InputStream source, OutputStream target) throws IOException {
        byte[] chunk = new byte[CHUNK_BYTES];
        int count = source.read(chunk);
        long got = System.nanoTime();
        for (; count >= 0; count = source.read(chunk)) {
            target.write(chunk, 0, count);
        }
        return got;
    }
}
