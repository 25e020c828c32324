package legacy;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.json.simple.JSONObject;
import org.json.simple.parser.JSONParser;
import org.json.simple.parser.ParseException;
import org.openstack.storlet.common.*;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** In the style of OpenStack Storlets: casts, json-simple, slf4j, copy loop, closes all streams. */
public class Streams implements IStorlet {
    private static final Logger LOG = LoggerFactory.getLogger(Streams.class);

    @Override
    public void invoke(ArrayList<StorletInputStream> inputStreams,
            ArrayList<StorletOutputStream> outputStreams,
            Map<String, String> parameters, StorletLogger logger)
            throws StorletException {
        LOG.debug("slf4j is there");
        logger.emitLog("Streams was called");
        StorletInputStream sis = inputStreams.get(0);
        StorletObjectOutputStream sos = (StorletObjectOutputStream) outputStreams.get(0);
        HashMap<String, String> metadata = sis.getMetadata();
        HashMap<String, String> changed = new HashMap<String, String>();
        for (Map.Entry<String, String> entry : metadata.entrySet()) {
            changed.put(entry.getKey(), entry.getValue());
        }
        changed.put("override_key", "new_value");
        try {
            JSONObject parsed = (JSONObject) new JSONParser().parse("{\"n\": 7}");
            changed.put("Parsed", parsed.get("n").toString());
        } catch (ParseException e) {
            throw new StorletException(e.toString());
        }
        sos.setMetadata(changed);
        InputStream is = sis.getStream();
        OutputStream os = sos.getStream();
        try {
            byte[] buffer = new byte[1024];
            int len;
            while ((len = is.read(buffer)) != -1) {
                os.write(buffer, 0, len);
            }
            is.close();
            os.close();
        } catch (IOException e) {
            logger.emitLog(e.getMessage());
            throw new StorletException(e.getMessage());
        } finally {
            sis.close();
            sos.close();
        }
        logger.emitLog("Streams is done");
        logger.Flush();
    }
}
