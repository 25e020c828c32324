/** Shared by the API and the worker. It is no part of the API for authors and may change. */
package org.openstack.storlet.internal;
