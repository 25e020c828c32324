package org.openstack.storlet.execdep;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;
import org.openstack.storlet.common.StorletUtils;

/**
 * Runs a program that was uploaded as a dependency, reports its exit code in the metadata, and
 * copies the object.
 */
public class ExecDepStorlet implements IStorlet {
    private static final String PROGRAM = "get42";

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        StorletInputStream source = inStreams.get(0);
        StorletObjectOutputStream target = (StorletObjectOutputStream) outStreams.get(0);
        // Dependencies lie beside the jar.
        String program = StorletUtils.getClassFolder(getClass()) + "/" + PROGRAM;
        try {
            // The program's output is written to the log of this invocation.
            Process process = new ProcessBuilder(program).inheritIO().start();
            int status = process.waitFor();
            logger.emitLog(PROGRAM + " ended with " + status);
            HashMap<String, String> metadata = new HashMap<>(source.getMetadata());
            metadata.put("Depend-Ret-Code", Integer.toString(status));
            target.setMetadata(metadata);
            source.getStream().transferTo(target.getStream());
        } catch (IOException cause) {
            throw new StorletException("running " + PROGRAM + " failed: " + cause.getMessage());
        } catch (InterruptedException cause) {
            throw new StorletException("interrupted");
        }
    }
}
