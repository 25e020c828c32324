package asking;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.json.simple.JSONArray;
import org.json.simple.parser.JSONParser;
import org.json.simple.parser.ParseException;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;
import org.openstack.storlet.services.CreateOptions;
import org.openstack.storlet.services.Entry;
import org.openstack.storlet.services.ListQuery;
import org.openstack.storlet.services.ServiceException;
import org.openstack.storlet.services.Services;
import org.openstack.storlet.services.Stat;
import org.openstack.storlet.services.StoredInputStream;
import org.openstack.storlet.services.StoredOutputStream;
import org.openstack.storlet.services.StorletCall;

/**
 * Uses the store as a parameter says; its output is the outcomes. {@code asker.py} is the same in
 * Python, and documents the parameter. The names of exceptions are those of Python.
 */
public class Asker implements IStorlet {
    private static final List<Thread> LEFT = new ArrayList<>();
    private static final List<List<Object>> FOUND = new ArrayList<>();
    private static CountDownLatch nextRun;

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inputs,
            ArrayList<StorletOutputStream> outputs,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        JSONArray outcomes = new JSONArray();
        try {
            for (Object each : (JSONArray) new JSONParser().parse(parameters.get("ask"))) {
                List<?> asked = (List<?>) each;
                outcomes.add(outcome(() -> perform((String) asked.get(0), asked.subList(1, asked.size()))));
            }
            ((StorletObjectOutputStream) outputs.get(0)).getStream().write(outcomes.toJSONString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException | ParseException cause) {
            throw new StorletException("the outcomes are not written: " + cause);
        }
    }

    private static List<Object> outcome(Callable<List<?>> action) {
        try {
            List<Object> found = new ArrayList<>(List.of("ok"));
            found.addAll(action.call());
            return found;
        } catch (UncheckedIOException wrapped) {
            return failure(wrapped.getCause());
        } catch (IOException | UnsupportedOperationException | IllegalStateException raised) {
            return failure(raised);
        } catch (Exception other) {
            throw new IllegalArgumentException(other);
        }
    }

    private static List<Object> failure(Throwable raised) {
        String name = raised.getClass().getSimpleName().replaceFirst("Exception$", "");
        if (name.equals("IO")) {
            name = "OSError";
        }
        String code = raised instanceof ServiceException refusal ? refusal.code() : "";
        return List.of(name.equals("Service") ? "ServiceError" : name, code, String.valueOf(raised.getMessage()));
    }

    private static List<?> perform(String name, List<?> args) throws Exception {
        String path = !args.isEmpty() && args.get(0) instanceof String text ? text : "";
        Services services = Services.current();
        switch (name) {
            case "open":
                return open(services, path, args.size() > 1 ? (List<?>) args.get(1) : null);
            case "seek":
                return seek(services, path, (List<?>) args.get(1));
            case "replaced":
                return replaced(services, path, (Long) args.get(1), (String) args.get(2));
            case "stat":
                return List.of(facts(services.stat(path)));
            case "find":
                return find(services, path, (Map<?, ?>) args.get(1));
            case "set":
                services.setMetadata(path, changes((Map<?, ?>) args.get(1)));
                return List.of();
            case "set_many":
                return setMany(services, path, (Long) args.get(1));
            case "copy":
                services.copy(path, (String) args.get(1));
                return List.of();
            case "delete":
                services.delete(path);
                return List.of();
            case "call":
                return called(services, call(path, (String) args.get(1), args.subList(2, args.size())));
            case "store":
                return store(services, call(path, (String) args.get(1), args.subList(3, args.size())), (String) args.get(2));
            case "call_on":
                return calledOn(services, call(path, null, args.subList(3, args.size())), (String) args.get(1), (Long) args.get(2));
            case "store_on":
                InputStream data = new ByteArrayInputStream(utf8((String) args.get(1)));
                StorletCall onData = call(path, null, args.subList(3, args.size()));
                return List.of(facts(services.callInto(onData, data, (String) args.get(2))));
            case "cut":
                services.callInto(call(path, null, List.of()), dying(), (String) args.get(1));
                return List.of();
            case "broken":
                return broken(services, call(path, null, List.of()));
            case "head_of":
                return headOf(services, call(path, (String) args.get(1), List.of()), (Long) args.get(2));
            case "call_many":
                return callMany(services, call(path, (String) args.get(1), List.of()), (Long) args.get(2));
            case "create":
                return create(services, path, args);
            case "create_many":
                return createMany(services, (List<?>) args.get(0), (String) args.get(1));
            case "leave":
                return leave(services, path, (String) args.get(1), (String) args.get(2));
            case "fail":
                throw new IllegalArgumentException("on purpose");
            case "refused":
                return refused(services, path, (Boolean) args.get(1));
            case "lie":
                return lie(services, path);
            case "die_creating":
                return dieCreating(services, path, (Long) args.get(1));
            case "hold":
                return hold(services, path, (Long) args.get(1));
            case "parts":
                return parts(services, path, (Long) args.get(1));
            case "garbage":
                return garbage(services);
            case "flood":
                return flood(services, path);
            case "die":
                return die(services, path);
            case "leave_threads":
                return leaveThreads(services, path);
            case "left_threads":
                return leftThreads();
            case "sockets":
                return List.of(sockets());
            default:
                throw new StorletException("there is no " + name);
        }
    }

