package org.openstack.storlet.daemon;

/**
 * The resources that an invocation has used.
 *
 * @param cpuMicroseconds of this process and its ended children
 * @param peakMemoryBytes the peak of this process since its start
 */
record Usage(long cpuMicroseconds, long peakMemoryBytes) {
    /** The usage of this process since its start. */
    static Usage now() {
        long[] values = new long[2];
        Native.usage(values);
        return new Usage(values[0], values[1]);
    }

    Usage since(Usage before) {
        return new Usage(cpuMicroseconds - before.cpuMicroseconds, peakMemoryBytes);
    }
}
