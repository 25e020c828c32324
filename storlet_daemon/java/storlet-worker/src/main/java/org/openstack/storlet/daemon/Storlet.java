package org.openstack.storlet.daemon;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.util.zip.ZipFile;
import org.openstack.storlet.common.IStorlet;

/** Turns the name of a storlet's class into its one instance. */
final class Storlet {
    private Storlet() {}

    /**
     * Loads the class and calls its constructor.
     *
     * @throws Throwable any error of the tenant's code, or the reason for a missing storlet
     */
    static IStorlet load(String main) throws Throwable {
        Class<?> type;
        try {
            type = Class.forName(main);
        } catch (ClassNotFoundException missing) {
            throw new NoClassDefFoundError(whyMissing(main));
        }
        if (!IStorlet.class.isAssignableFrom(type)) {
            throw new IncompatibleClassChangeError("class " + main + " does not implement " + IStorlet.class.getName());
        }
        try {
            var constructor = type.getDeclaredConstructor();
            constructor.setAccessible(true);
            return (IStorlet) constructor.newInstance();
        } catch (NoSuchMethodException missing) {
            throw new InstantiationException("class " + main + " has no constructor without arguments");
        } catch (InvocationTargetException wrapped) {
            throw wrapped.getCause();
        }
    }

    /** The JVM silently ignores a file that is not a jar, so report it to the author. */
    private static String whyMissing(String main) {
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            try {
                new ZipFile(entry).close();
            } catch (IOException fault) {
                return new File(entry).getName() + " is not a jar that can be read: " + fault.getMessage();
            }
        }
        return "there is no class " + main + " in the storlet's jar or its dependencies";
    }
}
