package reveal;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Map;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;
import org.openstack.storlet.secrets.Secrets;

/** Writes a secret to its output; with ``do=leak``, to its error. */
public class Reveal implements IStorlet {
    @Override
    public void invoke(ArrayList<StorletInputStream> in, ArrayList<StorletOutputStream> out, Map<String, String> params,
            StorletLogger logger) throws StorletException {
        byte[] value = Secrets.current().get("mac-key");
        if ("leak".equals(params.get("do"))) {
            throw new StorletException(new String(value));
        }
        try {
            ((StorletObjectOutputStream) out.get(0)).getStream().write(value);
            ((StorletObjectOutputStream) out.get(0)).getStream().write('\n');
        } catch (IOException e) {
            throw new StorletException(e.getMessage());
        }
    }
}
