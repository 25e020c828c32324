package org.openstack.storlet.daemon;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * Removes the values of a run's secrets from texts about it, before these are cut.
 *
 * <p>A value is found as it is, and in the forms that programs print: hexadecimal digits, base64,
 * the quoting of URLs, the text of JSON, and numbers with commas. So are a line of a value of
 * several lines, and the start of a form. The filter removes the same from complete texts.
 */
final class Redaction {
    static final Redaction NONE = new Redaction(List.of());

    private static final String HIDDEN = "[secret]";

    /** Shorter forms would be found in texts that have nothing to do with them. */
    private static final int LEAST = 8;

    /** The same for lines and starts of forms: a value has many of them. */
    private static final int LEAST_PART = 16;

    private final List<String> forms;

    Redaction(Collection<byte[]> values) {
        Set<String> found = new LinkedHashSet<>();
        for (byte[] value : values) {
            addForms(found, value);
        }
        forms = new ArrayList<>(found);
        // The longest first: a form may be a part of another.
        forms.sort(Comparator.comparingInt(String::length).reversed());
    }

    /** {@code text} with a mark in place of each value, and of each start of one. */
    String text(String text) {
        String left = text;
        for (String form : forms) {
            left = left.replace(form, HIDDEN);
        }
        for (String form : forms) {
            if (form.length() > LEAST_PART) {
                left = withoutBegins(left, form);
            }
        }
        return left;
    }

    private static String withoutBegins(String text, String form) {
        String begin = form.substring(0, LEAST_PART);
        int found = text.indexOf(begin);
        if (found < 0) {
            return text;
        }
        StringBuilder left = new StringBuilder();
        int position = 0;
        for (; found >= 0; found = text.indexOf(begin, position)) {
            left.append(text, position, found).append(HIDDEN);
            position = found + common(text, found, form);
        }
        return left.append(text, position, text.length()).toString();
    }

    /** The length of the longest common prefix of {@code form} and the text from {@code from}. */
    private static int common(String text, int from, String form) {
        int length = 0;
        while (length < form.length() && from + length < text.length()
                && text.charAt(from + length) == form.charAt(length)) {
            length++;
        }
        return length;
    }

    private static void addForms(Set<String> found, byte[] value) {
        // The bytes as characters, and as the text that they are in UTF-8.
        for (String text : List.of(latin(value), new String(value, StandardCharsets.UTF_8))) {
            for (String each : List.of(text, text.strip())) {
                add(found, each, LEAST);
                add(found, json(each), LEAST);
            }
            for (String line : text.split("\\R")) {
                add(found, line.strip(), LEAST_PART);
            }
        }
        for (byte[] each : List.of(value, latin(value).strip().getBytes(StandardCharsets.ISO_8859_1))) {
            add(found, digits(each, "0123456789abcdef"), LEAST);
            add(found, digits(each, "0123456789ABCDEF"), LEAST);
            add(found, Base64.getEncoder().withoutPadding().encodeToString(each), LEAST);
            add(found, Base64.getUrlEncoder().withoutPadding().encodeToString(each), LEAST);
            String quoted = URLEncoder.encode(latin(each), StandardCharsets.ISO_8859_1);
            add(found, quoted, LEAST);
            add(found, quoted.replace("+", "%20"), LEAST);
            String numbers = Arrays.toString(each);
            add(found, numbers.substring(1, numbers.length() - 1), LEAST);
        }
    }

    private static void add(Set<String> found, String form, int least) {
        if (form.length() >= least) {
            found.add(form);
        }
    }

    private static String latin(byte[] value) {
        return new String(value, StandardCharsets.ISO_8859_1);
    }

    private static String json(String text) {
        JsonWriter quoted = new JsonWriter().string(text);
        return new String(quoted.bytes(), 1, quoted.length() - 2, StandardCharsets.UTF_8);
    }

    private static String digits(byte[] value, String alphabet) {
        StringBuilder text = new StringBuilder(2 * value.length);
        for (byte each : value) {
            text.append(alphabet.charAt(each >> 4 & 15)).append(alphabet.charAt(each & 15));
        }
        return text.toString();
    }
}
