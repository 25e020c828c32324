package honest;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.net.StandardProtocolFamily;
import java.net.URL;
import java.net.URLClassLoader;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.AsynchronousFileChannel;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.Pipe;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.StandardWatchEventKinds;
import java.nio.file.WatchService;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;
import javax.crypto.Cipher;
import javax.crypto.KeyGenerator;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;

/** Java version of honest.py: tries legitimate operations and writes a line for each failure. */
public class Honest implements IStorlet {
    private interface Step {
        void run() throws Exception;
    }

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        StringBuilder failed = new StringBuilder();
        Map<String, Step> steps = Map.of(
                "threads", Honest::threads,
                "processes", Honest::processes,
                "files", Honest::files,
                "channels", Honest::channels,
                "selectors", Honest::selectors,
                "local sockets", Honest::localSockets,
                "watches", Honest::watches,
                "memory", Honest::memory,
                "cryptography", Honest::cryptography,
                "surroundings", Honest::surroundings);
        steps.forEach((name, step) -> {
            try {
                step.run();
            } catch (Exception | LinkageError error) {
                failed.append(name).append(": ").append(error).append('\n');
            }
        });
        try (OutputStream out = ((StorletObjectOutputStream) outStreams.get(0)).getStream()) {
            out.write(failed.toString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new StorletException(error.toString());
        }
    }

    private static void check(boolean fact) {
        if (!fact) {
            throw new IllegalStateException("another result than expected");
        }
    }

    private static void threads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(16);
        List<Future<Integer>> results = new ArrayList<>();
        for (int number = 0; number < 64; number++) {
            int given = number;
            results.add(pool.submit(() -> given * given));
        }
        int sum = 0;
        for (Future<Integer> result : results) {
            sum += result.get();
        }
        pool.shutdown();
        check(sum == 85344);
        check(LongStream.range(0, 1_000_000).parallel().sum() == 499_999_500_000L);
    }

    private static void processes() throws Exception {
        Process echo = new ProcessBuilder("/bin/echo", "hi").start();
        check(new String(echo.getInputStream().readAllBytes(), StandardCharsets.UTF_8).equals("hi\n"));
        check(echo.waitFor() == 0);
        check(ProcessHandle.current().isAlive());
    }

    private static void files() throws Exception {
        Path folder = Files.createTempDirectory("honest");
        Path file = Files.write(folder.resolve("a"), new byte[100_000]);
        Path copy = Files.copy(file, folder.resolve("b"), StandardCopyOption.COPY_ATTRIBUTES);
        Files.setPosixFilePermissions(copy, PosixFilePermissions.fromString("r--------"));
        Files.setLastModifiedTime(copy, FileTime.fromMillis(1));
        Files.createSymbolicLink(folder.resolve("link"), copy);
        Files.createLink(folder.resolve("hard"), copy);
        Files.readAttributes(copy, "unix:*");
        Files.move(copy, folder.resolve("c"), StandardCopyOption.ATOMIC_MOVE);
        Files.getFileStore(folder).getUsableSpace();
        remove(folder);
    }

    private static void channels() throws Exception {
        Path folder = Files.createTempDirectory("honest");
        try (FileChannel channel = FileChannel.open(
                folder.resolve("mapped"), StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_WRITE, 0, 1 << 20);
            mapped.putInt(0, 42);
            mapped.force();
            check(mapped.load().getInt(0) == 42);
            channel.transferTo(0, 10, Channels.newChannel(new ByteArrayOutputStream()));
            try (FileChannel other = FileChannel.open(
                    folder.resolve("copy"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
                check(channel.transferTo(0, 10, other) == 10);
            }
            channel.truncate(10).force(true);
        }
        try (AsynchronousFileChannel channel = AsynchronousFileChannel.open(
                folder.resolve("asynchronous"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            check(channel.write(ByteBuffer.allocate(10), 0).get() == 10);
        }
        remove(folder);
    }

    private static void selectors() throws Exception {
        Pipe pipe = Pipe.open();
        try (Selector selector = Selector.open(); Pipe.SourceChannel source = pipe.source(); Pipe.SinkChannel sink = pipe.sink()) {
            source.configureBlocking(false);
            source.register(selector, SelectionKey.OP_READ);
            sink.write(ByteBuffer.allocate(5));
            check(selector.select(10_000) == 1);
        }
    }

    private static void localSockets() throws Exception {
        Path folder = Files.createTempDirectory("honest");
        UnixDomainSocketAddress address = UnixDomainSocketAddress.of(folder.resolve("socket"));
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(address);
                SocketChannel client = SocketChannel.open(address);
                SocketChannel served = server.accept()) {
            client.write(ByteBuffer.allocate(7));
            check(served.read(ByteBuffer.allocate(10)) == 7);
        }
        remove(folder);
    }

    private static void watches() throws Exception {
        Path folder = Files.createTempDirectory("honest");
        try (WatchService watch = FileSystems.getDefault().newWatchService()) {
            folder.register(watch, StandardWatchEventKinds.ENTRY_CREATE);
            Files.createFile(folder.resolve("new"));
            check(watch.poll(10, TimeUnit.SECONDS) != null);
        }
        remove(folder);
    }

    private static void memory() {
        check(ByteBuffer.allocateDirect(1 << 20).capacity() == 1 << 20);
        long seen = 0;
        for (int round = 0; round < 100; round++) {
            seen += new byte[1 << 20].length;
        }
        System.gc();
        check(seen == 100L << 20);
        double sum = 0;
        for (int number = 1; number < 10_000_000; number++) {
            sum += Math.sqrt(number);
        }
        check(sum > 0);
    }

    private static void cryptography() throws Exception {
        KeyGenerator keys = KeyGenerator.getInstance("AES");
        keys.init(256, new SecureRandom());
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.ENCRYPT_MODE, keys.generateKey());
        check(cipher.doFinal(new byte[1000]).length == 1016);
        ByteArrayOutputStream zipped = new ByteArrayOutputStream();
        try (GZIPOutputStream zip = new GZIPOutputStream(zipped)) {
            zip.write(new byte[100_000]);
        }
        check(zipped.size() < 1000);
    }

    private static void surroundings() throws Exception {
        check(Runtime.getRuntime().availableProcessors() > 0);
        check(ManagementFactory.getThreadMXBean().getThreadCount() > 0);
        check(ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage() >= -1);
        try (URLClassLoader loader = new URLClassLoader(new URL[] {new URL("file:///tmp/")})) {
            check(loader.getURLs().length == 1);
        }
    }

    private static void remove(Path folder) throws IOException {
        try (Stream<Path> paths = Files.walk(folder)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }
}
