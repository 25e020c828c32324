package org.openstack.storlet.daemon;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.openstack.storlet.services.ServiceException;
import org.openstack.storlet.services.Stat;

/**
 * One message of the store to the worker. It answers the request {@code id}; or it is the end of
 * the stream that an earlier message brought, complete or failed.
 *
 * @param isFeeding its stream takes the input of a called storlet; another reply follows
 * @param facts of the object; without any for other messages
 * @param hasMore the page of a listing is not the last one
 * @param bytes of the complete stream of an {@code ended}, else -1
 * @param refusal of a {@code failed}, else null
 * @param descriptor of the stream of an {@code opened}, {@code created} or {@code feeding}, else
 *     -1; belongs to the receiver
 */
record ServiceReply(
        boolean isFeeding, long id, Stat facts, boolean hasMore, long bytes, Refusal refusal, int descriptor) {
    private static final String FEEDING = "feeding";
    private static final Set<String> STREAMS = Set.of("opened", "created", FEEDING);
    private static final String ENDED = "ended";
    private static final String FAILED = "failed";
    private static final Set<String> OTHERS = Set.of("described", "performed");

    /** The reason of a failure; the exception is made where it is thrown, for its stack trace. */
    record Refusal(String code, int status, String message, String storlet) {
        ServiceException exception() {
            return ServiceException.of(message, code, status, storlet);
        }
    }

    /** Parses the message that {@link Native#receive} has received. */
    static ServiceReply parse(byte[] message, int length, int[] descriptors) throws ProtocolError {
        if (length == Native.TRUNCATED) {
            throw new ProtocolError("a message of the store is too long");
        }
        Map<String, Object> fields;
        try {
            fields = JsonReader.readObject(message, length);
        } catch (JsonReader.Malformed fault) {
            throw new ProtocolError(fault.getMessage());
        }
        String type = text(fields, "type");
        boolean hasStream = type != null && STREAMS.contains(type);
        if (type == null || !hasStream && !type.equals(ENDED) && !type.equals(FAILED) && !OTHERS.contains(type)) {
            throw new ProtocolError("a message of the store has an unknown type");
        }
        if (descriptors[0] != (hasStream ? 1 : 0)) {
            throw new ProtocolError(type + " came with " + descriptors[0] + " descriptors");
        }
        return new ServiceReply(
                type.equals(FEEDING),
                required(fields, "id"),
                stat(fields.get("facts")),
                flag(fields, "has_more"),
                type.equals(ENDED) ? required(fields, "bytes") : -1,
                type.equals(FAILED) ? refusal(fields) : null,
                hasStream ? descriptors[1] : -1);
    }

    /** The end of a complete stream. */
    boolean isEnd() {
        return bytes >= 0;
    }

    boolean isFailure() {
        return refusal != null;
    }

    private static Refusal refusal(Map<String, Object> fields) throws ProtocolError {
        String code = text(fields, "code");
        String message = text(fields, "message");
        if (code == null || code.isEmpty() || code.indexOf(0) >= 0 || message == null) {
            throw new ProtocolError("failed needs a code and a message");
        }
        return new Refusal(code, (int) Math.min(Integer.MAX_VALUE, required(fields, "status")), message, text(fields, "storlet"));
    }

    private static Stat stat(Object value) throws ProtocolError {
        if (value == null) {
            return new Stat(Map.of(), -1, null, null, null);
        }
        Map<?, ?> facts = object(value, "facts");
        Map<String, String> metadata = new HashMap<>();
        Object items = facts.get("metadata");
        if (items != null) {
            for (Map.Entry<?, ?> item : object(items, "metadata").entrySet()) {
                if (!(item.getValue() instanceof String text)) {
                    throw new ProtocolError("metadata must be an object of texts");
                }
                metadata.put((String) item.getKey(), text);
            }
        }
        return new Stat(
                metadata, count(facts, "size"), text(facts, "etag"), text(facts, "content_type"), text(facts, "last_modified"));
    }

    private static Map<?, ?> object(Object value, String what) throws ProtocolError {
        if (value instanceof Map<?, ?> object) {
            return object;
        }
        throw new ProtocolError(what + " must be an object");
    }

    /** A text, or null if it is absent. */
    private static String text(Map<?, ?> fields, String key) throws ProtocolError {
        Object value = fields.get(key);
        if (value == null || value instanceof String) {
            return (String) value;
        }
        throw new ProtocolError(key + " must be text");
    }

    /** A whole number from 0, or -1 if it is absent. */
    private static long count(Map<?, ?> fields, String key) throws ProtocolError {
        Object value = fields.get(key);
        if (value == null) {
            return -1;
        }
        if (value instanceof Long number && number >= 0) {
            return number;
        }
        throw new ProtocolError(key + " must be a whole number from 0");
    }

    private static long required(Map<?, ?> fields, String key) throws ProtocolError {
        long number = count(fields, key);
        if (number < 0) {
            throw new ProtocolError(key + " is missing");
        }
        return number;
    }

    private static boolean flag(Map<?, ?> fields, String key) throws ProtocolError {
        Object value = fields.get(key);
        if (value == null || value instanceof Boolean) {
            return Boolean.TRUE.equals(value);
        }
        throw new ProtocolError(key + " must be true or false");
    }
}
