package org.openstack.storlet.half;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Map;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;

/**
 * Keeps every second byte of the object, beginning with the first: a result whose length is not
 * the object's.
 */
public class HalfStorlet implements IStorlet {
    private static final int CHUNK_BYTES = 64 * 1024;

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        StorletInputStream source = inStreams.get(0);
        StorletObjectOutputStream target = (StorletObjectOutputStream) outStreams.get(0);
        target.setMetadata(source.getMetadata());
        try {
            halve(source.getStream(), target.getStream());
        } catch (IOException cause) {
            throw new StorletException("halving failed: " + cause.getMessage());
        }
    }

    private static void halve(InputStream source, OutputStream target) throws IOException {
        byte[] chunk = new byte[CHUNK_BYTES];
        // A read may return an odd number of bytes, so the parity is kept across reads.
        boolean isKept = true;
        for (int count = source.read(chunk); count >= 0; count = source.read(chunk)) {
            int kept = 0;
            for (int i = 0; i < count; i++) {
                if (isKept) {
                    chunk[kept++] = chunk[i];
                }
                isKept = !isKept;
            }
            target.write(chunk, 0, kept);
        }
    }
}
