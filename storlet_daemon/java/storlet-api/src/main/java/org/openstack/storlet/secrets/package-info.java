/**
 * Secrets of the account, for a running storlet: see {@link
 * org.openstack.storlet.secrets.Secrets}.
 *
 * <p>A storlet declares the secrets that it uses: {@code X-Object-Meta-Storlet-Secrets: mac-key}.
 */
package org.openstack.storlet.secrets;
