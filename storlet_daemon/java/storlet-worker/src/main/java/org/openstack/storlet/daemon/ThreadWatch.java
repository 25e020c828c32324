package org.openstack.storlet.daemon;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;

/**
 * Detects threads that a storlet has started in an invocation and left running. Threads that it
 * created while it was loaded may stay, and daemon threads are treated as idle pools.
 */
final class ThreadWatch {
    private final ThreadGroup root;
    private final Set<Thread> known = Collections.newSetFromMap(new IdentityHashMap<>());
    private int count;

    /** Records the running threads. */
    ThreadWatch() {
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        while (group.getParent() != null) {
            group = group.getParent();
        }
        root = group;
        Collections.addAll(known, running());
        count = root.activeCount();
    }

    /**
     * Returns true if a thread runs that is neither known nor a daemon. Cheap while the number is
     * constant.
     */
    boolean hasLeftOver() {
        int now = root.activeCount();
        if (now == count) {
            return false;
        }
        count = now;
        for (Thread thread : running()) {
            if (thread != null && thread.isAlive() && !thread.isDaemon() && !known.contains(thread)) {
                return true;
            }
        }
        return false;
    }

    private Thread[] running() {
        // Twice the estimate, because enumerate() silently drops threads that do not fit.
        Thread[] threads = new Thread[2 * root.activeCount() + 8];
        root.enumerate(threads);
        return threads;
    }
}
