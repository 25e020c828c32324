package org.openstack.storlet.local;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.json.simple.JSONObject;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.SeekableStorletInputStream;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;
import org.openstack.storlet.secrets.Secrets;

/**
 * Runs a storlet once, in this JVM and without a sandbox, for a debugger.
 *
 * <p>Arguments: a file with the request, and one for the outcome. Both have pairs of texts, each
 * text ended by a zero byte. The output goes to standard output, each further one to a file; what
 * the storlet prints goes to standard error.
 */
public final class LocalRun {
    private static final String LOAD = "storlet.load";
    private static final String FAILED = "storlet.failed";
    private static final String METADATA = "storlet.limit.metadata";
    private static final int METADATA_BYTES = 4096;
    private static final String OWN = "org.openstack.storlet.local.";

    private LocalRun() {}

    public static void main(String[] arguments) throws IOException {
        Map<String, String> asked = read(Path.of(arguments[0]));
        ArrayList<Output> outputs = new ArrayList<>();
        outputs.add(new Output(new FileOutputStream(FileDescriptor.out)));
        for (int i = 1; asked.containsKey("output." + i); i++) {
            outputs.add(new Output(new FileOutputStream(asked.get("output." + i))));
        }
        System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.err), true));
        Map<String, String> ended = new LinkedHashMap<>();
        try {
            run(load(asked.get("main")), asked, outputs);
            for (Output output : outputs) {
                output.finish();
            }
            ended.put("code", "ok");
        } catch (LoadFailure failure) {
            describe(LOAD, failure.getCause(), ended);
        } catch (Throwable raised) {
            // A class or a native library that is missing shows itself only when it is first used.
            boolean isTooLarge = outputs.stream().anyMatch(output -> output.isTooLarge);
            String code = raised instanceof LinkageError ? LOAD : isTooLarge ? METADATA : FAILED;
            describe(code, raised, ended);
        }
        for (int i = 0; i < outputs.size(); i++) {
            String prefix = i == 0 ? "metadata." : "further." + i + ".";
            outputs.get(i).metadata.forEach((name, value) -> ended.put(prefix + name, value));
        }
        write(Path.of(arguments[1]), ended);
        // A leftover thread of the storlet would keep the process alive.
        Runtime.getRuntime().halt(0);
    }

    private static IStorlet load(String main) throws LoadFailure {
        try {
            Class<?> type = Class.forName(main);
            if (!IStorlet.class.isAssignableFrom(type)) {
                throw new IncompatibleClassChangeError("class " + main + " does not implement " + IStorlet.class.getName());
            }
            var constructor = type.getDeclaredConstructor();
            constructor.setAccessible(true);
            return (IStorlet) constructor.newInstance();
        } catch (ClassNotFoundException missing) {
            String text = "there is no class " + main + " in the storlet's jar or its dependencies";
            throw new LoadFailure(new NoClassDefFoundError(text));
        } catch (InvocationTargetException wrapped) {
            throw new LoadFailure(wrapped.getCause());
        } catch (Throwable raised) {
            throw new LoadFailure(raised);
        }
    }

    private static void run(IStorlet storlet, Map<String, String> asked, List<Output> all) throws Exception {
        ArrayList<StorletInputStream> inputs = new ArrayList<>();
        Map<String, String> parameters = new HashMap<>();
        for (int i = 0; asked.containsKey("input." + i); i++) {
            FileInputStream file = new FileInputStream(asked.get("input." + i));
            HashMap<String, String> metadata = below(asked, "metadata." + i + ".");
            if (asked.containsKey("seekable")) {
                long size = file.getChannel().size();
                inputs.add(SeekableStorletInputStream.ofFile(file.getFD(), metadata, size));
            } else {
                inputs.add(new StorletInputStream(file.getFD(), metadata));
            }
        }
        parameters.putAll(below(asked, "parameter."));
        ArrayList<StorletOutputStream> outputs = new ArrayList<>(all);
        Map<String, byte[]> secrets = new HashMap<>();
        below(asked, "secret.").forEach((name, text) -> secrets.put(name, Base64.getDecoder().decode(text)));
        Given.begin(secrets);
        try (FileOutputStream log = new FileOutputStream(asked.get("log"))) {
            storlet.invoke(inputs, outputs, parameters, new StorletLogger(log.getFD()));
        }
    }

    private static HashMap<String, String> below(Map<String, String> all, String prefix) {
        HashMap<String, String> found = new HashMap<>();
        all.forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), value);
            }
        });
        return found;
    }

    private static void describe(String code, Throwable raised, Map<String, String> ended) {
        boolean isPlain = raised.getClass() == StorletException.class && raised.getMessage() != null;
        Throwable cause = raised instanceof ExceptionInInitializerError && raised.getCause() != null ? raised.getCause() : raised;
        ended.put("code", code);
        ended.put("message", isPlain ? raised.getMessage() : String.valueOf(cause));
        StringBuilder text = new StringBuilder();
        String prefix = "";
        for (Throwable each = raised; each != null && text.length() < 16384; each = each.getCause()) {
            text.append(prefix).append(each).append('\n');
            for (StackTraceElement frame : each.getStackTrace()) {
                if (!frame.getClassName().startsWith(OWN)) {
                    text.append("    at ").append(frame).append('\n');
                }
            }
            prefix = "Caused by: ";
        }
        ended.put("traceback", text.toString());
    }

    private static Map<String, String> read(Path file) throws IOException {
        String[] texts = new String(Files.readAllBytes(file), StandardCharsets.UTF_8).split("\0", -1);
        Map<String, String> pairs = new HashMap<>();
        for (int i = 0; i + 1 < texts.length; i += 2) {
            pairs.put(texts[i], texts[i + 1]);
        }
        return pairs;
    }

    private static void write(Path file, Map<String, String> pairs) throws IOException {
        // A text without the separator: in metadata, the other control character is refused, too.
        StringBuilder text = new StringBuilder();
        pairs.forEach((name, value) -> text.append(name.replace('\0', '\1')).append('\0').append(value.replace('\0', '\1')).append('\0'));
        // Renamed when it is complete.
        Path partial = Path.of(file + ".partial");
        Files.write(partial, text.toString().getBytes(StandardCharsets.UTF_8));
        new File(partial.toString()).renameTo(file.toFile());
    }

    /** The code cannot be loaded, for its cause. */
    private static final class LoadFailure extends Exception {
        private static final long serialVersionUID = 1;

        LoadFailure(Throwable cause) {
            super(cause);
        }
    }

    /** The secrets of the run. */
    private static final class Given extends Secrets {
        private Given(Map<String, byte[]> values) {
            super(values);
        }

        static void begin(Map<String, byte[]> values) {
            setCurrent(new Given(values));
        }
    }

    /** The output: metadata once and before the first byte, as in a sandbox. */
    private static final class Output extends StorletObjectOutputStream {
        final Map<String, String> metadata = new LinkedHashMap<>();
        boolean isTooLarge;
        private boolean isSet;
        private final ByteArrayOutputStream written = new ByteArrayOutputStream();

        Output(FileOutputStream file) {
            super(new HashMap<>());
            this.stream = new OutputStream() {
                @Override
                public void write(int b) throws IOException {
                    write(new byte[] {(byte) b}, 0, 1);
                }

                @Override
                public void write(byte[] b, int off, int len) throws IOException {
                    finishMetadata();
                    file.write(b, off, len);
                }

                @Override
                public void close() throws IOException {
                    file.close();
                }
            };
        }

        @Override
        public OutputStream getStream() {
            return stream;
        }

        @Override
        public OutputStream getMDStream() {
            return written;
        }

        @Override
        public void closeMD() {}

        @Override
        public void setMetadata(Map<String, String> md) throws StorletException {
            if (isSet) {
                throw new StorletException("metadata is set once, and before the first byte of the output");
            }
            isSet = true;
            // Storlets that were written for other value types also pass raw maps.
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) md).entrySet()) {
                if (entry.getKey() != null && entry.getValue() != null) {
                    metadata.put(entry.getKey().toString(), entry.getValue().toString());
                }
            }
            int size = JSONObject.toJSONString(metadata).getBytes(StandardCharsets.UTF_8).length;
            if (size > METADATA_BYTES) {
                isTooLarge = true;
                metadata.clear();
                throw new StorletException("the metadata is larger than the sandbox allows");
            }
            empty(md);
        }

        private void finishMetadata() throws IOException {
            if (!isSet && written.size() > 0) {
                throw new IOException("metadata that is written as JSON needs a sandbox: use setMetadata");
            }
            isSet = true;
        }

        void finish() throws IOException, StorletException {
            if (isTooLarge) {
                throw new StorletException("the metadata is larger than the sandbox allows");
            }
            finishMetadata();
            stream.close();
        }

        @Override
        public void close() {
            try {
                stream.close();
            } catch (IOException lost) {
                // There is no buffer, so no data is lost.
            }
        }
    }
}
