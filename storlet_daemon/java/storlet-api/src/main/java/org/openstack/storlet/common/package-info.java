/**
 * The API for authors of Java storlets: implement {@link org.openstack.storlet.common.IStorlet},
 * read from the {@link org.openstack.storlet.common.StorletInputStream}s, write to the {@link
 * org.openstack.storlet.common.StorletOutputStream}.
 *
 * <p>Names, signatures and the descriptor based constructors are those of OpenStack Storlets, so
 * that jars compiled against its API run unchanged. The classes here work on plain descriptors
 * without a sandbox; inside the sandbox the worker passes subclasses that use its protocol.
 */
package org.openstack.storlet.common;
