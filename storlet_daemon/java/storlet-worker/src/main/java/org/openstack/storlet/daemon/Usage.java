package org.openstack.storlet.daemon;

import java.util.List;
import org.openstack.storlet.common.SeekableStorletInputStream;
import org.openstack.storlet.common.StorletInputStream;

/**
 * The resources that an invocation has used.
 *
 * @param cpuMicroseconds of this process and its ended children
 * @param peakMemoryBytes the peak of this process since its start
 * @param inputBytes read from files in which the storlet seeks; -1 without any
 */
record Usage(long cpuMicroseconds, long peakMemoryBytes, long inputBytes) {
    /** The usage of this process since its start. */
    static Usage now() {
        long[] values = new long[2];
        Native.usage(values);
        return new Usage(values[0], values[1], -1);
    }

    /** The usage of a run, which began with {@code before} and has these inputs. */
    Usage since(Usage before, List<StorletInputStream> inputs) {
        long read = -1;
        for (StorletInputStream input : inputs) {
            if (input instanceof SeekableStorletInputStream seekable && seekable.bytesReadFromFile() >= 0) {
                read = Math.max(read, 0) + seekable.bytesReadFromFile();
            }
        }
        return new Usage(cpuMicroseconds - before.cpuMicroseconds, peakMemoryBytes, read);
    }
}