    private static String latin(byte[] data) {
        return new String(data, StandardCharsets.ISO_8859_1);
    }

    private static String md5(byte[] data) throws Exception {
        StringBuilder text = new StringBuilder();
        for (byte each : MessageDigest.getInstance("MD5").digest(data)) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }

    private static Long known(long size) {
        return size < 0 ? null : size;
    }

    private static List<?> open(Services services, String path, List<?> span) throws Exception {
        try (StoredInputStream file =
                span == null ? services.open(path) : services.open(path, (Long) span.get(0), (Long) span.get(1))) {
            byte[] data = file.readAllBytes();
            String head = latin(Arrays.copyOf(data, Math.min(100, data.length)));
            return Arrays.asList(md5(data), known(file.size()), file.etag(), file.metadata(), head);
        }
    }

    private static List<?> seek(Services services, String path, List<?> spans) throws Exception {
        List<String> parts = new ArrayList<>();
        try (StoredInputStream file = services.open(path)) {
            for (Object each : spans) {
                long start = (Long) ((List<?>) each).get(0);
                file.seek(start < 0 ? file.size() + start : start);
                parts.add(latin(file.readNBytes(((Long) ((List<?>) each).get(1)).intValue())));
            }
        }
        return parts;
    }

    private static List<?> replaced(Services services, String path, long place, String marker) throws Exception {
        try (StoredInputStream file = services.open(path)) {
            String start = latin(file.readNBytes(5));
            services.setMetadata(marker, Map.of("Opened", "yes"));
            while (services.stat(path).size() == file.size()) {
                Thread.sleep(50);
            }
            file.seek(place);
            return List.of(start, latin(file.readNBytes(5)));
        }
    }

