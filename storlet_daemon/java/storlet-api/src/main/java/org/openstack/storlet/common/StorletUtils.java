package org.openstack.storlet.common;

import java.net.URISyntaxException;
import java.net.URL;
import java.nio.file.Path;

/** Small helpers for storlets. */
public class StorletUtils {
    /**
     * The folder of the jar that holds a class, without a slash at the end. The dependencies of a
     * storlet lie in the same folder as its jar.
     */
    public static final String getClassFolder(Class<?> o) {
        URL location = o.getProtectionDomain().getCodeSource().getLocation();
        try {
            // Through the URI, because a path with a space is quoted in the URL.
            return Path.of(location.toURI()).getParent().toString();
        } catch (URISyntaxException cause) {
            throw new IllegalStateException("class loaded from a strange place: " + location, cause);
        }
    }
}
