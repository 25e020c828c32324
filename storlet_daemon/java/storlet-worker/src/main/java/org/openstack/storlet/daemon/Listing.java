package org.openstack.storlet.daemon;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.openstack.storlet.services.Entry;
import org.openstack.storlet.services.ListQuery;

/** The entries of a listing, which reads the next page when it has returned all of the last one. */
final class Listing implements Iterator<Entry> {
    private final ServiceChannel channel;
    private final String container;
    private final ListQuery query;
    private String marker;
    private long left;
    private boolean hasMore;
    private Iterator<Object> page = List.of().iterator();

    Listing(ServiceChannel channel, String container, ListQuery query) {
        this.channel = channel;
        this.container = container;
        this.query = query;
        marker = query.marker();
        left = query.limit();
        hasMore = left > 0;
    }

    @Override
    public boolean hasNext() {
        try {
            channel.requireRun();
            while (!page.hasNext() && hasMore) {
                readPage();
            }
        } catch (IOException cause) {
            throw new UncheckedIOException(cause);
        }
        return page.hasNext();
    }

    @Override
    public Entry next() {
        if (!hasNext()) {
            throw new NoSuchElementException("the listing has ended");
        }
        Entry entry = entryOf((Map<?, ?>) page.next());
        marker = entry.name();
        return entry;
    }

    private static Entry entryOf(Map<?, ?> found) {
        if (found.get("subdir") instanceof String prefix) {
            return new Entry(prefix, -1, null, null, null, true);
        }
        return new Entry(
                (String) found.get("name"),
                found.get("bytes") instanceof Long bytes ? bytes : -1,
                text(found, "hash"),
                text(found, "content_type"),
                text(found, "last_modified"),
                false);
    }

    /** A text, or null if it is absent or empty. */
    private static String text(Map<?, ?> found, String key) {
        return found.get(key) instanceof String text && !text.isEmpty() ? text : null;
    }

    private void readPage() throws IOException {
        ServiceRequest request = new ServiceRequest("list", "list")
                .name("container", container)
                .text("prefix", query.prefix())
                .text("delimiter", query.delimiter())
                .text("marker", marker)
                .text("end_marker", query.endMarker())
                .flag("reverse", query.isReverse())
                .count("limit", left == Long.MAX_VALUE ? null : left);
        ServiceStream stream = channel.open(request);
        List<Object> entries;
        try {
            entries = parse(stream);
        } finally {
            stream.close();
        }
        if (left != Long.MAX_VALUE) {
            left = Math.max(0, left - entries.size());
        }
        hasMore = stream.reply().hasMore() && !entries.isEmpty() && left > 0;
        page = entries.iterator();
    }

    private static List<Object> parse(ServiceStream stream) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        byte[] chunk = new byte[Native.MESSAGE_MAX];
        for (int count = stream.read(chunk, 0, chunk.length); count >= 0; count = stream.read(chunk, 0, chunk.length)) {
            all.write(chunk, 0, count);
        }
        try {
            List<Object> entries = JsonReader.readArray(all.toByteArray(), all.size());
            for (Object entry : entries) {
                if (!(entry instanceof Map<?, ?> found) || text(found, "name") == null && text(found, "subdir") == null) {
                    throw new IllegalArgumentException("an entry of the listing has no name");
                }
            }
            return entries;
        } catch (JsonReader.Malformed fault) {
            throw new IllegalArgumentException("the listing is invalid: " + fault.getMessage());
        }
    }
}
