package org.openstack.storlet.common;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.json.simple.JSONObject;

/** The output object: metadata first, then bytes. */
public class StorletObjectOutputStream extends StorletOutputStream {
    private OutputStream metadataStream;

    /**
     * @param data_fd descriptor for the bytes
     * @param data_md metadata known beforehand
     * @param md_fd descriptor for the metadata, as one JSON object
     */
    public StorletObjectOutputStream(FileDescriptor data_fd, HashMap<String, String> data_md, FileDescriptor md_fd) {
        super(data_fd, data_md);
        metadataStream = new FileOutputStream(md_fd);
    }

    /**
     * For subclasses that handle data and metadata themselves; they override every method that is
     * not a getter of a map.
     */
    protected StorletObjectOutputStream(HashMap<String, String> data_md) {
        super(data_md);
    }

    /** For the bytes of the object. The first byte ends the time for metadata. */
    public OutputStream getStream() {
        return stream;
    }

    /** For the metadata as one JSON object; {@link #setMetadata} is easier. */
    public OutputStream getMDStream() {
        return metadataStream;
    }

    /** Marks the metadata as complete. */
    public void closeMD() {
        closeQuietly(metadataStream);
    }

    /**
     * Sets the metadata of the object, once, before its first byte. The key {@code Content-Type}
     * sets the content type; any other becomes {@code X-Object-Meta-<key>}. Empties the map, unless
     * it cannot be changed.
     *
     * @throws StorletException when it was set before, comes after data, or is too large
     */
    public void setMetadata(Map<String, String> md) throws StorletException {
        try {
            metadataStream.write(JSONObject.toJSONString(md).getBytes(StandardCharsets.UTF_8));
        } catch (IOException cause) {
            StorletException failure = new StorletException("metadata cannot be set: " + cause.getMessage());
            failure.initCause(cause);
            throw failure;
        }
        closeMD();
        empty(md);
    }

    /** Removes all entries of a map; one that cannot be changed keeps them. */
    protected static void empty(Map<?, ?> map) {
        try {
            map.clear();
        } catch (UnsupportedOperationException isConstant) {
            // Such as Map.of: storlets pass it to save a variable.
        }
    }

    @Override
    public void close() {
        super.close();
        closeMD();
    }
}
