package org.openstack.storlet.csv;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.openstack.storlet.common.StorletException;

/** One condition on a row, such as {@code temperature>=20}. */
final class Condition {
    private static final Pattern SYNTAX = Pattern.compile("\\s*([^=!<>~]+?)\\s*(!=|<=|>=|=|<|>|~)\\s*(.*?)\\s*", Pattern.DOTALL);

    private final int column;
    private final String operator;
    private final String text;
    private final double number;

    private Condition(int column, String operator, String text, double number) {
        this.column = column;
        this.operator = operator;
        this.text = text;
        this.number = number;
    }

    /** Parses a condition; throws for an unknown column or an invalid number. */
    static Condition parse(String written, List<String> header) throws StorletException {
        Matcher match = SYNTAX.matcher(written);
        if (!match.matches()) {
            throw new StorletException("cannot read the condition '" + written + "': it must be column, operator, value");
        }
        String operator = match.group(2);
        String value = match.group(3);
        boolean comparesNumbers = operator.startsWith("<") || operator.startsWith(">");
        double number = comparesNumbers ? number(value) : Double.NaN;
        if (comparesNumbers && Double.isNaN(number)) {
            throw new StorletException("in '" + written + "' the value must be a number");
        }
        return new Condition(CsvStorlet.position(header, match.group(1)), operator, value, number);
    }

    boolean holds(List<String> row) {
        if (column >= row.size()) {
            return false;
        }
        String field = row.get(column);
        return switch (operator) {
            case "=" -> field.equals(text);
            case "!=" -> !field.equals(text);
            case "~" -> field.contains(text);
            // A field that is not a number is NaN, which is neither above nor below.
            case "<" -> number(field) < number;
            case "<=" -> number(field) <= number;
            case ">" -> number(field) > number;
            default -> number(field) >= number;
        };
    }

    private static double number(String text) {
        // Empty cells are common, and an exception is expensive.
        if (text.isEmpty()) {
            return Double.NaN;
        }
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException fault) {
            return Double.NaN;
        }
    }
}
