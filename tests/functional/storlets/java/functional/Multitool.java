package functional;

import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.SeekableInputStream;
import org.openstack.storlet.common.SeekableStorletInputStream;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;

/** Twin of multitool.py: see there what each {@code do} means. */
public class Multitool implements IStorlet {
    private static final int CHUNK = 256 * 1024;

    /** One run; the storlet object itself has no state, since the contract lets runs share it. */
    private record Run(
            ArrayList<StorletInputStream> ins, ArrayList<StorletOutputStream> outs, Map<String, String> params) {
        StorletObjectOutputStream out() {
            return (StorletObjectOutputStream) outs.get(0);
        }

        String get(String key, String otherwise) {
            return params.getOrDefault(key, otherwise);
        }

        OutputStream stream() {
            return out().getStream();
        }

        void setMetadata() throws StorletException {
            Map<String, String> metadata = new HashMap<>();
            params.forEach((key, value) -> {
                if (key.startsWith("set-")) {
                    metadata.put(key.substring(4), value);
                }
            });
            out().setMetadata(metadata);
        }
    }

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        Run run = new Run(inStreams, outStreams, parameters);
        try {
            if (parameters.containsKey("count")) {
                try (FileOutputStream file = new FileOutputStream("/tmp/count-" + parameters.get("count"), true)) {
                    file.write('x');
                }
            }
            if (parameters.containsKey("log")) {
                for (int i = 0; i < Integer.parseInt(run.get("times", "1")); i++) {
                    logger.emitLog(parameters.get("log"));
                }
            }
            perform(run);
            run.stream().close();
            if (parameters.containsKey("late")) {
                logger.emitLog(parameters.get("late"));
            }
        } catch (IOException | ReflectiveOperationException | java.security.GeneralSecurityException error) {
            StorletException failure = new StorletException(error.toString());
            failure.initCause(error);
            throw failure;
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private void perform(Run run)
            throws StorletException, IOException, ReflectiveOperationException,
                    java.security.GeneralSecurityException, InterruptedException {
        switch (run.get("do", "identity")) {
            case "identity" -> copy(run, false);
            case "upper" -> copy(run, true);
            case "seek" -> seek(run);
            case "silent" -> copyOne(run.ins().get(0), run.stream(), false);
            case "nothing" -> { }
            case "spread" -> spread(run);
            case "describe" -> describe(run);
            case "fail" -> fail(run);
            case "counted" -> counted(run);
            case "slow" -> slow(run);
            case "version" -> run.stream().write(version().getBytes(StandardCharsets.UTF_8));
            case "dependency" -> dependency(run);
            case "code" -> code(run);
            case "flood" -> flood(run);
            case "hoard" -> hoard(run);
            case "burn" -> burn(run);
            case "threads" -> threads(run);
            case "files" -> files(run);
            case "fill" -> fill(run);
            default -> throw new StorletException("do what?");
        }
    }

    private static void copy(Run run, boolean upper) throws StorletException, IOException {
        run.setMetadata();
        for (StorletInputStream input : run.ins()) {
            copyOne(input, run.stream(), upper);
        }
    }

    private static void seek(Run run) throws StorletException, IOException {
        run.setMetadata();
        for (int time = 0; time < Integer.parseInt(run.get("times", "1")); time++) {
            for (StorletInputStream input : run.ins()) {
                SeekableInputStream source = ((SeekableStorletInputStream) input).getStream();
                run.stream().write(Long.toString(source.size()).getBytes(StandardCharsets.UTF_8));
                for (String place : run.get("places", "").split(" ")) {
                    String[] parts = place.split(",");
                    long offset = Long.parseLong(parts[0]);
                    source.seek(offset >= 0 ? offset : source.size() + offset);
                    run.stream().write('|');
                    run.stream().write(source.readNBytes(Integer.parseInt(parts[1])));
                }
                run.stream().write('\n');
            }
            run.stream().flush();
        }
    }

    private static void copyOne(StorletInputStream input, OutputStream target, boolean upper) throws IOException {
        byte[] buffer = new byte[CHUNK];
        InputStream source = input.getStream();
        int count;
        while ((count = source.read(buffer)) > 0) {
            if (upper) {
                for (int i = 0; i < count; i++) {
                    if (buffer[i] >= 'a' && buffer[i] <= 'z') {
                        buffer[i] -= 32;
                    }
                }
            }
            target.write(buffer, 0, count);
        }
    }

    private static void spread(Run run) throws StorletException, IOException, InterruptedException {
        byte[] buffer = new byte[CHUNK];
        byte[] data = Arrays.copyOf(buffer, run.ins().get(0).getStream().readNBytes(buffer, 0, CHUNK));
        for (int number = run.outs().size() - 1; number >= 0; number--) {
            if (number == 0) {
                Thread.sleep((long) (1000 * Double.parseDouble(run.get("before", "0"))));
            }
            StorletObjectOutputStream out = (StorletObjectOutputStream) run.outs().get(number);
            out.setMetadata(Map.of("Content-Type", "text/x-" + number, "Number", Integer.toString(number)));
            out.getStream().write((number + ":").getBytes(StandardCharsets.UTF_8));
            out.getStream().write(data);
            out.getStream().write("x".repeat(Integer.parseInt(run.get("bytes", "0"))).getBytes(StandardCharsets.UTF_8));
        }
        Thread.sleep((long) (1000 * Double.parseDouble(run.get("pause", "0"))));
        if (run.params().containsKey("how")) {
            fail(run);
        }
    }

    private static String hex(byte[] bytes) {
        return java.util.HexFormat.of().formatHex(bytes);
    }

    private static void line(StringBuilder text, String key, String value) {
        text.append(key).append('=').append(hex(value.getBytes(StandardCharsets.UTF_8))).append('\n');
    }

    private static void describe(Run run)
            throws StorletException, IOException, java.security.GeneralSecurityException {
        StringBuilder text = new StringBuilder();
        line(text, "inputs", Integer.toString(run.ins().size()));
        for (int number = 0; number < run.ins().size(); number++) {
            StorletInputStream input = run.ins().get(number);
            String prefix = "input." + number + ".";
            input.getMetadata()
                    .forEach((key, value) -> line(text, prefix + "meta." + key.toLowerCase(Locale.ROOT), value));
            MessageDigest digest = MessageDigest.getInstance("MD5");
            byte[] buffer = new byte[CHUNK];
            long size = 0;
            int count;
            while ((count = input.getStream().read(buffer)) > 0) {
                digest.update(buffer, 0, count);
                size += count;
            }
            line(text, prefix + "bytes", Long.toString(size));
            line(text, prefix + "md5", hex(digest.digest()));
        }
        run.params().forEach((key, value) -> line(text, "param." + key, value));
        run.setMetadata();
        run.stream().write(text.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static void fail(Run run) throws StorletException, IOException, InterruptedException {
        int after = Integer.parseInt(run.get("after", "0"));
        if (after > 0) {
            run.setMetadata();
            byte[] block = new byte[after];
            Arrays.fill(block, (byte) 'x');
            run.stream().write(block);
            run.stream().flush();
            Thread.sleep((long) (1000 * Double.parseDouble(run.get("pause", "0"))));
        }
        switch (run.get("how", "raise")) {
            case "exit" -> Runtime.getRuntime().halt(0);
            case "runtime" -> throw new IllegalStateException("fails on purpose: " + run.get("word", "-"));
            default -> throw new StorletException("fails on purpose: " + run.get("word", "-"));
        }
    }

    private static void counted(Run run) throws IOException {
        Path path = Path.of("/tmp/count-" + run.params().get("of"));
        run.stream().write(Long.toString(Files.exists(path) ? Files.size(path) : 0).getBytes(StandardCharsets.UTF_8));
    }

    private static void slow(Run run) throws StorletException, IOException, InterruptedException {
        Thread.sleep((long) (1000 * Double.parseDouble(run.get("before", "0"))));
        run.setMetadata();
        for (int number = 0; number < Integer.parseInt(run.get("pieces", "1")); number++) {
            run.stream().write((version() + ":" + number + "\n").getBytes(StandardCharsets.UTF_8));
            run.stream().flush();
            Thread.sleep((long) (1000 * Double.parseDouble(run.get("pause", "0"))));
        }
    }

    /** The jar's version is a file in it, so that a test makes a new one without a compiler. */
    private static String version() throws IOException {
        try (InputStream text = Multitool.class.getResourceAsStream("/version.txt")) {
            return new String(text.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    private static void dependency(Run run) throws IOException {
        run.stream().write(Files.readAllBytes(Path.of(run.params().get("storlet_execution_path"), run.params().get("file"))));
    }

    private static void code(Run run) throws IOException, ReflectiveOperationException {
        Object helper = Class.forName(run.params().get("name") + ".Helper").getDeclaredConstructor().newInstance();
        run.stream().write(helper.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static void hoard(Run run) throws IOException {
        ArrayList<byte[]> held = new ArrayList<>();
        for (long left = Long.parseLong(run.params().get("bytes")); left > 0; left -= 1 << 20) {
            byte[] piece = new byte[1 << 20];
            Arrays.fill(piece, (byte) 'x');
            held.add(piece);
        }
        run.stream().write(("had room for " + held.size()).getBytes(StandardCharsets.UTF_8));
    }

    private static void burn(Run run) throws IOException {
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        long until = clock.getCurrentThreadCpuTime() + (long) (1e9 * Double.parseDouble(run.params().get("seconds")));
        while (clock.getCurrentThreadCpuTime() < until) {
            Thread.onSpinWait();
        }
        run.stream().write("burnt".getBytes(StandardCharsets.UTF_8));
    }

    private static void threads(Run run) throws IOException, InterruptedException {
        CountDownLatch done = new CountDownLatch(1);
        ArrayList<Thread> started = new ArrayList<>();
        try {
            for (int i = 0; i < Integer.parseInt(run.params().get("count")); i++) {
                Thread thread = new Thread(() -> {
                    try {
                        done.await();
                    } catch (InterruptedException error) {
                        Thread.currentThread().interrupt();
                    }
                });
                thread.start();
                started.add(thread);
            }
        } finally {
            done.countDown();
            for (Thread thread : started) {
                thread.join();
            }
        }
        run.stream().write("had room".getBytes(StandardCharsets.UTF_8));
    }

    private static void files(Run run) throws IOException {
        ArrayList<InputStream> held = new ArrayList<>();
        try {
            for (int i = 0; i < Integer.parseInt(run.params().get("count")); i++) {
                held.add(new FileInputStream("/dev/null"));
            }
        } finally {
            for (InputStream file : held) {
                file.close();
            }
        }
        run.stream().write("had room".getBytes(StandardCharsets.UTF_8));
    }

    private static void fill(Run run) throws IOException {
        Path path = Path.of("/tmp/fill-" + ProcessHandle.current().pid());
        try (OutputStream file = new FileOutputStream(path.toFile())) {
            for (long left = Long.parseLong(run.params().get("bytes")); left > 0; left -= 65536) {
                file.write(new byte[65536]);
            }
        } finally {
            Files.delete(path);
        }
        run.stream().write("had room".getBytes(StandardCharsets.UTF_8));
    }

    private static void flood(Run run) throws IOException {
        byte[] block = new byte[256 * 1024];
        for (int i = 0; i < block.length; i++) {
            block[i] = (byte) i;
        }
        for (long left = Long.parseLong(run.params().get("bytes")); left > 0; left -= block.length) {
            run.stream().write(block, 0, (int) Math.min(left, block.length));
        }
    }
}
