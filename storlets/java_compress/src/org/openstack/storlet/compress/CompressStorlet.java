package org.openstack.storlet.compress;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;

/**
 * Compresses an object in gzip format, or with {@code action=decompress} decompresses it. Parameter
 * {@code level}: 1 (fast) to 9 (small), default 6.
 */
public class CompressStorlet implements IStorlet {
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
        String action = parameters.getOrDefault("action", "compress");
        HashMap<String, String> metadata = new HashMap<>(source.getMetadata());
        try {
            switch (action) {
                case "compress":
                    int level = level(parameters.getOrDefault("level", "6"));
                    metadata.put("Content-Type", "application/gzip");
                    target.setMetadata(metadata);
                    compress(source.getStream(), target.getStream(), level);
                    break;
                case "decompress":
                    metadata.put("Content-Type", "application/octet-stream");
                    // Before the metadata is set, so that an object that is not a gzip file is
                    // refused with an error status.
                    GZIPInputStream plain = new GZIPInputStream(source.getStream(), CHUNK_BYTES);
                    target.setMetadata(metadata);
                    copy(plain, target.getStream());
                    break;
                default:
                    throw new StorletException("action must be compress or decompress, not " + action);
            }
        } catch (IOException cause) {
            throw new StorletException(action + " failed: " + cause.getMessage());
        }
    }

    private static int level(String text) throws StorletException {
        if (!text.matches("[1-9]")) {
            throw new StorletException("level must be 1 to 9, not " + text);
        }
        return Integer.parseInt(text);
    }

    private static void compress(InputStream source, OutputStream target, int level) throws IOException {
        try (Gzip gzip = new Gzip(target, level)) {
            copy(source, gzip);
        }
    }

    private static void copy(InputStream source, OutputStream target) throws IOException {
        byte[] chunk = new byte[CHUNK_BYTES];
        for (int count = source.read(chunk); count >= 0; count = source.read(chunk)) {
            target.write(chunk, 0, count);
        }
    }

    /** The JDK's own stream has no other way to set a level. */
    private static final class Gzip extends GZIPOutputStream {
        Gzip(OutputStream target, int level) throws IOException {
            super(target, CHUNK_BYTES);
            def.setLevel(level);
        }
    }
}
