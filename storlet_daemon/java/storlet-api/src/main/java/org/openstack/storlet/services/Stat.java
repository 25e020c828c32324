package org.openstack.storlet.services;

import java.util.Map;

/**
 * The facts about an object. A text that a rule withholds is null.
 *
 * @param metadata user metadata, without the prefix {@code X-Object-Meta-}
 * @param size its bytes, or -1 if they are not known
 * @param lastModified the time of the last change, as HTTP writes it
 */
public record Stat(Map<String, String> metadata, long size, String etag, String contentType, String lastModified) {}
