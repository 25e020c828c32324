import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.SeekableInputStream;
import org.openstack.storlet.common.SeekableStorletInputStream;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;
import org.openstack.storlet.secrets.SecretException;
import org.openstack.storlet.secrets.Secrets;

/** A storlet whose parameter "do" names the action; code/python/probe.py is the same in Python. */
public class Probe implements IStorlet {
    private static int runs;
    private static final List<byte[]> kept = new ArrayList<>();
    private static InputStream keptStream;
    private static OutputStream keptOutput;
    private static StorletLogger keptLogger;

    private ArrayList<StorletInputStream> in;
    private StorletObjectOutputStream out;
    private ArrayList<StorletOutputStream> outputs;
    private Map<String, String> params;
    private StorletLogger logger;

    @Override
    public void invoke(ArrayList<StorletInputStream> in, ArrayList<StorletOutputStream> out, Map<String, String> params,
            StorletLogger logger) throws StorletException {
        runs++;
        this.in = in;
        this.out = (StorletObjectOutputStream) out.get(0);
        this.outputs = out;
        this.params = params;
        this.logger = logger;
        try {
            getClass().getMethod("do_" + params.getOrDefault("do", "echo")).invoke(this);
        } catch (InvocationTargetException e) {
            Probe.<RuntimeException>raise(e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new StorletException("no such thing to do: " + e.getMessage());
        }
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> void raise(Throwable cause) throws T {
        throw (T) cause;
    }

    private void write(String text) throws IOException {
        out.getStream().write(text.getBytes(StandardCharsets.UTF_8));
    }

    public void do_echo() throws Exception {
        Map<String, String> metadata = new HashMap<>(in.get(0).getMetadata());
        params.forEach((k, v) -> {
            if (!k.equals("do") && !k.equals("storlet_execution_path")) {
                metadata.put(k, v);
            }
        });
        out.setMetadata(metadata);
        for (StorletInputStream source : in) {
            InputStream stream = source.getStream();
            byte[] data = new byte[65536];
            for (int count; (count = stream.read(data)) >= 0;) {
                out.getStream().write(data, 0, count);
            }
        }
    }

    public void do_seek() throws Exception {
        for (StorletInputStream each : in) {
            SeekableInputStream source = ((SeekableStorletInputStream) each).getStream();
            write("size " + source.size());
            for (String place : params.get("places").split(";")) {
                String[] parts = place.split(",");
                try {
                    source.seek(Long.parseLong(parts[0]));
                } catch (IOException refused) {
                    write("|refused");
                    continue;
                }
                byte[] data = source.readNBytes(Integer.parseInt(parts[1]));
                write("|" + source.position() + " ");
                out.getStream().write(data);
            }
        }
    }

    public void do_nothing() {}

    private StorletObjectOutputStream output(int number) {
        return (StorletObjectOutputStream) outputs.get(number);
    }

    public void do_outputs() throws Exception {
        byte[] all = new byte[65536];
        byte[] data = Arrays.copyOf(all, in.get(0).getStream().readNBytes(all, 0, all.length));
        for (boolean isFirst : new boolean[] {true, false}) {
            for (int number = outputs.size() - 1; number >= 0; number--) {
                if (isFirst) {
                    output(number).setMetadata(Map.of("number", Integer.toString(number)));
                }
                output(number).getStream().write((number + ":").getBytes(StandardCharsets.UTF_8));
                output(number).getStream().write(data);
            }
        }
    }

    public void do_fill_last() throws Exception {
        output(outputs.size() - 1).getStream().write("x".repeat(Integer.parseInt(params.get("size"))).getBytes());
        write(params.get("size"));
    }

    public void do_raise_after_further() throws Exception {
        output(1).getStream().write("half".getBytes(StandardCharsets.UTF_8));
        throw new IllegalStateException("on purpose");
    }

    public void do_further_metadata() throws Exception {
        output(1).setMetadata(Map.of("a", "x".repeat(Integer.parseInt(params.get("size")))));
    }

    public void do_write() throws Exception {
        write(params.get("text"));
    }

    public void do_pid() throws Exception {
        write(Long.toString(ProcessHandle.current().pid()));
    }

    public void do_count() throws Exception {
        write(Integer.toString(runs));
    }

    public void do_path() throws Exception {
        write(params.get("storlet_execution_path"));
    }

    public void do_lines() throws Exception {
        int number = 0;
        int last = '\n';
        StringBuilder numbered = new StringBuilder();
        InputStream stream = in.get(0).getStream();
        for (int c; (c = stream.read()) >= 0; last = c) {
            numbered.append(last == '\n' ? ++number + ":" : "").append((char) c);
        }
        write(numbered.toString());
    }

    /** Keeps what was passed to this run. */
    public void do_keep() throws Exception {
        keptStream = in.get(0).getStream();
        keptOutput = out.getStream();
        keptLogger = logger;
        write("kept");
    }

    /** Uses what an earlier run kept; writes which uses raised. */
    public void do_use_kept() throws Exception {
        write(outcome(() -> keptStream.read()) + " ");
        write(outcome(() -> {
            keptOutput.write('x');
            keptOutput.flush();
        }) + " ");
        write(outcome(() -> keptLogger.emitLog("x")) + " ");
        write(new String(in.get(0).getStream().readAllBytes(), StandardCharsets.UTF_8));
    }

    private interface Use {
        void run() throws Exception;
    }

    private static String outcome(Use use) {
        try {
            use.run();
            return "worked";
        } catch (Exception raised) {
            return "raised";
        }
    }

    public void do_metadata_twice() throws Exception {
        out.setMetadata(new HashMap<>(Map.of("a", "1")));
        out.setMetadata(new HashMap<>(Map.of("a", "2")));
    }

    public void do_metadata_late() throws Exception {
        write("early");
        out.setMetadata(new HashMap<>(Map.of("a", "1")));
    }

    public void do_metadata_large() throws Exception {
        out.setMetadata(new HashMap<>(Map.of("a", "x".repeat(Integer.parseInt(params.get("size"))))));
    }

    public void do_secrets() throws IOException {
        for (String name : params.get("names").split(",")) {
            try {
                byte[] value = Secrets.current().get(name);
                write(name + "=");
                out.getStream().write(value);
                write(";");
            } catch (SecretException e) {
                write(name + " is missing;");
            }
        }
    }

    public void do_leak() {
        String value = new String(Secrets.current().get("key"), StandardCharsets.UTF_8);
        String before = "x".repeat(Integer.parseInt(params.get("before")));
        throw new IllegalStateException(before + (value + "-").repeat(Integer.parseInt(params.get("times"))));
    }

    public void do_raise() {
        throw new IllegalStateException(params.getOrDefault("text", "on purpose"));
    }

    public void do_raise_late() throws Exception {
        out.setMetadata(new HashMap<>());
        write("half");
        out.getStream().flush();
        throw new StorletException("on purpose");
    }

    public void do_memory() {
        List<long[]> kept = new ArrayList<>();
        while (true) {
            kept.add(new long[Integer.MAX_VALUE / 4]);
        }
    }

    public void do_recurse() {
        do_recurse();
    }

    public void do_exit() throws Exception {
        out.setMetadata(new HashMap<>());
        write("half");
        out.getStream().flush();
        Runtime.getRuntime().halt(Integer.parseInt(params.getOrDefault("code", "0")));
    }

    public void do_sys_exit() throws Exception {
        write("half");
        System.exit(Integer.parseInt(params.getOrDefault("code", "0")));
    }

    public void do_kill() throws Exception {
        write("half");
        out.getStream().flush();
        String pid = Long.toString(ProcessHandle.current().pid());
        new ProcessBuilder("kill", "-" + params.getOrDefault("signal", "9"), pid).start();
        Thread.sleep(60000);
    }

    public void do_spin() throws Exception {
        write("x");
        out.getStream().flush();
        for (long turns = 0;; turns++) {
            if (turns == Long.MAX_VALUE) {
                return;
            }
        }
    }

    public void do_sleep() throws Exception {
        Thread.sleep((long) (Double.parseDouble(params.get("seconds")) * 1000));
        write("slept");
    }

    public void do_flood() throws Exception {
        byte[] data = new byte[262144];
        while (true) {
            out.getStream().write(data);
        }
    }

    public void do_log() {
        for (String line : new String[] {"one", "two", "three", "four"}) {
            logger.emitLog(line);
        }
    }

    public void do_log_flood() {
        for (int number = 0; number < Integer.parseInt(params.get("lines")); number++) {
            logger.emitLog("line " + number);
        }
    }

    public void do_print() {
        System.out.println("to the standard output");
        System.err.println("to the standard error");
    }

    public void do_leave_process() throws Exception {
        write(Long.toString(new ProcessBuilder("setsid", "sleep", "300").start().pid()));
    }

    public void do_leave_orphan() throws Exception {
        Process shell = new ProcessBuilder("sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!").start();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(shell.getInputStream(), StandardCharsets.UTF_8))) {
            write(lines.readLine());
        }
        shell.waitFor();
    }

