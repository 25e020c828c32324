package legacy;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.openstack.storlet.common.*;

/** In the style of OpenStack Storlets: runs a dependency found beside its own jar. */
public class Exec implements IStorlet {
    @Override
    public void invoke(ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters, StorletLogger log)
            throws StorletException {
        StorletObjectOutputStream storletObjectOutputStream = (StorletObjectOutputStream) outStreams.get(0);
        try {
            String folder = StorletUtils.getClassFolder(this.getClass());
            log.emitLog("My folder is " + folder);
            Process process = new ProcessBuilder(folder + File.separator + parameters.get("program")).start();
            int code = process.waitFor();
            HashMap<String, String> md = new HashMap<String, String>();
            md.put("Depend-Ret-Code", Integer.toString(code));
            storletObjectOutputStream.setMetadata(md);
            storletObjectOutputStream.getStream().write(process.getInputStream().readAllBytes());
            inStreams.get(0).getStream().close();
            storletObjectOutputStream.close();
        } catch (IOException | InterruptedException e) {
            log.emitLog("Exec: " + e.getMessage());
            throw new StorletException(e.getMessage());
        }
    }
}
