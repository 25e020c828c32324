package org.openstack.storlet.csv;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * Splits bytes into rows of fields: quotes protect delimiters, line breaks and (doubled) quotes.
 *
 * <p>A field is a string with one character per byte. So no decoding is needed, invalid UTF-8 is
 * preserved, and comparing two fields compares their UTF-8.
 */
final class CsvReader {
    private static final int END = -1;

    private final PartitionReader source;
    private final int delimiter;
    private final StringBuilder field = new StringBuilder();
    private int pushedBack = Integer.MIN_VALUE;

    CsvReader(PartitionReader source, char delimiter) {
        this.source = source;
        this.delimiter = delimiter;
    }

    /** The next row that is not empty, or null at the end. */
    List<String> next() throws IOException {
        int b = read();
        while (b == '\n' || b == '\r') {
            b = read();
        }
        if (b == END) {
            return null;
        }
        pushedBack = b;
        List<String> row = new ArrayList<>();
        do {
            b = readField();
            row.add(field.toString());
        } while (b == delimiter);
        return row;
    }

    /** Reads one field and returns the byte that ended it. */
    private int readField() throws IOException {
        field.setLength(0);
        int b = read();
        if (b == '"') {
            readQuoted();
            b = read();
        }
        while (b != delimiter && b != '\n' && b != '\r' && b != END) {
            field.append((char) b);
            b = read();
        }
        return b;
    }

    private void readQuoted() throws IOException {
        for (int b = read(); b != END; b = read()) {
            if (b == '"') {
                int after = read();
                if (after != '"') {
                    pushedBack = after;
                    return;
                }
            }
            field.append((char) b);
        }
    }

    private int read() throws IOException {
        if (pushedBack != Integer.MIN_VALUE) {
            int b = pushedBack;
            pushedBack = Integer.MIN_VALUE;
            return b;
        }
        return source.read();
    }
}
