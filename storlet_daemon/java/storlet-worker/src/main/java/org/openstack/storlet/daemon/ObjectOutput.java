package org.openstack.storlet.daemon;

import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.FileChannel;
import java.util.HashMap;
import java.util.Map;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletObjectOutputStream;

/**
 * An output of one invocation. Metadata is an event on the connection, sent once and before the
 * first byte reaches the pipe.
 *
 * <p>The pipe's descriptor is kept out of the Java stream until the metadata is sent, so that no
 * write (by a channel, or a second stream on {@code getFD()}) can precede it. An error here is
 * stored and fails the invocation even if the storlet catches the exception: a result with a hole
 * must not look complete.
 */
final class ObjectOutput extends StorletObjectOutputStream {
    private static final String METADATA_TOO_LARGE = "the metadata is larger than the sandbox allows";

    private final int number;
    private final Connection connection;
    private final long metadataLimit;
    private final int descriptor;
    private final FileDescriptor pipeDescriptor = new FileDescriptor();
    private final Pipe pipe = new Pipe(pipeDescriptor);
    private final MetadataStream metadataStream = new MetadataStream();

    private volatile boolean isOpen;
    private boolean isMetadataSent;
    private boolean isOver;
    private Failure failure;

    /** Takes over {@code descriptor}, the write end of a pipe. */
    ObjectOutput(int number, int descriptor, Connection connection, long metadataLimit) {
        super(new HashMap<>());
        this.number = number;
        this.descriptor = descriptor;
        this.connection = connection;
        this.metadataLimit = metadataLimit;
        this.stream = pipe;
    }

    @Override
    public OutputStream getStream() {
        return pipe;
    }

    @Override
    public OutputStream getMDStream() {
        return metadataStream;
    }

    @Override
    public void closeMD() {
        try {
            metadataStream.close();
        } catch (IOException remembered) {
            // The signature permits no exception; finish() reports it.
        }
    }

