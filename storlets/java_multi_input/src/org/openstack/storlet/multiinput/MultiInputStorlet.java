package org.openstack.storlet.multiinput;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
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
 * Joins several objects to one, in the order in which the request names them. Parameter {@code
 * separator}: text written between two of them, default none. The metadata of the result contains
 * every input's own and the number of inputs.
 */
public class MultiInputStorlet implements IStorlet {
    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        StorletObjectOutputStream target = (StorletObjectOutputStream) outStreams.get(0);
        target.setMetadata(metadata(inStreams));
        byte[] separator = parameters.getOrDefault("separator", "").getBytes(StandardCharsets.UTF_8);
        try {
            join(inStreams, target.getStream(), separator);
        } catch (IOException cause) {
            throw new StorletException("joining failed: " + cause.getMessage());
        }
    }

    private static Map<String, String> metadata(ArrayList<StorletInputStream> sources) {
        Map<String, String> metadata = new HashMap<>();
        metadata.put("Inputs", Integer.toString(sources.size()));
        for (int i = 0; i < sources.size(); i++) {
            String prefix = "Input-" + (i + 1) + "-";
            sources.get(i).getMetadata().forEach((name, value) -> metadata.put(prefix + name, value));
        }
        return metadata;
    }

    private static void join(ArrayList<StorletInputStream> sources, OutputStream target, byte[] separator) throws IOException {
        boolean isFirst = true;
        for (StorletInputStream source : sources) {
            if (!isFirst) {
                target.write(separator);
            }
            isFirst = false;
            source.getStream().transferTo(target);
        }
    }
}
