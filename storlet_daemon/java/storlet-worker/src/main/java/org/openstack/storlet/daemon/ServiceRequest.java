package org.openstack.storlet.daemon;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.openstack.storlet.internal.ErrorCodes;
import org.openstack.storlet.services.ServiceException;

/**
 * A request of a storlet to the store. Its fields are checked here, because a record that violates
 * the protocol would end the invocation.
 */
final class ServiceRequest {
    private final String operation;
    private final String service;
    private final Map<String, Object> fields = new LinkedHashMap<>();

    /**
     * @param operation the type of the message
     * @param service the one that the storlet must declare
     */
    ServiceRequest(String operation, String service) {
        this.operation = operation;
        this.service = service;
    }

    String operation() {
        return operation;
    }

    String service() {
        return service;
    }

    /** Adds a text of at least one character. */
    ServiceRequest name(String key, String value) throws ServiceException {
        if (value == null) {
            throw bad(key + " is missing");
        }
        if (value.isEmpty() || value.indexOf(0) >= 0) {
            throw bad(key + " is not text of at least one character");
        }
        fields.put(key, unicode(key, value));
        return this;
    }

    /** Adds a text, unless it is null or empty. */
    ServiceRequest text(String key, String value) throws ServiceException {
        if (value != null && !value.isEmpty()) {
            fields.put(key, unicode(key, value));
        }
        return this;
    }

    /** Adds a number, unless it is null. */
    ServiceRequest count(String key, Long value) throws ServiceException {
        if (value != null && value < 0) {
            throw bad(key + " is not a whole number from 0");
        }
        if (value != null) {
            fields.put(key, value);
        }
        return this;
    }

    /** Adds the flag if it is true. */
    ServiceRequest flag(String key, boolean value) {
        if (value) {
            fields.put(key, Boolean.TRUE);
        }
        return this;
    }

    /** Adds texts by their names; null becomes an empty text. */
    ServiceRequest texts(String key, Map<String, String> values) throws ServiceException {
        Map<String, Object> texts = new LinkedHashMap<>();
        for (Map.Entry<String, String> each : values.entrySet()) {
            if (each.getKey() == null) {
                throw bad(key + " has a name that is null");
            }
            String value = each.getValue() == null ? "" : each.getValue();
            texts.put(unicode(key, each.getKey()), unicode(key, value));
        }
        fields.put(key, texts);
        return this;
    }

    /** Adds an element to a list of ranges; {@code end} may be null. */
    @SuppressWarnings("unchecked") // The list is made here.
    ServiceRequest range(String key, long start, Long end) throws ServiceException {
        if (start < 0 || end != null && end < start) {
            throw bad(key + " has a range that ends before it starts");
        }
        Map<String, Object> range = new LinkedHashMap<>();
        range.put("start", start);
        if (end != null) {
            range.put("end", end);
        }
        ((List<Object>) fields.computeIfAbsent(key, name -> new ArrayList<>())).add(range);
        return this;
    }

    /** Writes the message with the number {@code id}. */
    void write(JsonWriter writer, long id) throws ServiceException {
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("type", operation);
        message.put("id", id);
        message.putAll(fields);
        writer.clear().value(message);
        if (writer.length() > Native.MESSAGE_MAX) {
            throw bad("the message has " + writer.length() + " bytes, more than " + Native.MESSAGE_MAX);
        }
    }

    private String unicode(String key, String value) throws ServiceException {
        for (int i = 0; i < value.length(); i++) {
            if (Character.isSurrogate(value.charAt(i))) {
                boolean isPair = i + 1 < value.length() && Character.isSurrogatePair(value.charAt(i), value.charAt(i + 1));
                if (!isPair) {
                    throw bad(key + " has half of a surrogate pair");
                }
                i++;
            }
        }
        return value;
    }

    private ServiceException bad(String fault) {
        return new ServiceException(operation + ": " + fault, ErrorCodes.BAD_REQUEST, 400);
    }
}
