package probe;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.json.simple.JSONObject;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;
import org.openstack.storlet.common.StorletUtils;
import org.slf4j.LoggerFactory;

/** The parameter {@code do} names the action. */
public class Probe implements IStorlet {
    private static final List<byte[]> HOARD = new ArrayList<>();

    private int runs;

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        runs++;
        try {
            act(inStreams, (StorletObjectOutputStream) outStreams.get(0), parameters, logger);
        } catch (IOException | InterruptedException cause) {
            StorletException failure = new StorletException(cause.getMessage());
            failure.initCause(cause);
            throw failure;
        }
    }

    private void act(
            ArrayList<StorletInputStream> inputs, StorletObjectOutputStream output, Map<String, String> parameters, StorletLogger logger)
            throws IOException, InterruptedException, StorletException {
        InputStream source = inputs.get(0).getStream();
        OutputStream target = output.getStream();
        switch (parameters.get("do")) {
            case "nothing":
                break;
            case "identity":
                output.setMetadata(inputs.get(0).getMetadata());
                byte[] chunk = new byte[65536];
                for (int count = source.read(chunk); count >= 0; count = source.read(chunk)) {
                    target.write(chunk, 0, count);
                }
                break;
            case "join":
                for (StorletInputStream input : inputs) {
                    input.getStream().transferTo(target);
                }
                break;
            case "read whole":
                target.write(source.readNBytes(3));
                target.write(Long.toString(source.skip(2)).getBytes(StandardCharsets.US_ASCII));
                target.write(source.readAllBytes());
                target.write(Long.toString(source.skip(1)).getBytes(StandardCharsets.US_ASCII));
                break;
            case "zip":
                zip(inputs, target);
                break;
            case "channel":
                ((FileOutputStream) target).getChannel().write(ByteBuffer.wrap("by channel".getBytes()));
                break;
            case "metadata stream":
                output.getMDStream().write(parameters.get("json").getBytes(StandardCharsets.UTF_8));
                output.closeMD();
                target.write('x');
                break;
            case "metadata stream, not closed":
                output.getMDStream().write("{\"a\":\"b\"}".getBytes());
                target.write('x');
                break;
            case "metadata of raw types":
                output.setMetadata(rawMetadata());
                break;
            case "metadata is emptied":
                HashMap<String, String> emptied = new HashMap<>(Map.of("a", "b"));
                output.setMetadata(emptied);
                target.write(emptied.toString().getBytes());
                break;
            case "metadata twice":
                output.setMetadata(Map.of("a", "b"));
                output.setMetadata(Map.of("a", "b"));
                break;
            case "metadata after data":
                target.write('x');
                output.setMetadata(Map.of("a", "b"));
                break;
            case "metadata after close":
                target.close();
                output.setMetadata(Map.of("a", "b"));
                break;
            case "large metadata":
                large(output, parameters);
                break;
            case "write after close":
                output.close();
                try {
                    target.write('x');
                } catch (IOException swallowed) {
                    logger.emitLog("swallowed");
                }
                break;
            case "raise":
                throw new StorletException(parameters.get("text"));
            case "fail half-way":
                target.write(new byte[1000]);
                throw new IllegalStateException("half-way");
            case "overflow":
                overflow(1);
                break;
            case "hoard":
                while (true) {
                    HOARD.add(new byte[1 << 20]);
                }
            case "use what is missing":
                target.write(Absent.class.getName().getBytes());
                break;
            case "exit":
                target.write(new byte[10]);
                System.exit(0);
                break;
            case "sleep":
                Thread.sleep(600_000);
                break;
            case "leave a thread":
            case "leave a daemon thread":
                leaveThread(parameters.get("do").contains("daemon"));
                break;
            case "leave a child":
                new ProcessBuilder("sleep", "600").start();
                break;
            case "run a child":
                new ProcessBuilder("sh", "-c", "echo printed by a child").inheritIO().start().waitFor();
                logger.emitLog("then by us");
                break;
            case "write by threads":
                writeByThreads(target);
                break;
            case "log":
                logger.emitLog("Zürich");
                System.out.println("printed");
                System.err.print("not ended");
                break;
            case "close the standard streams":
                System.out.print("last words");
                System.out.close();
                System.setErr(System.out);
                break;
            case "flood":
                for (int i = 0; i < 100_000; i++) {
                    logger.emitLog("line " + i + " é");
                }
                break;
            case "parameters":
                target.write(new TreeMap<>(parameters).toString().getBytes(StandardCharsets.UTF_8));
                break;
            case "runs":
                target.write(Integer.toString(runs).getBytes());
                break;
            case "libraries":
                LoggerFactory.getLogger("probe").info("by slf4j");
                JSONObject object = new JSONObject();
                target.write(object.toJSONString().getBytes());
                target.write(StorletUtils.getClassFolder(Probe.class).getBytes());
                break;
            case "descriptors":
                for (File entry : new File("/proc/self/fd").listFiles()) {
                    target.write((describe(entry) + "\n").getBytes());
                }
                break;
            default:
                throw new StorletException("do what?");
        }
    }

    private static void zip(ArrayList<StorletInputStream> inputs, OutputStream target) throws IOException {
        for (int ended = 0; ended < inputs.size(); ) {
            ended = 0;
            for (StorletInputStream input : inputs) {
                int b = input.getStream().read();
                if (b < 0) {
                    ended++;
                } else {
                    target.write(b);
                }
            }
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Map<String, String> rawMetadata() {
        Map metadata = new HashMap();
        metadata.put("number", 5);
        metadata.put("none", null);
        metadata.put("text", "é\ud83d\ude00\ud800\u0001\"");
        return metadata;
    }

    private static void large(StorletObjectOutputStream output, Map<String, String> parameters) throws IOException {
        try {
            output.setMetadata(Map.of("a", "x".repeat(Integer.parseInt(parameters.get("bytes")) - "{\"a\":\"\"}".length())));
        } catch (StorletException swallowed) {
            output.getStream().write('x');
        }
    }

    private static int overflow(int depth) {
        return overflow(depth + 1) + 1;
    }

    private static void leaveThread(boolean isDaemon) {
        Thread thread = new Thread(() -> {
            try {
                Thread.sleep(600_000);
            } catch (InterruptedException end) {
                // Fall through.
            }
        });
        thread.setDaemon(isDaemon);
        thread.start();
    }

    private static void writeByThreads(OutputStream target) throws InterruptedException {
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                try {
                    for (int j = 0; j < 100; j++) {
                        target.write("0123456789".getBytes());
                    }
                } catch (IOException fault) {
                    throw new RuntimeException(fault);
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static String describe(File entry) throws IOException {
        try {
            return entry.getName() + " " + Files.readSymbolicLink(entry.toPath());
        } catch (java.nio.file.NoSuchFileException closed) {
            return entry.getName() + " (the listing itself)";
        }
    }
}

/** Compiled, but left out of the jar. */
class Absent {}

/** Has no accessible constructor. */
class NeedsArgument implements IStorlet {
    NeedsArgument(int argument) {}

    @Override
    public void invoke(
            ArrayList<StorletInputStream> in, ArrayList<StorletOutputStream> out, Map<String, String> parameters, StorletLogger logger) {}
}

/** Its constructor throws. */
class Stillborn implements IStorlet {
    Stillborn() {
        throw new IllegalArgumentException("not today");
    }

    @Override
    public void invoke(
            ArrayList<StorletInputStream> in, ArrayList<StorletOutputStream> out, Map<String, String> parameters, StorletLogger logger) {}
}

/** Its static initialiser throws. */
class BadStatic implements IStorlet {
    static final int NUMBER = Integer.parseInt("twelve");

    @Override
    public void invoke(
            ArrayList<StorletInputStream> in, ArrayList<StorletOutputStream> out, Map<String, String> parameters, StorletLogger logger) {}
}
