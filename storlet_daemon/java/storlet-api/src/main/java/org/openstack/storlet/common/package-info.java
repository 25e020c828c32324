/**
 * What the author of a Java storlet sees: implement {@link org.openstack.storlet.common.IStorlet}, read from the {@link
 * org.openstack.storlet.common.StorletInputStream}s, write to the {@link org.openstack.storlet.common.StorletOutputStream}.
 *
 * <p>Names, signatures and the descriptor based constructors are those of OpenStack Storlets, so that jars compiled against its API
 * run unaltered. The classes here work on plain descriptors and know nothing of the sandbox; inside the sandbox the worker hands
 * out subclasses that speak its protocol.
 */
package org.openstack.storlet.common;