    private static Map<String, Object> facts(Stat stat) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("metadata", stat.metadata());
        facts.put("size", known(stat.size()));
        facts.put("etag", stat.etag());
        facts.put("content_type", stat.contentType());
        facts.put("last_modified", stat.lastModified());
        return facts;
    }

    private static List<?> find(Services services, String container, Map<?, ?> asked) {
        ListQuery query = ListQuery.ALL
                .withPrefix((String) asked.get("prefix"))
                .withDelimiter((String) asked.get("delimiter"))
                .withMarker((String) asked.get("marker"))
                .withEndMarker((String) asked.get("end_marker"));
        query = Boolean.TRUE.equals(asked.get("reverse")) ? query.reversed() : query;
        query = asked.get("limit") == null ? query : query.withLimit((Long) asked.get("limit"));
        List<String> names = new ArrayList<>();
        for (Entry entry : services.list(container, query)) {
            names.add(entry.name());
        }
        return List.of(names);
    }

    private static Map<String, String> changes(Map<?, ?> asked) {
        Map<String, String> changes = new HashMap<>();
        asked.forEach((name, value) -> changes.put((String) name, (String) value));
        return changes;
    }

    private static <T> List<T> inThreads(long count, Callable<T> action) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool((int) count);
        try {
            List<T> found = new ArrayList<>();
            for (Future<T> each : pool.invokeAll(Collections.nCopies((int) count, action))) {
                found.add(each.get());
            }
            return found;
        } finally {
            pool.shutdown();
            pool.awaitTermination(1, TimeUnit.MINUTES);
        }
    }

    private static List<?> setMany(Services services, String path, long count) throws Exception {
        var numbers = new AtomicInteger();
        inThreads(count, () -> {
            return outcome(() -> {
                services.setMetadata(path, Map.of("Item-" + numbers.getAndIncrement(), "x"));
                return List.of();
            });
        });
        return List.of();
    }

    /** A call whose parameters and ranges are {@code more}. */
    private static StorletCall call(String storlet, String path, List<?> more) {
        StorletCall call = StorletCall.of(storlet, path);
        Map<?, ?> parameters = more.isEmpty() ? Map.of() : (Map<?, ?>) more.get(0);
        for (Map.Entry<?, ?> each : parameters.entrySet()) {
            call = call.withParameter((String) each.getKey(), (String) each.getValue());
        }
        for (Object each : more.size() > 1 ? (List<?>) more.get(1) : List.of()) {
            Long first = (Long) ((List<?>) each).get(0);
            Long last = (Long) ((List<?>) each).get(1);
            call = last == null ? call.withRange(first) : call.withRange(first, last);
        }
        return call;
    }

    private static List<?> store(Services services, StorletCall call, String output) throws IOException {
        return List.of(facts(services.callInto(call, output)));
    }

    private static List<?> called(Services services, StorletCall call) throws Exception {
        try (StoredInputStream result = services.call(call)) {
            byte[] data = result.readAllBytes();
            String head = latin(Arrays.copyOf(data, Math.min(5000, data.length)));
            return Arrays.asList(md5(data), data.length, result.metadata(), result.contentType(), head);
        }
    }

    /** Calls a storlet on data, as bytes and as a stream; both outputs. */
    private static List<?> calledOn(Services services, StorletCall call, String data, long times) throws Exception {
        byte[] whole = utf8(data.repeat((int) times));
        List<Object> found = new ArrayList<>();
        byte[] output = {};
        for (boolean isStream : new boolean[] {false, true}) {
            try (StoredInputStream result =
                    isStream ? services.call(call, new ByteArrayInputStream(whole)) : services.call(call, whole)) {
                output = result.readAllBytes();
                found.addAll(Arrays.asList(md5(output), output.length, result.metadata()));
            }
        }
        found.add(latin(Arrays.copyOf(output, Math.min(5000, output.length))));
        return found;
    }

    /** Data after whose first piece the process is killed. */
    private static InputStream dying() {
        return new InputStream() {
            private boolean hasBegun;

            @Override
            public int read() throws IOException {
                if (hasBegun) {
                    new ProcessBuilder("sh", "-c", "kill -9 " + ProcessHandle.current().pid()).start();
                    LockSupport.parkNanos(60_000_000_000L);
                }
                hasBegun = true;
                return 'x';
            }

            @Override
            public int read(byte[] data, int offset, int length) throws IOException {
                data[offset] = (byte) read();
                return 1;
            }
        };
    }

    /** Calls a storlet on data that cannot be read to its end. */
    private static List<?> broken(Services services, StorletCall call) throws IOException {
        InputStream source = new InputStream() {
            @Override
            public int read() throws IOException {
                throw new IOException("the data is broken");
            }
        };
        try (StoredInputStream result = services.call(call, source)) {
            return List.of(result.readAllBytes().length);
        }
    }

    /** Reads the first bytes of a result, and closes it. */
    private static List<?> headOf(Services services, StorletCall call, long count) throws IOException {
        StorletCall flood = call.withParameter("do", "flood").withParameter("bytes", "50000000");
        try (StoredInputStream result = services.call(flood)) {
            return List.of(result.readNBytes((int) count).length);
        }
    }

    /** Calls a storlet in many threads; the outcomes. */
    private static List<?> callMany(Services services, StorletCall call, long count) throws Exception {
        return List.of(inThreads(count, () -> outcome(() -> called(services, call))));
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static List<?> create(Services services, String path, List<?> args) throws IOException {
        Map<?, ?> asked = args.size() > 2 && args.get(2) != null ? (Map<?, ?>) args.get(2) : Map.of();
        long times = args.size() > 3 ? (Long) args.get(3) : 1;
        Map<?, ?> metadata = asked.get("metadata") == null ? Map.of() : (Map<?, ?>) asked.get("metadata");
        CreateOptions options =
                new CreateOptions((String) asked.get("content_type"), changes(metadata), (Long) asked.get("delete_after"));
        byte[] piece = utf8((String) args.get(1));
        int block = (int) Math.min(times, Math.max(1, 65536 / Math.max(1, piece.length)));
        byte[] pieces = utf8(((String) args.get(1)).repeat(block));
        try (StoredOutputStream file = services.create(path, options)) {
            for (long left = times; left > 0; left -= block) {
                file.write(pieces, 0, (int) Math.min(left, block) * piece.length);
            }
            file.complete();
        }
        return List.of();
    }

    /** Creates objects at the same time, a byte of each in turn. */
    private static List<?> createMany(Services services, List<?> paths, String text) throws IOException {
        List<StoredOutputStream> files = new ArrayList<>();
        for (Object path : paths) {
            files.add(services.create((String) path));
        }
        for (byte each : utf8(text)) {
            for (StoredOutputStream file : files) {
                file.write(each);
                file.flush();
            }
        }
        for (StoredOutputStream file : files) {
            file.complete();
        }
        return List.of();
    }

    /** Creates an object, and ends without it, or with a part of it. */
    private static List<?> leave(Services services, String path, String text, String how) throws IOException {
        StoredOutputStream file = services.create(path);
        file.write(utf8(text));
        switch (how) {
            case "discarded":
                file.discard();
                break;
            case "closed and discarded":
                file.complete();
                file.discard();
                break;
            case "exception":
                file.discard();
                throw new IOException("in the block");
            default:
                file.close();
        }
        return List.of();
    }

    /** Writes until the store refuses more. */
    private static List<?> refused(Services services, String path, boolean isDiscarded) throws IOException {
        StoredOutputStream file = services.create(path);
        byte[] much = new byte[65536];
        try {
            while (true) {
                file.write(much);
            }
        } catch (ServiceException failed) {
            if (isDiscarded) {
                file.discard();
            }
            throw failed;
        }
    }

    private static List<?> hold(Services services, String path, long count) throws IOException {
        List<InputStream> files = new ArrayList<>();
        for (long number = 0; number < count; number++) {
            files.add(services.open(path));
        }
        return List.of(files.size());
    }

    private static List<?> parts(Services services, String path, long count) throws Exception {
        List<String> sums = inThreads(count, () -> {
            try (StoredInputStream file = services.open(path)) {
                return md5(file.readAllBytes());
            }
        });
        return List.of(new ArrayList<>(new TreeSet<>(sums)), sums.size());
    }

    // hostile uses of the socket

    private static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    private static List<?> garbage(Services services) throws Exception {
        int socket = (Integer) field(field(field(services, "channel"), "socket"), "number");
        Class<?> calls = Class.forName("org.openstack.storlet.daemon.Native");
        Method send = calls.getDeclaredMethod("send", int.class, byte[].class, int.class, int.class);
        send.setAccessible(true);
        send.invoke(null, socket, "garbage".getBytes(StandardCharsets.UTF_8), 7, -1);
        Thread.sleep(60_000);
        return List.of();
    }

    /** Sends requests, and reads no reply. */
    private static List<?> flood(Services services, String path) throws Exception {
        Object channel = field(services, "channel");
        Class<?> kind = Class.forName("org.openstack.storlet.daemon.ServiceRequest");
        Constructor<?> make = kind.getDeclaredConstructor(String.class, String.class);
        Method name = kind.getDeclaredMethod("name", String.class, String.class);
        Method send = channel.getClass().getDeclaredMethod("send", kind);
        make.setAccessible(true);
        name.setAccessible(true);
        send.setAccessible(true);
        while (true) {
            send.invoke(channel, name.invoke(make.newInstance("stat", "read"), "path", path));
        }
    }

    /** Reports another number of bytes than were written. */
    private static List<?> lie(Services services, String path) throws Exception {
        StoredOutputStream file = services.create(path);
        file.write(utf8("abc"));
        file.flush();
        Field sent = file.getClass().getDeclaredField("sent");
        sent.setAccessible(true);
        sent.set(file, 2L);
        file.complete();
        return List.of();
    }

    /** Is killed while an object is being created. */
    private static List<?> dieCreating(Services services, String path, long times) throws Exception {
        StoredOutputStream file = services.create(path);
        for (long number = 0; number < times; number++) {
            file.write(new byte[65536]);
        }
        new ProcessBuilder("sh", "-c", "kill -9 " + ProcessHandle.current().pid()).start();
        Thread.sleep(60_000);
        return List.of();
    }

    /** Is killed while a file is open. */
    private static List<?> die(Services services, String path) throws Exception {
        services.open(path).read();
        new ProcessBuilder("sh", "-c", "kill -9 " + ProcessHandle.current().pid()).start();
        Thread.sleep(60_000);
        return List.of();
    }

    // threads that outlive their run

    private static void start(Callable<List<?>> action) {
        Thread thread = new Thread(() -> {
            List<Object> found = outcome(action);
            synchronized (FOUND) {
                FOUND.add(found);
            }
        });
        thread.setDaemon(true);
        LEFT.add(thread);
        thread.start();
    }

    /**
     * Leaves threads: two wait for bytes and for a reply that never come, the others use their
     * objects when the next run has begun.
     */
    private static List<?> leaveThreads(Services services, String path) throws Exception {
        CountDownLatch next = nextRun = new CountDownLatch(1);
        StoredInputStream waiting = services.open(path);
        StoredInputStream kept = services.open(path);
        Iterator<Entry> listing = services.list("c").iterator();
        start(() -> List.of(waiting.read()));
        start(() -> List.of(services.stat("/c/never")));
        start(() -> {
            next.await();
            return List.of(kept.read());
        });
        start(() -> {
            next.await();
            return List.of(services.stat(path));
        });
        start(() -> {
            next.await();
            return List.of(services.open(path));
        });
        start(() -> {
            next.await();
            return List.of(listing.hasNext());
        });
        start(() -> {
            next.await();
            return List.of(Services.current().stat(path));
        });
        services.stat("/c/main");
        return List.of();
    }

    /** The outcomes of the threads of the run before. */
    private static List<?> leftThreads() throws Exception {
        nextRun.countDown();
        for (Thread each : LEFT) {
            each.join(60_000);
        }
        synchronized (FOUND) {
            return new ArrayList<>(FOUND);
        }
    }

    private static int sockets() throws IOException {
        int count = 0;
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            for (Path each : all) {
                try {
                    count += Files.readSymbolicLink(each).toString().startsWith("socket:") ? 1 : 0;
                } catch (IOException closed) {
                    // The descriptor of the listing itself.
                }
            }
        }
        return count;
    }
}
