package org.openstack.storlet.daemon;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads one JSON text from UTF-8 bytes: objects as {@link Map}, arrays as {@link List}, then
 * String, Long, Double, Boolean and null.
 *
 * <p>Strict, and bounded in depth, because the bytes may be garbage. It replaces json-simple, which
 * is for storlets: a worker that does not load its classes starts faster, and this reader does not
 * copy the message into a String first.
 */
final class JsonReader {
    /** Deepest nesting of objects and arrays. */
    static final int DEPTH_MAX = 8;

    /** Digits and sign of the longest number that may be a Long. */
    private static final int LONG_DIGITS = 20;

    /** The bytes are not the expected JSON. */
    static final class Malformed extends Exception {
        private static final long serialVersionUID = 1L;

        Malformed(String message) {
            super(message, null, false, false);
        }
    }

    private final byte[] text;
    private final int end;
    private int at;

    private JsonReader(byte[] text, int end) {
        this.text = text;
        this.end = end;
    }

    /** The object that the first {@code length} bytes are; any other text is refused. */
    static Map<String, Object> readObject(byte[] text, int length) throws Malformed {
        JsonReader reader = new JsonReader(text, length);
        reader.skipSpace();
        if (reader.peek() != '{') {
            throw new Malformed("not a JSON object");
        }
        Map<String, Object> value = reader.object(1);
        reader.skipSpace();
        if (reader.at != length) {
            throw reader.unexpected();
        }
        return value;
    }

    /** The array that the first {@code length} bytes are; any other text is refused. */
    static List<Object> readArray(byte[] text, int length) throws Malformed {
        JsonReader reader = new JsonReader(text, length);
        reader.skipSpace();
        if (reader.peek() != '[') {
            throw new Malformed("not a JSON array");
        }
        List<Object> value = reader.array(1);
        reader.skipSpace();
        if (reader.at != length) {
            throw reader.unexpected();
        }
        return value;
    }

    private Object value(int depth) throws Malformed {
        switch (peek()) {
            case '{':
                return object(depth + 1);
            case '[':
                return array(depth + 1);
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object(int depth) throws Malformed {
        checkDepth(depth);
        Map<String, Object> members = new HashMap<>();
        at++;
        skipSpace();
        if (peek() == '}') {
            at++;
            return members;
        }
        while (true) {
            skipSpace();
            if (peek() != '"') {
                throw unexpected();
            }
            String key = string();
            skipSpace();
            expect(':');
            skipSpace();
            members.put(key, value(depth));
            skipSpace();
            if (peek() == '}') {
                at++;
                return members;
            }
            expect(',');
        }
    }

    private List<Object> array(int depth) throws Malformed {
        checkDepth(depth);
        List<Object> elements = new ArrayList<>();
        at++;
        skipSpace();
        if (peek() == ']') {
            at++;
            return elements;
        }
        while (true) {
            skipSpace();
            elements.add(value(depth));
            skipSpace();
            if (peek() == ']') {
                at++;
                return elements;
            }
            expect(',');
        }
    }

    private String string() throws Malformed {
        int start = ++at;
        boolean plain = true;
        while (true) {
            int c = peek();
            if (c == '"') {
                break;
            }
            if (c >= 0 && c < 0x20) {
                throw unexpected();
            }
            plain &= c > 0 && c < 0x80;
            if (c == '\\') {
                return escapedString(start);
            }
            at++;
        }
        int length = at++ - start;
        return plain ? new String(text, start, length, StandardCharsets.ISO_8859_1) : decode(start, length);
    }

    private String escapedString(int start) throws Malformed {
        StringBuilder built = new StringBuilder();
        int plainStart = start;
        while (true) {
            int c = peek();
            if (c >= 0 && c < 0x20) {
                throw unexpected();
            }
            if (c == '"' || c == '\\') {
                built.append(decode(plainStart, at - plainStart));
                at++;
                if (c == '"') {
                    return whole(built.toString());
                }
                built.append(escape());
                plainStart = at;
            } else {
                at++;
            }
        }
    }

    private char escape() throws Malformed {
        int c = peek();
        at++;
        switch (c) {
            case '"':
            case '\\':
            case '/':
                return (char) c;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                int unit = 0;
                for (int i = 0; i < 4; i++, at++) {
                    int digit = Character.digit(peek(), 16);
                    if (digit < 0) {
                        throw unexpected();
                    }
                    unit = unit * 16 + digit;
                }
                return (char) unit;
            default:
                at--;
                throw unexpected();
        }
    }

    /** Escapes can contain half of a surrogate pair, which is not valid text. */
    private static String whole(String value) throws Malformed {
        for (int i = 0; i < value.length(); i++) {
            if (isPair(value, i)) {
                i++;
            } else if (Character.isSurrogate(value.charAt(i))) {
                throw new Malformed("half of a surrogate pair");
            }
        }
        return value;
    }

    private static boolean isPair(String value, int i) {
        return i + 1 < value.length() && Character.isSurrogatePair(value.charAt(i), value.charAt(i + 1));
    }

    private String decode(int start, int length) throws Malformed {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(text, start, length)).toString();
        } catch (CharacterCodingException cause) {
            throw new Malformed("not UTF-8");
        }
    }

    private Object number() throws Malformed {
        int start = at;
        if (peek() == '-') {
            at++;
        }
        int first = peek();
        int digits = digits();
        if (digits == 0 || digits > 1 && first == '0') {
            throw unexpected();
        }
        boolean whole = true;
        if (at < end && text[at] == '.') {
            whole = false;
            at++;
            if (digits() == 0) {
                throw unexpected();
            }
        }
        if (at < end && (text[at] == 'e' || text[at] == 'E')) {
            whole = false;
            at++;
            if (at < end && (text[at] == '+' || text[at] == '-')) {
                at++;
            }
            if (digits() == 0) {
                throw unexpected();
            }
        }
        String written = new String(text, start, at - start, StandardCharsets.ISO_8859_1);
        if (whole && written.length() <= LONG_DIGITS) {
            try {
                return Long.valueOf(written);
            } catch (NumberFormatException tooLarge) {
                // Just above the largest.
            }
        }
        return Double.valueOf(written);
    }

    private int digits() {
        int start = at;
        while (at < end && text[at] >= '0' && text[at] <= '9') {
            at++;
        }
        return at - start;
    }

    private Object word(String letters, Object meaning) throws Malformed {
        for (int i = 0; i < letters.length(); i++) {
            expect(letters.charAt(i));
        }
        return meaning;
    }

    private void expect(char wanted) throws Malformed {
        if (peek() != wanted) {
            throw unexpected();
        }
        at++;
    }

    private void skipSpace() {
        while (at < end && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) {
            at++;
        }
    }

    /** The next byte; above 127 it is negative, which matches no expected character. */
    private int peek() throws Malformed {
        if (at >= end) {
            throw new Malformed("JSON ends too early");
        }
        return text[at];
    }

    private void checkDepth(int depth) throws Malformed {
        if (depth > DEPTH_MAX) {
            throw new Malformed("JSON is nested deeper than " + DEPTH_MAX);
        }
    }

    private Malformed unexpected() {
        return new Malformed("bad JSON at byte " + at);
    }
}