    public void do_leave_thread() {
        new Thread(() -> {
            while (true) {
                try {
                    Thread.sleep(300000);
                } catch (InterruptedException e) {
                    // stays
                }
            }
        }).start();
    }

    public void do_hold_memory() throws Exception {
        kept.add(new byte[Integer.parseInt(params.get("mib")) << 20]);
        write("held");
    }

    public void do_threads() {
        for (int number = 0; number < Integer.parseInt(params.get("count")); number++) {
            do_leave_thread();
        }
    }

    public void do_processes() throws Exception {
        List<Process> children = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(params.get("count")); number++) {
            children.add(new ProcessBuilder("sleep", "60").start());
        }
        children.forEach(Process::destroyForcibly);
    }

    public void do_open() throws Exception {
        List<InputStream> held = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(params.get("count")); number++) {
            held.add(new java.io.FileInputStream("/dev/null"));
        }
        write(Integer.toString(held.size()));
    }

    public void do_scratch() throws Exception {
        for (int number = 0; number < Integer.parseInt(params.get("files")); number++) {
            try (OutputStream file = new java.io.FileOutputStream(params.get("folder") + "/" + number)) {
                for (int mib = 0; mib < Integer.parseInt(params.getOrDefault("mib", "1")); mib++) {
                    file.write(new byte[1 << 20]);
                }
            }
        }
        Thread.sleep((long) (Double.parseDouble(params.get("seconds")) * 1000));
        write("filled");
    }

    public void do_signal() throws Exception {
        Process kill = new ProcessBuilder("kill", "-" + params.get("signal"), params.get("pid")).start();
        write(kill.waitFor() == 0 ? "sent" : "refused");
    }

    public void do_spy() throws Exception {
        for (String name : new String[] {"mem", "fd", "environ"}) {
            Path path = Path.of("/proc/" + params.get("pid") + "/" + name);
            try (AutoCloseable found = name.equals("fd") ? Files.newDirectoryStream(path) : Files.newInputStream(path)) {
                write(name + ": " + found + "\n");
            } catch (IOException e) {
                // as it should be
            }
        }
    }

    public void do_descriptors() throws Exception {
        StringBuilder listing = new StringBuilder();
        try (var entries = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            for (Path entry : entries) {
                try {
                    listing.append(entry.getFileName()).append(' ').append(Files.readSymbolicLink(entry)).append('\n');
                } catch (IOException e) {
                    // the listing's own
                }
            }
        }
        write(listing.toString());
    }

    public void do_close_all() throws Exception {
        write("all");
        out.getStream().close();
        in.get(0).getStream().close();
    }
}
