package org.openstack.storlet.daemon;

import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.RangeStorletInputStream;
import org.openstack.storlet.common.SeekableStorletInputStream;
import org.openstack.storlet.common.StorletInputStream;

/**
 * The resident process that runs one Java storlet. It loads the storlet once, then serves one
 * invocation at a time until the supervisor hangs up or a run requires a new process.
 *
 * <p>Arguments: {@code <listening descriptor> <channel descriptor> <main class> <execution path>
 * <runs per worker> <seconds of life>}. The class path holds the worker's jars and then the
 * storlet's. PROTOCOL.rst specifies the messages on the two sockets and their order.
 *
 * <p>Ownership of descriptors: {@link #serve} owns those of a message until it passes them to their
 * streams, one at a time. Then the stream owns its descriptor; the storlet may close it early, and
 * {@link #run} closes it in any case.
 */
public final class Worker {
    private static final String EXECUTION_PATH = "storlet_execution_path";
    private static final String JAR = "storlet-worker.jar";
    private static final String LIBRARY = "libstorletjni.so";

    /** A caller that connects and sends nothing must not keep a worker. */
    private static final int FIRST_MESSAGE_MILLISECONDS = 10_000;

    private final Supervisor supervisor;
    private final String main;
    private final String executionPath;
    private final long runsMax;
    private final long startedAt = System.nanoTime();
    private final double secondsMax;
    private final byte[] message = new byte[Native.MESSAGE_MAX];
    private final int[] descriptors = new int[1 + Native.DESCRIPTORS_MAX];
    private final InvocationLog.Sink printed = new InvocationLog.Sink();
    private final PrintStream standardOut = new PrintedStream(printed);
    private final PrintStream standardErr = new PrintedStream(printed);

    /** Released after a failure, so that there is memory to report it. Then the process exits. */
    private static volatile byte[] memoryReserve = new byte[256 * 1024];

    private IStorlet storlet;
    private Failure loadFailure;
    private ThreadWatch threads;
    private long runs;

    private Worker(Supervisor supervisor, String main, String executionPath, long runsMax, double secondsMax) {
        this.supervisor = supervisor;
        this.main = main;
        this.executionPath = executionPath;
        this.runsMax = runsMax;
        this.secondsMax = secondsMax;
    }

    public static void main(String[] arguments) {
        int status = 1;
        try {
            System.load(library());
            int channel = Integer.parseInt(arguments[1]);
            Native.open(Integer.parseInt(arguments[0]), channel);
            long runs = Long.parseLong(arguments[4]);
            double seconds = Double.parseDouble(arguments[5]);
            Worker worker = new Worker(new Supervisor(channel), arguments[2], arguments[3], runs, seconds);
            worker.load();
            worker.takeOverPrinting();
            worker.serveAll();
            status = 0;
        } catch (Throwable fault) {
            fault.printStackTrace();
        } finally {
            // Without exit handlers: no code of the storlet may run outside an invocation. Always
            // halt: a leftover thread of the storlet would keep the process alive.
            Runtime.getRuntime().halt(status);
        }
    }

