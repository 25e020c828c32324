package org.openstack.storlet.daemon;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;

/**
 * Notices threads that a storlet has started in an invocation and left running. Threads that it made while it was loaded belong to it
 * for good, and daemon threads are taken for pools that wait.
 */
final class ThreadWatch {
    private final ThreadGroup root;
    private final Set<Thread> known = Collections.newSetFromMap(new IdentityHashMap<>());
    private int count;

    /** Knows the threads that run now. */
    ThreadWatch() {
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        while (group.getParent() != null) {
            group = group.getParent();
        }
        root = group;
        Collections.addAll(known, running());
        count = root.activeCount();
    }

    /** Does a thread run that is neither known nor a daemon? Cheap as long as their number stays the same. */
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
        // Twice the estimate, because enumerate() drops silently what does not fit.
        Thread[] threads = new Thread[2 * root.activeCount() + 8];
        root.enumerate(threads);
        return threads;
    }
}
