/**
 * The Java worker: a resident process that loads one storlet and runs it for one invocation at a
 * time. The protocol that it speaks, version 1, is described in {@code
 * storlet_daemon/protocol/PROTOCOL.rst}.
 */
package org.openstack.storlet.daemon;
