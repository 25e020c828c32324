package hostile;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserDefinedFileAttributeView;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import javax.xml.parsers.DocumentBuilderFactory;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;

/** Java version of hostile.py and gremlin.py, which document each value of {@code do}. */
public class Hostile implements IStorlet {
    private static final int CHUNK = 256 * 1024;

    /** The inputs, outputs and parameters of one run. */
    private record Run(
            ArrayList<StorletInputStream> ins,
            StorletObjectOutputStream out,
            Map<String, String> params,
            StorletLogger logger) {
        String get(String key, String otherwise) {
            return params.getOrDefault(key, otherwise);
        }

        OutputStream stream() throws StorletException {
            return out.getStream();
        }

        void say(String text) throws StorletException, IOException {
            out.setMetadata(new HashMap<>());
            stream().write(text.getBytes(StandardCharsets.UTF_8));
        }
    }

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        Run run = new Run(inStreams, (StorletObjectOutputStream) outStreams.get(0), parameters, logger);
        try {
            perform(run);
            run.stream().close();
        } catch (StorletException error) {
            throw error;
        } catch (Exception error) {
            throw new StorletException(error.toString());
        }
    }

    private void perform(Run run) throws Exception {
        switch (run.get("do", "identity")) {
            case "identity" -> identity(run);
            case "fork_bomb" -> forkBomb();
            case "thread_bomb" -> threadBomb();
            case "memory" -> memory();
            case "native_memory" -> nativeMemory();
            case "mapped_memory" -> mappedMemory();
            case "descriptors" -> descriptors();
            case "fill_mounts" -> fillMounts(run);
            case "busy" -> busy();
            case "busy_threads" -> busyThreads(run);
            case "uninterruptible_sleep" -> Thread.sleep(3_600_000);
            case "trickle" -> trickle(run);
            case "flood" -> flood(run);
            case "ignore" -> run.say("ignored");
            case "metadata" -> metadata(run);
            case "escapes" -> escapes(run);
            case "log_flood" -> logFlood(run);
            case "unzip" -> run.say(Integer.toString(new GZIPInputStream(run.ins().get(0).getStream()).readAllBytes().length));
            case "unzip_stream" -> unzipStream(run);
            case "parse_xml" -> parseXml(run);
            case "halt" -> halt(run);
            case "signals" -> signals(run);
            case "siblings" -> siblings(run);
            case "sockets" -> sockets(run);
            case "places" -> places(run);
            case "network" -> network(run);
            case "donated" -> donated(run);
            case "facts" -> facts(run);
            default -> throw new StorletException("do what?");
        }
    }

    private static void identity(Run run) throws Exception {
        run.out().setMetadata(new HashMap<>());
        run.ins().get(0).getStream().transferTo(run.stream());
    }

    // --- too much ------------------------

    private static void forkBomb() throws IOException {
        List<Process> held = new ArrayList<>();
        while (true) {
            held.add(new ProcessBuilder("/bin/sh", "-c", "while :; do sleep 3600 & done").start());
        }
    }

    private static void threadBomb() {
        while (true) {
            Thread thread = new Thread(() -> {
                try {
                    Thread.sleep(3_600_000);
                } catch (InterruptedException ignored) {
                    Thread.currentThread().interrupt();
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
    }

    private static void memory() {
        List<byte[]> held = new ArrayList<>();
        while (true) {
            byte[] block = new byte[1 << 20];
            Arrays.fill(block, (byte) 1);
            held.add(block);
        }
    }

    /** Memory outside of the heap's limit. */
    private static void nativeMemory() throws ReflectiveOperationException {
        var field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        field.setAccessible(true);
        sun.misc.Unsafe unsafe = (sun.misc.Unsafe) field.get(null);
        while (true) {
            unsafe.setMemory(unsafe.allocateMemory(1 << 20), 1 << 20, (byte) 1);
        }
    }

    private static void mappedMemory() {
        List<ByteBuffer> held = new ArrayList<>();
        while (true) {
            ByteBuffer block = ByteBuffer.allocateDirect(1 << 20);
            while (block.hasRemaining()) {
                block.putLong(1);
            }
            held.add(block);
        }
    }

    private static void descriptors() throws IOException {
        List<InputStream> held = new ArrayList<>();
        while (true) {
            held.add(new FileInputStream("/dev/null"));
        }
    }

    private static void fillMounts(Run run) throws Exception {
        Map<String, String> found = new LinkedHashMap<>();
        TreeSet<String> points = new TreeSet<>(List.of("/", "/tmp", "/var/tmp", "/run", "/dev/shm", "/home"));
        for (String line : Files.readAllLines(Path.of("/proc/self/mountinfo"))) {
            points.add(line.split(" ")[4]);
        }
        for (String point : points) {
            File file = new File(point, "filler-java");
            long size = 0;
            try (FileOutputStream stream = new FileOutputStream(file)) {
                byte[] block = new byte[CHUNK];
                while (true) {
                    stream.write(block);
                    size += block.length;
                }
            } catch (IOException error) {
                found.put(point, (size > 0 || file.exists() ? size + " " : "no: ") + error.getMessage());
            }
            file.delete();
        }
        run.say(json(found));
    }

    private static void busy() {
        long count = 0;
        while (true) {
            count++;
            if (count == Long.MIN_VALUE) {
                return;
            }
        }
    }

    private static void busyThreads(Run run) throws Exception {
        run.say("x".repeat(100));
        run.stream().flush();
        for (int i = 0; i < 4; i++) {
            Thread thread = new Thread(Hostile::busy);
            thread.setDaemon(true);
            thread.start();
        }
        busy();
    }

    private static void trickle(Run run) throws Exception {
        run.say("x");
        while (true) {
            run.stream().flush();
            Thread.sleep((long) (1000 * Double.parseDouble(run.get("every", "0.5"))));
            run.stream().write('x');
        }
    }

    private static void flood(Run run) throws Exception {
        run.out().setMetadata(new HashMap<>());
        byte[] block = new byte[CHUNK];
        long left = Long.parseLong(run.get("bytes", Long.toString(1L << 62)));
        while (left > 0) {
            run.stream().write(block, 0, (int) Math.min(left, block.length));
            left -= block.length;
        }
    }

    private static void metadata(Run run) throws Exception {
        Map<String, String> metadata = new HashMap<>();
        for (int number = 0; run.params().containsKey("key" + number); number++) {
            metadata.put(run.get("key" + number, ""), run.get("value" + number, "").repeat(Integer.parseInt(run.get("times", "1"))));
        }
        run.out().setMetadata(metadata);
        run.stream().write("metadata was set".getBytes(StandardCharsets.UTF_8));
    }

    private static void escapes(Run run) throws Exception {
        for (int number = 0; number < Integer.parseInt(run.get("lines", "1")); number++) {
            run.logger().emitLog("\u001b]0;owned\u0007\u001b[2J\u001b[31m" + number + "\u009b5n\r\n forged ERROR line");
        }
        System.out.println("\u001b[2Jprinted");
        System.err.println("\u001b[2Jprinted");
        if (run.params().containsKey("fail")) {
            throw new StorletException("\u001b[2J\u001b]0;owned\u0007\r\nX-Forged: yes\r\n\u009b31m");
        }
        run.say("logged");
    }

    private static void logFlood(Run run) throws Exception {
        String line = "x".repeat(1000);
        for (int number = 0; number < Integer.parseInt(run.get("lines", "1")); number++) {
            run.logger().emitLog(number + " " + line);
        }
        run.say("logged");
    }

    private static void unzipStream(Run run) throws Exception {
        run.out().setMetadata(new HashMap<>());
        new GZIPInputStream(run.ins().get(0).getStream()).transferTo(run.stream());
    }

    private static void parseXml(Run run) throws Exception {
        byte[] text = run.ins().get(0).getStream().readAllBytes();
        var document = DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(new ByteArrayInputStream(text));
        run.say(Integer.toString(document.getDocumentElement().getTextContent().length()));
    }

    private static void halt(Run run) throws Exception {
        run.say("x".repeat(Integer.parseInt(run.get("bytes", "2000000"))));
        run.stream().flush();
        if (run.params().containsKey("exit")) {
            System.exit(0);
        }
        Runtime.getRuntime().halt(0);
    }

    // --- attempts ------------------------

    private static void report(Run run, Map<String, Callable<Object>> attempts) throws Exception {
        Map<String, String> found = new LinkedHashMap<>();
        attempts.forEach((name, attempt) -> {
            try {
                found.put(name, "got " + attempt.call());
            } catch (Throwable error) {
                found.put(name, "no: " + error);
            }
        });
        run.say(json(found));
    }

    private static String json(Map<String, String> values) {
        StringBuilder text = new StringBuilder("{");
        values.forEach((key, value) -> text.append(text.length() > 1 ? "," : "")
                .append(quoted(key))
                .append(':')
                .append(quoted(value)));
        return text.append('}').toString();
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        String.valueOf(text).chars().limit(300).forEach(c -> quoted.append(c < 32 || c == '"' || c == '\\' || c > 126 ? String.format("\\u%04x", c) : String.valueOf((char) c)));
        return quoted.append('"').toString();
    }

    private static void signals(Run run) throws Exception {
        Process killing = new ProcessBuilder("/bin/sh", "-c", "kill -TERM 1; kill -KILL 1; kill -KILL -1").start();
        run.say("kill ended with " + killing.waitFor());
    }

    private static void siblings(Run run) throws Exception {
        Map<String, Callable<Object>> attempts = new LinkedHashMap<>();
        Path root = Path.of("/var/lib/storlets");
        attempts.put("new directory", () -> Files.createDirectory(root.resolve("new")));
        List<Path> paths = new ArrayList<>(List.of(Path.of(run.params().get("storlet_execution_path"))));
        if (Files.isReadable(root)) {
            try (Stream<Path> found = Files.walk(root, 2)) {
                found.filter(path -> !path.equals(root)).forEach(paths::add);
            }
        }
        for (Path path : paths) {
            attempts.put("write " + path, () -> new RandomAccessFile(path.toFile(), "rw"));
            attempts.put("chmod " + path, () -> Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rwxrwxrwx")));
            attempts.put("delete " + path, () -> { Files.delete(path); return path; });
            attempts.put("add to " + path, () -> Files.createFile(path.resolve("new")));
        }
        report(run, attempts);
    }

    private static void sockets(Run run) throws Exception {
        TreeSet<String> names = new TreeSet<>(List.of("/var/run/docker.sock", "/run/docker.sock",
                "/run/containerd/containerd.sock", "/dev/log", "/run/storlets/control.sock"));
        for (String line : Files.readAllLines(Path.of("/proc/net/unix"))) {
            String[] words = line.trim().split("\\s+");
            if (words.length > 7 && words[7].startsWith("/")) {
                names.add(words[7]);
            }
        }
        Map<String, Callable<Object>> attempts = new LinkedHashMap<>();
        for (String name : names) {
            attempts.put(name, () -> {
                try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
                    return channel.connect(UnixDomainSocketAddress.of(name));
                }
            });
        }
        report(run, attempts);
    }

    private static void places(Run run) throws Exception {
        Map<String, Callable<Object>> attempts = new LinkedHashMap<>();
        for (String name : List.of("/etc/shadow", "/proc/kcore", "/proc/kmsg", "/proc/1/environ", "/proc/1/mem", "/dev/mem", "/dev/kmsg")) {
            attempts.put("read " + name, () -> {
                try (InputStream file = new FileInputStream(name)) {
                    byte[] content = file.readNBytes(64);
                    if (content.length == 0) {
                        throw new IOException("empty");
                    }
                    return content.length;
                }
            });
        }
        for (String name : List.of("/proc/1/root", "/proc/1/fd", "/proc/1/cwd", "/sys/kernel/debug")) {
            attempts.put("list " + name, () -> {
                try (Stream<Path> found = Files.list(Path.of(name))) {
                    long count = found.count();
                    if (count == 0) {
                        throw new IOException("empty");
                    }
                    return count;
                }
            });
        }
        for (String name : List.of("/x", "/etc/passwd", "/usr/bin/java", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
                "/sys/kernel/uevent_helper", "/dev/x", "/run/x", "/var/lib/storlets/x", "/sys/fs/cgroup/cgroup.procs")) {
            attempts.put("write " + name, () -> new FileOutputStream(name, true));
        }
        for (File fd : new File("/proc/self/fd").listFiles()) {
            Path link = link(fd.toPath());
            if (link != null && link.toString().startsWith("/") && !link.toString().startsWith("/dev/") && !link.toString().startsWith("/memfd")) {
                attempts.put("reopen " + link, () -> new RandomAccessFile(fd, "rw"));
            }
        }
        report(run, attempts);
    }

    private static Path link(Path path) {
        try {
            return Files.readSymbolicLink(path);
        } catch (IOException error) {
            return null;
        }
    }

    private static void network(Run run) throws Exception {
        Map<String, Callable<Object>> attempts = new LinkedHashMap<>();
        int port = Integer.parseInt(run.params().get("port"));
        for (String host : List.of("127.0.0.1", "::1", "169.254.169.254", "172.17.0.1", "example.org")) {
            attempts.put("connect " + host, () -> {
                try (Socket socket = new Socket()) {
                    socket.connect(new InetSocketAddress(host, host.startsWith("169") ? 80 : port), 2000);
                    return socket.getRemoteSocketAddress();
                }
            });
        }
        attempts.put("names", () -> InetAddress.getByName("example.org"));
        attempts.put("names by hand", () -> {
            try (DatagramSocket socket = new DatagramSocket()) {
                socket.send(new DatagramPacket(new byte[1], 1, InetAddress.getByName("8.8.8.8"), 53));
                return "sent";
            }
        });
        report(run, attempts);
    }

    /** Finds the object's file among the descriptors, as the author's API does not return its
     * number. */
    private static void donated(Run run) throws Exception {
        Path found = null;
        for (File fd : new File("/proc/self/fd").listFiles()) {
            Path link = link(fd.toPath());
            if (link != null && link.toString().endsWith(".data")) {
                found = fd.toPath();
            }
        }
        if (found == null) {
            throw new StorletException("there is no file of an object");
        }
        Path name = found;
        Path target = link(name);
        Map<String, Callable<Object>> attempts = new LinkedHashMap<>();
        attempts.put("reopen rw", () -> new RandomAccessFile(name.toFile(), "rw"));
        attempts.put("reopen w", () -> new FileOutputStream(name.toFile(), true));
        attempts.put("truncate", () -> FileChannel.open(name, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING));
        attempts.put("map", () -> FileChannel.open(name, StandardOpenOption.READ, StandardOpenOption.WRITE).map(FileChannel.MapMode.READ_WRITE, 0, 10));
        attempts.put("path", () -> new FileInputStream(target.toFile()));
        attempts.put("attribute", () -> Files.getFileAttributeView(name, UserDefinedFileAttributeView.class).size("swift.metadata"));
        attempts.put("attributes", () -> {
            List<String> names = Files.getFileAttributeView(name, UserDefinedFileAttributeView.class).list();
            if (names.isEmpty()) {
                throw new IOException("none");
            }
            return names;
        });
        attempts.put("mode", () -> Files.setPosixFilePermissions(name, PosixFilePermissions.fromString("rwxrwxrwx")));
        attempts.put("delete", () -> { Files.delete(target); return target; });
        attempts.put("link", () -> Files.createLink(Path.of("/tmp/linked"), target));
        report(run, attempts);
    }

    private static void facts(Run run) throws Exception {
        Map<String, String> found = new LinkedHashMap<>();
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            String[] pair = line.split(":\\s*", 2);
            if (pair.length == 2 && (pair[0].startsWith("Cap") || List.of("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp").contains(pair[0]))) {
                found.put(pair[0], pair[1].trim());
            }
        }
        for (File fd : new File("/proc/self/fd").listFiles()) {
            Path link = link(fd.toPath());
            if (link != null) {
                found.put("fd " + fd.getName(), link.toString());
            }
        }
        run.say(json(found));
    }
}