    /** The native library lies beside the worker's jar. */
    private static String library() {
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (entry.endsWith(JAR)) {
                return new File(entry).getAbsoluteFile().getParent() + File.separator + LIBRARY;
            }
        }
        throw new UnsatisfiedLinkError("no " + JAR + " in the class path");
    }

    private void load() throws IOException {
        try {
            storlet = Storlet.load(main);
        } catch (Throwable raised) {
            loadFailure = Failure.ofLoad(raised);
            supervisor.sendLoadFailed(loadFailure);
            return;
        }
        threads = new ThreadWatch();
        supervisor.sendReady();
    }

    /**
     * Writes the storlet's output to the log from now on; the supervisor kept the load's output.
     */
    private void takeOverPrinting() {
        Native.redirect(-1);
        System.setOut(standardOut);
        System.setErr(standardErr);
    }

    private void serveAll() {
        int socket;
        do {
            // A worker that only refuses exits at once: the next one may load the code.
            socket = Native.accept(loadFailure == null);
        } while (socket >= 0 && serve(socket));
    }

    /**
     * Serves one connection, which it owns.
     *
     * @return false when this process should end
     */
    private boolean serve(int socket) {
        try (Connection connection = new Connection(socket)) {
            int length;
            try {
                length = Native.receive(socket, message, descriptors, FIRST_MESSAGE_MILLISECONDS);
            } catch (IOException gone) {
                return true;
            }
            if (length == Native.NOTHING) {
                return true;
            }
            Invocation invocation;
            ArrayList<StorletInputStream> inputs;
            try {
                invocation = Invocation.parse(message, length, descriptors);
                if (loadFailure != null) {
                    refuse(invocation, connection);
                    return true;
                }
                prepareServices(invocation);
                inputs = openInputs(invocation);
            } catch (ProtocolError fault) {
                closeDescriptors();
                connection.sendDone(Failure.of(Failure.PROTOCOL, fault.getMessage()), null);
                return true;
            }
            try {
                supervisor.sendBegin(socket);
            } catch (IOException gone) {
                // Without a supervisor the run cannot be cancelled, so it does not start.
                return false;
            }
            return run(invocation, inputs, connection);
        }
    }

    /** Reports, in the log too, that the code was not loaded. */
    private void refuse(Invocation invocation, Connection connection) {
        if (invocation.log() != null) {
            try {
                logFailure(new InvocationLog(invocation.log()), loadFailure);
            } catch (IOException unusable) {
                // The filter always receives the reason.
            }
        }
        closeDescriptors();
        connection.sendDone(loadFailure, null);
    }

    private void logFailure(InvocationLog log, Failure failure) {
        String text = failure.traceback().isEmpty() ? failure.message() : failure.traceback().stripTrailing();
        log.emitLog(main + " ERROR: " + text);
    }

    private static ArrayList<StorletInputStream> openInputs(Invocation invocation) throws ProtocolError {
        ArrayList<StorletInputStream> inputs = new ArrayList<>(invocation.inputs().size());
        try {
            for (Invocation.Input input : invocation.inputs()) {
                FileDescriptor adopted = new FileDescriptor();
                Native.adopt(adopted, input.descriptor());
                inputs.add(open(input, adopted));
            }
        } catch (IOException fault) {
            throw new ProtocolError("an input does not support the requested range: " + fault.getMessage());
        }
        return inputs;
    }

    private static StorletInputStream open(Invocation.Input input, FileDescriptor adopted) throws IOException {
        if (Invocation.SEEK_FILE.equals(input.seekable())) {
            return SeekableStorletInputStream.ofFile(adopted, input.metadata(), input.size());
        }
        if (Invocation.SEEK_READS.equals(input.seekable())) {
            return SeekableStorletInputStream.ofReads(adopted, input.metadata(), input.size());
        }
        if (input.start() < 0) {
            return new StorletInputStream(adopted, input.metadata());
        }
        return new RangeStorletInputStream(adopted, input.metadata(), input.start(), input.end());
    }

    private static void prepareServices(Invocation invocation) throws ProtocolError {
        try {
            if (invocation.services() != null) {
                Native.block(invocation.services().descriptor());
            }
        } catch (IOException fault) {
            throw new ProtocolError("the socket of the services is unusable: " + fault.getMessage());
        }
    }

    /** Closes the descriptors of a message that cannot be served; their streams are dropped. */
    private void closeDescriptors() {
        for (int i = 1; i <= descriptors[0]; i++) {
            Native.close(descriptors[i]);
        }
        descriptors[0] = 0;
    }

    private boolean run(Invocation invocation, ArrayList<StorletInputStream> inputs, Connection connection) {
        Usage before = Usage.now();
        Outputs outputs = new Outputs(invocation, connection);
        RunServices services = RunServices.begin(invocation.services());
        RunSecrets.begin(invocation.secrets());
        InvocationLog log = openLog(invocation);
        boolean isWanted = start(connection);
        Failure failure = isWanted ? invoke(invocation, inputs, outputs, log) : null;
        RunServices.end(services);
        RunSecrets.end();
        outputs.abandon();
        flushPrinted();
        if (failure != null) {
            logFailure(log, failure);
        }
        for (StorletInputStream input : inputs) {
            input.close();
        }
        closeLog(log, invocation);
        runs++;
        boolean isOver = runs >= runsMax || System.nanoTime() - startedAt > secondsMax * 1e9;
        boolean recycle = failure != null || isOver || threads.hasLeftOver() || Native.hasChildren();
        Usage usage = Usage.now().since(before, inputs);
        try {
            supervisor.sendEnd(recycle, failure != null);
        } catch (IOException gone) {
            recycle = true;
        }
        if (isWanted) {
            connection.sendDone(failure, usage);
        }
        return !recycle;
    }

    /** Reports that the invocation was accepted; false if the filter has disconnected. */
    private static boolean start(Connection connection) {
        try {
            connection.sendStarted();
            return true;
        } catch (IOException gone) {
            return false;
        }
    }

    /** Runs the storlet and closes its outputs. */
    private Failure invoke(
            Invocation invocation, ArrayList<StorletInputStream> inputs, Outputs outputs, InvocationLog log) {
        invocation.parameters().put(EXECUTION_PATH, executionPath);
        // The storlet may change its list of inputs, so this one is used to close them.
        ArrayList<StorletInputStream> lent = new ArrayList<>(inputs);
        try {
            storlet.invoke(lent, outputs.lent(), invocation.parameters(), log);
        } catch (Throwable raised) {
            memoryReserve = null;
            return outputs.finishAfter(raised, new Redaction(invocation.secrets().values()));
        } finally {
            Thread.interrupted(); // A pending interrupt must not affect the next invocation.
        }
        return outputs.finish();
    }

    /** Ends a run: flushes its output, and undoes what it did to the streams. */
    private void flushPrinted() {
        standardOut.flush();
        standardErr.flush();
        if (System.out != standardOut) {
            System.setOut(standardOut);
        }
        if (System.err != standardErr) {
            System.setErr(standardErr);
        }
    }

    /** Ignores a close by the storlet, because the next run needs it. */
    private static final class PrintedStream extends PrintStream {
        PrintedStream(InvocationLog.Sink sink) {
            super(new BufferedOutputStream(sink), true, StandardCharsets.UTF_8);
        }

        @Override
        public void close() {
            flush();
        }
    }

    private InvocationLog openLog(Invocation invocation) {
        if (invocation.log() == null) {
            return new InvocationLog();
        }
        try {
            InvocationLog log = new InvocationLog(invocation.log());
            Native.redirect(invocation.log().descriptor());
            printed.follow(log);
            return log;
        } catch (IOException unusable) {
            Native.close(invocation.log().descriptor());
            return new InvocationLog();
        }
    }

    private void closeLog(InvocationLog log, Invocation invocation) {
        if (invocation.log() != null) {
            printed.follow(null);
            Native.redirect(-1);
        }
        log.end();
    }
}