    @Override
    public void setMetadata(Map<String, String> md) throws StorletException {
        HashMap<String, String> texts = new HashMap<>();
        // Storlets that were written for other value types also pass raw maps.
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) md).entrySet()) {
            if (entry.getKey() != null && entry.getValue() != null) {
                texts.put(entry.getKey().toString(), entry.getValue().toString());
            }
        }
        try {
            sendMetadata(texts);
        } catch (IOException cause) {
            StorletException raised = new StorletException(cause.getMessage());
            raised.initCause(cause);
            throw raised;
        }
        empty(md);
    }

    /**
     * Closes the output, and first sends metadata from the metadata stream that was not sent
     * before.
     */
    @Override
    public void close() {
        closeMD();
        closePipe();
    }

    /**
     * Ends the output of a storlet that has returned.
     *
     * @return the first error, or null
     */
    synchronized Failure finish() {
        // First, because an unused pipe need not be opened only to be closed.
        closePipe();
        if (!isMetadataSent && failure == null) {
            try {
                openPipe();
            } catch (IOException remembered) {
                // In failure.
            }
        }
        isOver = true;
        return failure;
    }

    /**
     * Ends the output of a storlet that has {@code failed}; an error here may be the better reason.
     */
    synchronized Failure finishAfter(Failure failed) {
        abandon();
        if (failure != null && failure.code().equals(Failure.METADATA)) {
            return new Failure(failure.code(), failure.message(), failed.traceback());
        }
        return failed;
    }

    /** Closes the descriptors and refuses later sends. */
    synchronized void abandon() {
        isOver = true;
        closePipe();
    }

    private void closePipe() {
        try {
            pipe.close();
        } catch (IOException lost) {
            // There is no buffer, and closing a pipe loses no data.
        }
    }

    /** Before the first byte: sends the metadata, then gives the stream the pipe's descriptor. */
    private synchronized void openPipe() throws IOException {
        if (isOpen) {
            return;
        }
        if (failure != null) {
            throw new IOException(failure.message());
        }
        if (!isMetadataSent) {
            sendMetadata(metadataStream.isUsed() ? metadataStream.parse() : Map.of());
        }
        attach();
    }

    private void attach() throws IOException {
        if (!isOpen && !pipe.isClosed) {
            Native.adopt(pipeDescriptor, descriptor);
            isOpen = true;
        }
    }

    private synchronized void sendMetadata(Map<String, String> metadata) throws IOException {
        if (isOver) {
            throw new IOException("the invocation is over");
        }
        if (isMetadataSent) {
            throw new IOException("metadata is set once, and before the first byte of the output");
        }
        boolean fits;
        try {
            fits = connection.sendMetadata(number, metadata, metadataLimit);
        } catch (IOException cause) {
            throw refuse(Failure.FAILED, "the metadata could not be sent: " + cause.getMessage());
        }
        if (!fits) {
            throw refuse(Failure.METADATA, METADATA_TOO_LARGE);
        }
        isMetadataSent = true;
        attach();
    }

    private synchronized IOException refuse(String code, String message) {
        if (failure == null) {
            failure = Failure.of(code, message);
        }
        return new IOException(message);
    }

    private IOException lost(IOException cause) {
        refuse(Failure.FAILED, "a write to the output failed: " + cause.getMessage());
        return cause;
    }

    /** The data stream. A file stream, because storlets may cast it to one. */
    private final class Pipe extends FileOutputStream {
        private boolean isClosed;

        Pipe(FileDescriptor descriptor) {
            super(descriptor);
        }

        @Override
        public void write(int b) throws IOException {
            try {
                openPipe();
                super.write(b);
            } catch (IOException cause) {
                throw lost(cause);
            }
        }

        @Override
        public void write(byte[] b) throws IOException {
            write(b, 0, b.length);
        }

        @Override
        public void write(byte[] b, int off, int len) throws IOException {
            if (len == 0) {
                return;
            }
            try {
                openPipe();
                super.write(b, off, len);
            } catch (IOException cause) {
                throw lost(cause);
            }
        }

        @Override
        public FileChannel getChannel() {
            try {
                openPipe();
            } catch (IOException remembered) {
                // The channel has no descriptor in this state, and each use of it fails.
            }
            return super.getChannel();
        }

        @Override
        public void close() throws IOException {
            synchronized (ObjectOutput.this) {
                if (!isClosed && !isOpen) {
                    Native.close(descriptor);
                }
                isClosed = true;
            }
            super.close();
        }
    }

    /** Collects metadata that a storlet writes as JSON text. */
    private final class MetadataStream extends OutputStream {
        private final ByteArrayOutputStream written = new ByteArrayOutputStream(0);
        private boolean isClosed;

        @Override
        public void write(int b) throws IOException {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] b, int off, int len) throws IOException {
            synchronized (ObjectOutput.this) {
                if (isClosed || isMetadataSent) {
                    throw new IOException("the metadata is sent already");
                }
                // A text with spaces and escapes may be longer than the sent metadata, but is
                // bounded.
                if (written.size() + (long) len > 8 * Native.MESSAGE_MAX) {
                    throw refuse(Failure.METADATA, METADATA_TOO_LARGE);
                }
                written.write(b, off, len);
            }
        }

        @Override
        public void close() throws IOException {
            synchronized (ObjectOutput.this) {
                if (!isClosed && isUsed() && !isMetadataSent) {
                    isClosed = true;
                    sendMetadata(parse());
                }
                isClosed = true;
            }
        }

        boolean isUsed() {
            return written.size() > 0;
        }

        Map<String, String> parse() throws IOException {
            Map<String, Object> values;
            try {
                values = JsonReader.readObject(written.toByteArray(), written.size());
            } catch (JsonReader.Malformed fault) {
                throw refuse(Failure.FAILED, "the metadata stream has no JSON object: " + fault.getMessage());
            }
            HashMap<String, String> texts = new HashMap<>();
            for (Map.Entry<String, Object> entry : values.entrySet()) {
                if (entry.getValue() != null) {
                    texts.put(entry.getKey(), JsonWriter.text(entry.getValue()));
                }
            }
            return texts;
        }
    }
}
