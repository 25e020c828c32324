package org.openstack.storlet.metadata;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;

/**
 * Reads the object's metadata and sets new ones on the result; the body is copied unchanged.
 *
 * <p>Parameters: {@code set-<Name>} sets {@code <Name>}, {@code remove} lists names to leave out
 * (separated by commas), {@code Content-Type} replaces the content type. Metadata that is not
 * repeated on the result is lost.
 */
public class MetadataStorlet implements IStorlet {
    private static final String SET_PREFIX = "set-";
    private static final String CONTENT_TYPE = "Content-Type";

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        StorletInputStream source = inStreams.get(0);
        StorletObjectOutputStream target = (StorletObjectOutputStream) outStreams.get(0);
        Map<String, String> metadata = changed(source.getMetadata(), parameters);
        logger.emitLog(source.getMetadata().size() + " metadata in, " + metadata.size() + " out");
        target.setMetadata(metadata);
        try {
            source.getStream().transferTo(target.getStream());
        } catch (IOException cause) {
            throw new StorletException("copying failed: " + cause.getMessage());
        }
    }

    private static Map<String, String> changed(Map<String, String> old, Map<String, String> parameters) {
        Map<String, String> metadata = new HashMap<>(old);
        Set<String> removed = Arrays.stream(parameters.getOrDefault("remove", "").split(","))
                .map(name -> name.trim().toLowerCase(Locale.ROOT))
                .collect(Collectors.toSet());
        metadata.keySet().removeIf(name -> removed.contains(name.toLowerCase(Locale.ROOT)));
        parameters.forEach((name, value) -> {
            if (name.toLowerCase(Locale.ROOT).startsWith(SET_PREFIX)) {
                metadata.put(name.substring(SET_PREFIX.length()), value);
            }
        });
        if (parameters.containsKey(CONTENT_TYPE)) {
            metadata.put(CONTENT_TYPE, parameters.get(CONTENT_TYPE));
        }
        return metadata;
    }
}
