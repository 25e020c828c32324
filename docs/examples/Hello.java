package hello;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Map;
import org.openstack.storlet.common.*;

public class Hello implements IStorlet {
    @Override
    public void invoke(ArrayList<StorletInputStream> inStreams, ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters, StorletLogger logger) throws StorletException {
        StorletObjectOutputStream output = (StorletObjectOutputStream) outStreams.get(0);
        String greeting = parameters.getOrDefault("greeting", "Hello");
        output.setMetadata(Map.of("Content-Type", "text/plain; charset=utf-8"));
        try (OutputStream out = output.getStream();
                BufferedReader lines = new BufferedReader(
                        new InputStreamReader(inStreams.get(0).getStream(), StandardCharsets.UTF_8))) {
            for (String name = lines.readLine(); name != null; name = lines.readLine()) {
                out.write((greeting + ", " + name.strip() + "!\n").getBytes(StandardCharsets.UTF_8));
            }
        } catch (IOException error) {
            throw new StorletException(error.getMessage());
        }
        logger.emitLog("greeted each name with " + greeting);
    }
}
