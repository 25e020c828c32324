package org.openstack.storlet.services;

import java.util.Map;

/**
 * The properties of an object that is created. They are made from {@link #NONE}:
 *
 * <pre>services.create("/index/names", CreateOptions.NONE.withContentType("text/plain"))</pre>
 *
 * @param contentType null for the one of the object's name
 * @param metadata user metadata, without the prefix {@code X-Object-Meta-}
 * @param deleteAfterSeconds the time until Swift deletes it; null for never
 */
public record CreateOptions(String contentType, Map<String, String> metadata, Long deleteAfterSeconds) {
    /** The content type of the name, no metadata, and no end. */
    public static final CreateOptions NONE = new CreateOptions(null, Map.of(), null);

    public CreateOptions withContentType(String type) {
        return new CreateOptions(type, metadata, deleteAfterSeconds);
    }

    public CreateOptions withMetadata(Map<String, String> items) {
        return new CreateOptions(contentType, items, deleteAfterSeconds);
    }

    public CreateOptions withDeleteAfter(long seconds) {
        return new CreateOptions(contentType, metadata, seconds);
    }
}
