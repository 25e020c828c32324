package org.openstack.storlet.services;

/**
 * The part of a container that is listed. It is made from {@link #ALL}:
 *
 * <pre>services.list("photos", ListQuery.ALL.withPrefix("2026/").withDelimiter("/"))</pre>
 *
 * @param prefix of the names
 * @param delimiter names are rolled up to the first one after the prefix; may be empty
 * @param marker names after this one
 * @param endMarker names before this one
 * @param isReverse from the last name to the first
 * @param limit most entries
 */
public record ListQuery(
        String prefix, String delimiter, String marker, String endMarker, boolean isReverse, long limit) {
    /** All objects of a container, in the order of their names. */
    public static final ListQuery ALL = new ListQuery("", "", "", "", false, Long.MAX_VALUE);

    public ListQuery {
        if (limit < 0) {
            throw new IllegalArgumentException("negative limit " + limit);
        }
    }

    public ListQuery withPrefix(String text) {
        return new ListQuery(text, delimiter, marker, endMarker, isReverse, limit);
    }

    public ListQuery withDelimiter(String text) {
        return new ListQuery(prefix, text, marker, endMarker, isReverse, limit);
    }

    public ListQuery withMarker(String name) {
        return new ListQuery(prefix, delimiter, name, endMarker, isReverse, limit);
    }

    public ListQuery withEndMarker(String name) {
        return new ListQuery(prefix, delimiter, marker, name, isReverse, limit);
    }

    /** From the last name to the first. */
    public ListQuery reversed() {
        return new ListQuery(prefix, delimiter, marker, endMarker, true, limit);
    }

    public ListQuery withLimit(long entries) {
        return new ListQuery(prefix, delimiter, marker, endMarker, isReverse, entries);
    }
}
