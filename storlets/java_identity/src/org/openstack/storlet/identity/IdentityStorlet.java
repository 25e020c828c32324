package org.openstack.storlet.identity;

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

/** Copies the object unchanged, with its metadata. The shortest storlet, a start for your own. */
public class IdentityStorlet implements IStorlet {
    private static final int CHUNK_BYTES = 256 * 1024;

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        StorletInputStream source = inStreams.get(0);
        StorletObjectOutputStream target = (StorletObjectOutputStream) outStreams.get(0);
        HashMap<String, String> metadata = new HashMap<>(source.getMetadata());
        // Metadata goes first: it becomes headers, and the first byte of the body ends the time for
        // headers.
        target.setMetadata(metadata);
        try {
            long bytes = copy(source.getStream(), target.getStream());
            logger.emitLog("identity: " + bytes + " bytes");
        } catch (IOException cause) {
            throw new StorletException("copying failed: " + cause.getMessage());
        }
    }

    private static long copy(InputStream source, OutputStream target) throws IOException {
        byte[] chunk = new byte[CHUNK_BYTES];
        long total = 0;
        // Whole chunks: on a pipe, read() returns the available bytes, and the reader of the output
        // would be woken for each piece.
        for (int count = source.readNBytes(chunk, 0, CHUNK_BYTES); count > 0; count = source.readNBytes(chunk, 0, CHUNK_BYTES)) {
            target.write(chunk, 0, count);
            total += count;
        }
        return total;
    }
}
