package org.openstack.storlet.services;

/**
 * An object of a listing, or with a delimiter a common prefix, which has a name only.
 *
 * @param size its bytes, or -1 if they are not known
 * @param etag null if it is not known, like the texts that follow
 */
public record Entry(String name, long size, String etag, String contentType, String lastModified, boolean isPrefix) {}
