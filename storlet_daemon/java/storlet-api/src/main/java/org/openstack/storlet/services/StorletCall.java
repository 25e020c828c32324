package org.openstack.storlet.services;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A call of another storlet, which {@link Services#call(StorletCall)} sends:
 *
 * <pre>StorletCall.of("thumbnail-1.0.jar", "/photos/cat.jpg").withParameter("width", "100")</pre>
 *
 * @param storlet one of the account, or of the system library ({@code std:grep})
 * @param path of the object that it reads; null for a call on data
 * @param parameters of the called storlet
 * @param ranges the parts of the object that it reads, each an input; none for the whole object
 */
public record StorletCall(String storlet, String path, Map<String, String> parameters, List<Range> ranges) {
    /**
     * A part of an object.
     *
     * @param first position of the first byte
     * @param last position of the last byte; null for the end of the object
     */
    public record Range(long first, Long last) {}

    /** A call without parameters on data, which {@link Services#call(StorletCall, byte[])} gets. */
    public static StorletCall of(String storlet) {
        return of(storlet, null);
    }

    /** A call without parameters, on a whole object. */
    public static StorletCall of(String storlet, String path) {
        return new StorletCall(storlet, path, Map.of(), List.of());
    }

    public StorletCall withParameter(String name, String value) {
        Map<String, String> more = new LinkedHashMap<>(parameters);
        more.put(name, value);
        return new StorletCall(storlet, path, more, ranges);
    }

    /** With one more part of the object, to its end. */
    public StorletCall withRange(long first) {
        return withRange(new Range(first, null));
    }

    /** With one more part of the object; {@code last} is in it. */
    public StorletCall withRange(long first, long last) {
        return withRange(new Range(first, last));
    }

    private StorletCall withRange(Range range) {
        List<Range> more = new ArrayList<>(ranges);
        more.add(range);
        return new StorletCall(storlet, path, parameters, more);
    }
}
