package org.openstack.storlet.daemon;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Builds one JSON text as UTF-8 bytes in an array that is used again for the next. */
final class JsonWriter {
    private static final byte[] HEX = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};

    private byte[] bytes = new byte[512];
    private int length;

    JsonWriter clear() {
        length = 0;
        return this;
    }

    byte[] bytes() {
        return bytes;
    }

    int length() {
        return length;
    }

    /** Appends ASCII as it is. */
    JsonWriter raw(String ascii) {
        int count = ascii.length();
        reserve(count);
        for (int i = 0; i < count; i++) {
            bytes[length++] = (byte) ascii.charAt(i);
        }
        return this;
    }

    JsonWriter number(long value) {
        return raw(Long.toString(value));
    }

    /** Microseconds as a number of seconds. */
    JsonWriter seconds(long microseconds) {
        String digits = Long.toString(1_000_000 + microseconds % 1_000_000);
        return number(microseconds / 1_000_000).raw(".").raw(digits.substring(1));
    }

    JsonWriter string(String value) {
        int count = value.length();
        reserve(count * 6 + 2);
        bytes[length++] = '"';
        for (int i = 0; i < count; i++) {
            char c = value.charAt(i);
            if (c >= 0x20 && c < 0x7f) {
                if (c == '"' || c == '\\') {
                    bytes[length++] = '\\';
                }
                bytes[length++] = (byte) c;
            } else if (Character.isHighSurrogate(c) && i + 1 < count && Character.isLowSurrogate(value.charAt(i + 1))) {
                pair(Character.toCodePoint(c, value.charAt(++i)));
            } else {
                // Half of a surrogate pair is not valid text and has no UTF-8 form.
                special(Character.isSurrogate(c) ? '\ufffd' : c);
            }
        }
        bytes[length++] = '"';
        return this;
    }

    JsonWriter object(Map<String, String> members) {
        raw("{");
        String separator = "";
        for (Map.Entry<String, String> member : members.entrySet()) {
            raw(separator).string(member.getKey()).raw(":").string(member.getValue());
            separator = ",";
        }
        return raw("}");
    }

    /**
     * A value that {@link JsonReader} has read, as text: numbers and truth values as Java prints
     * them, the rest as JSON.
     */
    static String text(Object value) {
        if (value instanceof Map || value instanceof List) {
            JsonWriter writer = new JsonWriter().value(value);
            return new String(writer.bytes, 0, writer.length, StandardCharsets.UTF_8);
        }
        return value.toString();
    }

    /** A text, a map with text keys, a list, or a number, a truth value or null. */
    JsonWriter value(Object value) {
        if (value instanceof String text) {
            return string(text);
        }
        String separator = "";
        if (value instanceof Map<?, ?> members) {
            raw("{");
            for (Map.Entry<?, ?> member : members.entrySet()) {
                raw(separator).string((String) member.getKey()).raw(":").value(member.getValue());
                separator = ",";
            }
            return raw("}");
        }
        if (value instanceof List<?> elements) {
            raw("[");
            for (Object element : elements) {
                raw(separator).value(element);
                separator = ",";
            }
            return raw("]");
        }
        return raw(String.valueOf(value));
    }

    private void special(char c) {
        if (c == '\n' || c == '\t' || c == '\r') {
            bytes[length++] = '\\';
            bytes[length++] = (byte) (c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        } else if (c < 0x80) {
            bytes[length++] = '\\';
            bytes[length++] = 'u';
            for (int shift = 12; shift >= 0; shift -= 4) {
                bytes[length++] = HEX[c >> shift & 15];
            }
        } else if (c < 0x800) {
            bytes[length++] = (byte) (0xc0 | c >> 6);
            bytes[length++] = (byte) (0x80 | c & 0x3f);
        } else {
            bytes[length++] = (byte) (0xe0 | c >> 12);
            bytes[length++] = (byte) (0x80 | c >> 6 & 0x3f);
            bytes[length++] = (byte) (0x80 | c & 0x3f);
        }
    }

    private void pair(int point) {
        bytes[length++] = (byte) (0xf0 | point >> 18);
        bytes[length++] = (byte) (0x80 | point >> 12 & 0x3f);
        bytes[length++] = (byte) (0x80 | point >> 6 & 0x3f);
        bytes[length++] = (byte) (0x80 | point & 0x3f);
    }

    private void reserve(int more) {
        if (bytes.length - length < more) {
            bytes = Arrays.copyOf(bytes, Math.max(length + more, bytes.length * 2));
        }
    }
}
