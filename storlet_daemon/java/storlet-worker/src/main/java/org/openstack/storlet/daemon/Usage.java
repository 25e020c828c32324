package org.openstack.storlet.daemon;

/**
 * What an invocation has cost.
 *
 * @param cpuMicroseconds of this process and its ended children
 * @param peakMemoryBytes the most that this process has ever held
 */
record Usage(long cpuMicroseconds, long peakMemoryBytes) {
    /** What this process has used up to now. */
    static Usage now() {
        long[] values = new long[2];
        Native.usage(values);
        return new Usage(values[0], values[1]);
    }

    Usage since(Usage before) {
        return new Usage(cpuMicroseconds - before.cpuMicroseconds, peakMemoryBytes);
    }
}
