package org.openstack.storlet.partitionsidentity;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
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

/**
 * Copies the whole lines of one partition of an object, for distributed jobs that divide a large
 * object at round numbers of bytes and need each line exactly once.
 *
 * <p>Parameters: {@code partition} ({@code first} or {@code later}, default first) and {@code
 * partition_bytes} (default: to the end). The partition of the bytes s to e (without e) is
 * requested with the range {@code bytes=s-}, {@code partition_bytes = e - s}, and {@code later}
 * unless s is 0. A line belongs to the partition that holds the byte before it.
 */
public class PartitionsIdentityStorlet implements IStorlet {
    private static final int BUFFER_BYTES = 64 * 1024;

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        boolean isLater = isLater(parameters.getOrDefault("partition", "first"));
        long bytes = bytes(parameters.get("partition_bytes"));
        StorletInputStream source = inStreams.get(0);
        StorletObjectOutputStream target = (StorletObjectOutputStream) outStreams.get(0);
        target.setMetadata(new HashMap<>(source.getMetadata()));
        try (OutputStream out = new BufferedOutputStream(target.getStream(), BUFFER_BYTES)) {
            copyLines(new BufferedInputStream(source.getStream(), BUFFER_BYTES), out, isLater, bytes);
        } catch (IOException cause) {
            throw new StorletException("copying failed: " + cause.getMessage());
        }
    }

    private static boolean isLater(String partition) throws StorletException {
        if (!partition.equals("first") && !partition.equals("later")) {
            throw new StorletException("partition must be first or later, not " + partition);
        }
        return partition.equals("later");
    }

    private static long bytes(String text) throws StorletException {
        try {
            return text == null ? Long.MAX_VALUE : Long.parseLong(text);
        } catch (NumberFormatException fault) {
            throw new StorletException("partition_bytes must be a whole number, not " + text);
        }
    }

    private static void copyLines(InputStream source, OutputStream target, boolean isLater, long bytes) throws IOException {
        long offset = 0;
        boolean atLineStart = !isLater;
        boolean isOurs = !isLater;
        for (int b = source.read(); b >= 0; b = source.read(), offset++) {
            if (atLineStart && offset > bytes) {
                // This line starts after the last byte of this partition: it belongs to the next
                // one.
                return;
            }
            if (isOurs) {
                target.write(b);
            }
            atLineStart = b == '\n';
            // The first line of a later partition, or its rest, belongs to the partition before.
            isOurs |= atLineStart;
        }
    }
}
