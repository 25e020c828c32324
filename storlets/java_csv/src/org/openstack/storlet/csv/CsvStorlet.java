package org.openstack.storlet.csv;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;

/**
 * Chooses columns and rows of a CSV object, of a whole one or of one partition of it. The
 * parameters are those of the Python sample {@code csv_filter}, and so are the results.
 */
public class CsvStorlet implements IStorlet {
    private static final int BUFFER_BYTES = 64 * 1024;
    private static final String BYTE_ORDER_MARK = "\u00ef\u00bb\u00bf";

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        StorletObjectOutputStream target = (StorletObjectOutputStream) outStreams.get(0);
        char delimiter = delimiter(parameters.getOrDefault("delimiter", ","));
        boolean isLater = isLater(parameters.get("partition"));
        long limit = limit(parameters.get("partition_bytes"));
        try {
            CsvReader rows = new CsvReader(new PartitionReader(inStreams.get(0).getStream(), isLater, limit), delimiter);
            List<String> header = header(rows, parameters, isLater);
            int[] columns = columns(header, split(bytewise(parameters.getOrDefault("columns", "")), ","));
            List<Condition> conditions = conditions(header, bytewise(parameters.getOrDefault("where", "")));
            // All parameters are valid: from here on only the data can fail.
            Map<String, String> metadata = new HashMap<>();
            metadata.put("Content-Type", "text/csv; charset=utf-8");
            target.setMetadata(metadata);
            try (OutputStream out = new BufferedOutputStream(target.getStream(), BUFFER_BYTES)) {
                if (!isLater && !header.isEmpty()) {
                    write(out, header, columns, delimiter);
                }
                long kept = filter(rows, conditions, columns, delimiter, out);
                logger.emitLog("csv: " + kept + " rows kept");
            }
        } catch (IOException cause) {
            throw new StorletException("filtering failed: " + cause.getMessage());
        }
    }

    private static long filter(
            CsvReader rows, List<Condition> conditions, int[] columns, char delimiter, OutputStream out) throws IOException {
        long kept = 0;
        for (List<String> row = rows.next(); row != null; row = rows.next()) {
            boolean isKept = true;
            for (int i = 0; isKept && i < conditions.size(); i++) {
                isKept = conditions.get(i).holds(row);
            }
            if (isKept) {
                write(out, row, columns, delimiter);
                kept++;
            }
        }
        return kept;
    }

    private static List<String> header(CsvReader rows, Map<String, String> parameters, boolean isLater)
            throws IOException, StorletException {
        if (parameters.containsKey("header")) {
            return split(bytewise(parameters.get("header")), ",");
        }
        if (isLater) {
            throw new StorletException("a later partition has no header line: give the parameter header");
        }
        List<String> header = rows.next();
        if (header == null) {
            return List.of();
        }
        if (header.get(0).startsWith(BYTE_ORDER_MARK)) {
            header.set(0, header.get(0).substring(BYTE_ORDER_MARK.length()));
        }
        return header;
    }

    private static int[] columns(List<String> header, List<String> chosen) throws StorletException {
        int[] columns = new int[chosen.isEmpty() ? header.size() : chosen.size()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = chosen.isEmpty() ? i : position(header, chosen.get(i));
        }
        return columns;
    }

    private static List<Condition> conditions(List<String> header, String where) throws StorletException {
        List<Condition> conditions = new ArrayList<>();
        for (String written : split(where, ";")) {
            conditions.add(Condition.parse(written, header));
        }
        return conditions;
    }

    /** Index of a column; throws for an unknown name. */
    static int position(List<String> header, String name) throws StorletException {
        int position = header.indexOf(name);
        if (position < 0) {
            throw new StorletException("no column '" + readable(name) + "'; there are: " + readable(String.join(", ", header)));
        }
        return position;
    }

    private static void write(OutputStream out, List<String> row, int[] columns, char delimiter) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int i = 0; i < columns.length; i++) {
            if (i > 0) {
                line.append(delimiter);
            }
            String field = columns[i] < row.size() ? row.get(columns[i]) : "";
            // An empty line would not be a row.
            boolean isQuoted = columns.length == 1 && field.isEmpty() || needsQuotes(field, delimiter);
            line.append(isQuoted ? '"' + field.replace("\"", "\"\"") + '"' : field);
        }
        out.write(line.append('\n').toString().getBytes(StandardCharsets.ISO_8859_1));
    }

    private static boolean needsQuotes(String field, char delimiter) {
        for (int i = 0; i < field.length(); i++) {
            char c = field.charAt(i);
            if (c == delimiter || c == '"' || c == '\n' || c == '\r') {
                return true;
            }
        }
        return false;
    }

    private static List<String> split(String text, String separator) {
        List<String> parts = new ArrayList<>();
        for (String part : text.split(separator)) {
            if (!part.isBlank()) {
                parts.add(part.trim());
            }
        }
        return parts;
    }

    private static char delimiter(String text) throws StorletException {
        if (text.length() != 1 || text.charAt(0) > 127 || text.charAt(0) == '"' || text.charAt(0) == '\n' || text.charAt(0) == '\r') {
            throw new StorletException("delimiter must be one ASCII character, not '" + text + "'");
        }
        return text.charAt(0);
    }

    private static boolean isLater(String partition) throws StorletException {
        if (partition != null && !partition.equals("first") && !partition.equals("later")) {
            throw new StorletException("partition must be first or later, not '" + partition + "'");
        }
        return "later".equals(partition);
    }

    private static long limit(String text) throws StorletException {
        try {
            return text == null ? Long.MAX_VALUE : Long.parseLong(text);
        } catch (NumberFormatException fault) {
            throw new StorletException("partition_bytes must be a whole number, not '" + text + "'");
        }
    }

    /** Text of a parameter in the form of fields: one character per byte of its UTF-8. */
    private static String bytewise(String text) {
        return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1);
    }

    private static String readable(String bytewise) {
        return new String(bytewise.getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8);
    }
}
