package org.openstack.storlet.daemon;

import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * One parsed {@code invoke} message. Its descriptors still belong to the receiver of the message.
 *
 * @param parameters of the request; mutable, because the storlet gets this very map
 * @param outputs descriptors of the outputs, by their numbers
 * @param log null if the filter requested none
 * @param metadataBytes limit of the metadata of each output as JSON; 0 means no limit
 * @param services null if the storlet may not use the store
 * @param secrets the values of the run's secrets by their names
 */
record Invocation(
        String id,
        HashMap<String, String> parameters,
        List<Input> inputs,
        List<Integer> outputs,
        Log log,
        long metadataBytes,
        Services services,
        Map<String, byte[]> secrets) {
    private static final long METADATA_BYTES_DEFAULT = 4096;

    /** The storlet seeks in the file of the input. */
    static final String SEEK_FILE = "file";

    /** The storlet seeks by reads that the filter answers. */
    static final String SEEK_READS = "reads";

    /**
     * One input.
     *
     * @param start offset of its first byte, or -1 for the descriptor's current position
     * @param end offset of its last byte; only with a start
     * @param seekable {@link #SEEK_FILE} or {@link #SEEK_READS}; null for a stream or a range
     * @param size its bytes, if it is seekable
     */
    record Input(
            int descriptor, HashMap<String, String> metadata, long start, long end, String seekable, long size) {}

    /** The descriptor of the log, and its size in bytes. */
    record Log(int descriptor, long limit) {}

    /** The descriptor of the socket to the store, and the services that the storlet declares. */
    record Services(int descriptor, List<String> operations) {}

    /** Parses the message that {@link Native#receive} has received. */
    static Invocation parse(byte[] message, int length, int[] descriptors) throws ProtocolError {
        if (length == Native.TRUNCATED) {
            throw new ProtocolError("the message has more than 65536 bytes or 32 descriptors");
        }
        Map<String, Object> fields;
        try {
            fields = JsonReader.readObject(message, length);
        } catch (JsonReader.Malformed fault) {
            throw new ProtocolError(fault.getMessage());
        }
        Parser parser = new Parser(descriptors);
        if (!"invoke".equals(fields.get("type"))) {
            throw new ProtocolError("the first message is not an invocation");
        }
        if (!Long.valueOf(1).equals(fields.get("v"))) {
            throw new ProtocolError("unknown version of the protocol, this is 1");
        }
        Invocation invocation = new Invocation(
                parser.id(fields),
                parser.texts(fields, "parameters"),
                parser.inputs(fields),
                parser.outputs(fields),
                parser.log(fields),
                parser.metadataBytes(fields),
                parser.services(fields),
                parser.secrets(fields));
        parser.checkAllNamed();
        return invocation;
    }

    /** Reads fields of a message, and records the descriptors that they name. */
    private static final class Parser {
        private final int[] descriptors;
        private int named;

        /** One bit per descriptor; there are at most 32. */
        private long seen;

        Parser(int[] descriptors) {
            this.descriptors = descriptors;
        }

        String id(Map<String, Object> fields) throws ProtocolError {
            if (fields.get("id") instanceof String id && !id.isEmpty() && id.indexOf(0) < 0) {
                return id;
            }
            throw new ProtocolError("id must be text of at least one character");
        }

        HashMap<String, String> texts(Map<String, Object> fields, String key) throws ProtocolError {
            HashMap<String, String> texts = new HashMap<>();
            Map<String, Object> found = object(fields, key);
            if (found == null) {
                return texts;
            }
            for (Map.Entry<String, Object> entry : found.entrySet()) {
                if (!(entry.getValue() instanceof String value)) {
                    throw new ProtocolError(key + " must be an object of texts");
                }
                texts.put(entry.getKey(), value);
            }
            return texts;
        }

        List<Input> inputs(Map<String, Object> fields) throws ProtocolError {
            if (!(fields.get("inputs") instanceof List<?> listed) || listed.isEmpty()) {
                throw new ProtocolError("inputs must be a list of one or more");
            }
            List<Input> inputs = new ArrayList<>(listed.size());
            for (Object element : listed) {
                inputs.add(input(asObject(element, "an input")));
            }
            return inputs;
        }

        List<Integer> outputs(Map<String, Object> fields) throws ProtocolError {
            List<Integer> outputs = new ArrayList<>(1);
            outputs.add(descriptor(required(fields, "output")));
            Object further = fields.get("further_outputs");
            if (further == null) {
                return outputs;
            }
            if (!(further instanceof List<?> listed)) {
                throw new ProtocolError("further_outputs must be a list");
            }
            for (Object element : listed) {
                outputs.add(descriptor(asObject(element, "a further output")));
            }
            return outputs;
        }

        private Input input(Map<String, Object> fields) throws ProtocolError {
            int descriptor = descriptor(fields);
            long start = number(fields, "start", -1);
            long end = number(fields, "end", -1);
            if (start < 0 && end >= 0) {
                start = 0;
            }
            if (end < 0) {
                end = Long.MAX_VALUE;
            }
            if (end < start) {
                throw new ProtocolError("an input ends before it starts");
            }
            String seekable = seekable(fields);
            long size = number(fields, "size", -1);
            if (seekable != null && (size < 0 || start >= 0)) {
                throw new ProtocolError("a seekable input needs a size, and has no range");
            }
            return new Input(descriptor, texts(fields, "metadata"), start, end, seekable, size);
        }

        private static String seekable(Map<String, Object> fields) throws ProtocolError {
            Object found = fields.get("seekable");
            if (found == null || SEEK_FILE.equals(found) || SEEK_READS.equals(found)) {
                return (String) found;
            }
            throw new ProtocolError("seekable is none of " + SEEK_FILE + ", " + SEEK_READS);
        }

        Log log(Map<String, Object> fields) throws ProtocolError {
            Map<String, Object> log = object(fields, "log");
            if (log == null) {
                return null;
            }
            long limit = number(log, "limit", -1);
            if (limit < 0) {
                throw new ProtocolError("log must have a limit");
            }
            return new Log(descriptor(log), limit);
        }

        long metadataBytes(Map<String, Object> fields) throws ProtocolError {
            Map<String, Object> limits = object(fields, "limits");
            return limits == null ? METADATA_BYTES_DEFAULT : number(limits, "metadata_bytes", METADATA_BYTES_DEFAULT);
        }

        Services services(Map<String, Object> fields) throws ProtocolError {
            Map<String, Object> services = object(fields, "services");
            if (services == null) {
                return null;
            }
            if (!(services.get("operations") instanceof List<?> listed)) {
                throw new ProtocolError("services must have a list of operations");
            }
            List<String> operations = new ArrayList<>(listed.size());
            for (Object element : listed) {
                if (!(element instanceof String operation)) {
                    throw new ProtocolError("an operation must be text");
                }
                operations.add(operation);
            }
            return new Services(descriptor(services), operations);
        }

        Map<String, byte[]> secrets(Map<String, Object> fields) throws ProtocolError {
            Map<String, byte[]> secrets = new HashMap<>();
            for (Map.Entry<String, String> text : texts(fields, "secrets").entrySet()) {
                // The decoder also takes a text without its padding.
                if (text.getValue().length() % 4 != 0) {
                    throw new ProtocolError("a secret is not base64");
                }
                try {
                    secrets.put(text.getKey(), Base64.getDecoder().decode(text.getValue()));
                } catch (IllegalArgumentException fault) {
                    throw new ProtocolError("a secret is not base64");
                }
            }
            return secrets;
        }

        int descriptor(Map<String, Object> fields) throws ProtocolError {
            long position = number(fields, "fd", -1);
            if (position < 0 || position >= descriptors[0]) {
                throw new ProtocolError("fd must be the position of a descriptor of the message");
            }
            if ((seen >> position & 1) != 0) {
                throw new ProtocolError("a descriptor is named twice");
            }
            seen |= 1L << position;
            named++;
            return descriptors[1 + (int) position];
        }

        void checkAllNamed() throws ProtocolError {
            if (named != descriptors[0]) {
                throw new ProtocolError("a descriptor is not named");
            }
        }

        Map<String, Object> required(Map<String, Object> fields, String key) throws ProtocolError {
            return asObject(fields.get(key), key);
        }

        private Map<String, Object> object(Map<String, Object> fields, String key) throws ProtocolError {
            Object found = fields.get(key);
            return found == null ? null : asObject(found, key);
        }

        private long number(Map<String, Object> fields, String key, long absent) throws ProtocolError {
            Object found = fields.get(key);
            if (found == null) {
                return absent;
            }
            if (found instanceof Long value && value >= 0) {
                return value;
            }
            throw new ProtocolError(key + " must be a whole number from 0");
        }

        @SuppressWarnings("unchecked") // The reader makes maps with text keys only.
        private static Map<String, Object> asObject(Object value, String what) throws ProtocolError {
            if (value instanceof Map<?, ?> object) {
                return (Map<String, Object>) object;
            }
            throw new ProtocolError(what + " must be an object");
        }
    }
}
