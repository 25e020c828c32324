/**
 * The store, for a running storlet: see {@link org.openstack.storlet.services.Services}.
 *
 * <p>A storlet declares the services that it uses: {@code X-Object-Meta-Storlet-Services: read,
 * write}. Paths are {@code /container/object}, always of the account of the request. Each operation
 * is a request of the caller, with the caller's rights and the account's rules.
 */
package org.openstack.storlet.services;
