package org.openstack.storlet.daemon;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.internal.ErrorCodes;
import org.openstack.storlet.services.LimitExceededException;

/**
 * The failure of an invocation, or of the load of the code.
 *
 * @param code one of the protocol's
 * @param message one line of at most 500 characters
 * @param traceback the tenant's frames, at most 16 KiB; may be empty
 */
record Failure(String code, String message, String traceback) {
    static final String LOAD = "storlet.load";
    static final String FAILED = "storlet.failed";
    static final String METADATA = "storlet.limit.metadata";
    static final String MEMORY = "storlet.limit.memory";
    static final String PROCESSES = "storlet.limit.processes";
    static final String SCRATCH = "storlet.limit.scratch";
    static final String SERVICES = ErrorCodes.LIMIT_SERVICES;
    static final String PROTOCOL = "protocol";

    private static final int MESSAGE_CHARACTERS = 500;
    private static final int TRACEBACK_BYTES = 16384;
    private static final int CAUSES_MAX = 16;
    private static final String TRY_AGAIN = "error=11, "; // EAGAIN, in ProcessBuilder's words
    private static final String CUT = "\n    ... cut ...\n";

    /**
     * Frames of the worker or of the reflection that starts the storlet: irrelevant to its author.
     */
    private static final String[] HIDDEN = {"org.openstack.storlet.daemon.", "org.openstack.storlet.services.", "org.openstack.storlet.secrets.", "jdk.internal.reflect.", "java.lang.reflect."};

    static Failure of(String code, String message) {
        return new Failure(code, oneLine(message), "");
    }

    /** The failure for an error {@code raised} of loading the code. */
    static Failure ofLoad(Throwable raised) {
        return of(isOutOfMemory(raised) ? MEMORY : LOAD, raised, Redaction.NONE);
    }

    /**
     * The failure for an error {@code raised} of the storlet's {@code invoke}.
     *
     * @param redaction removes the values of the run's secrets
     */
    static Failure ofRun(Throwable raised, Redaction redaction) {
        return of(codeOfRun(raised), raised, redaction);
    }

    private static String codeOfRun(Throwable raised) {
        if (isOutOfMemory(raised)) {
            return MEMORY;
        }
        if (isLimitOfServices(raised)) {
            return SERVICES;
        }
        if (isRefusedProcess(raised)) {
            return PROCESSES;
        }
        if (isOfAFullDisk(raised)) {
            return SCRATCH;
        }
        // A class or a native library that is missing shows itself only when it is first used.
        return raised instanceof LinkageError ? LOAD : FAILED;
    }

    private static Failure of(String code, Throwable raised, Redaction redaction) {
        try {
            // Before both texts are cut, which would leave a part of a value.
            String message = oneLine(redaction.text(reason(raised)));
            return new Failure(code, message, cut(redaction.text(traceback(raised))));
        } catch (OutOfMemoryError | StackOverflowError fault) {
            return of(code, raised.getClass().getName());
        }
    }

    private static boolean isOutOfMemory(Throwable raised) {
        Throwable each = raised;
        for (int i = 0; each != null && i < CAUSES_MAX; i++, each = each.getCause()) {
            if (each instanceof OutOfMemoryError) {
                return !isRefusedThread(each);
            }
        }
        return false;
    }

    /** Returns true if a request to the store exceeded a limit. */
    private static boolean isLimitOfServices(Throwable raised) {
        Throwable each = raised;
        for (int i = 0; each != null && i < CAUSES_MAX; i++, each = each.getCause()) {
            if (each instanceof LimitExceededException) {
                return true;
            }
        }
        return false;
    }

    /**
     * Returns true if the kernel refused a process or thread. Only the JDK's message shows this.
     */
    private static boolean isRefusedProcess(Throwable raised) {
        Throwable each = raised;
        for (int i = 0; each != null && i < CAUSES_MAX; i++, each = each.getCause()) {
            if (isRefusedThread(each) || each instanceof IOException && message(each).contains(TRY_AGAIN)) {
                return true;
            }
        }
        return false;
    }

    /** Returns true if a write ran out of space. A storlet can write only to its scratch space. */
    private static boolean isOfAFullDisk(Throwable raised) {
        Throwable each = raised;
        for (int i = 0; each != null && i < CAUSES_MAX; i++, each = each.getCause()) {
            String said = each instanceof IOException ? message(each) : "";
            // ENOSPC, EFBIG, EDQUOT; a FileSystemException has the name of the file before it.
            if (said.endsWith("No space left on device") || said.endsWith("File too large") || said.endsWith("Disk quota exceeded")) {
                return true;
            }
        }
        return false;
    }

    /** The JDK reports a lack of memory, but the cause is the limit on threads. */
    private static boolean isRefusedThread(Throwable raised) {
        return raised instanceof OutOfMemoryError && message(raised).startsWith("unable to create native thread");
    }

    /** Never null and never throws, even if a storlet has overridden it with a method that does. */
    private static String message(Throwable raised) {
        try {
            return String.valueOf(raised.getMessage());
        } catch (RuntimeException fault) {
            return "";
        }
    }

    /** The root cause in the storlet's own words, without the JVM's wrapper exceptions. */
    private static String reason(Throwable raised) {
        if (raised instanceof ExceptionInInitializerError && raised.getCause() != null) {
            return describe(raised.getCause());
        }
        if (isOutOfMemory(raised)) {
            return describe(raised) + " (the heap of each worker has " + (Runtime.getRuntime().maxMemory() >> 20) + " MiB)";
        }
        if (raised.getClass() == StorletException.class && raised.getMessage() != null) {
            return raised.getMessage();
        }
        return describe(raised);
    }

    /** Like {@code toString}, which a storlet may have overridden with a method that throws. */
    private static String describe(Throwable raised) {
        try {
            return String.valueOf(raised);
        } catch (RuntimeException fault) {
            return raised.getClass().getName();
        }
    }

    private static String oneLine(String text) {
        StringBuilder line = new StringBuilder();
        for (int i = 0; i < text.length() && line.length() < MESSAGE_CHARACTERS; i++) {
            char c = text.charAt(i);
            line.append(Character.isISOControl(c) || c == '\u2028' || c == '\u2029' ? ' ' : c);
        }
        return line.toString().strip();
    }

    private static String traceback(Throwable raised) {
        StringBuilder text = new StringBuilder();
        Set<Throwable> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        String prefix = "";
        for (Throwable each = raised; each != null && seen.size() < CAUSES_MAX && seen.add(each); each = each.getCause()) {
            text.append(prefix).append(describe(each)).append('\n');
            for (StackTraceElement frame : each.getStackTrace()) {
                if (!isHidden(frame.getClassName())) {
                    text.append("    at ").append(frame).append('\n');
                }
            }
            prefix = "Caused by: ";
        }
        return text.toString();
    }

    private static boolean isHidden(String className) {
        if (className.equals("java.lang.Class")) {
            return true;
        }
        for (String prefix : HIDDEN) {
            if (className.startsWith(prefix)) {
                return true;
            }
        }
        return false;
    }

    /**
     * Keeps the beginning and the end, which name error and position; drops control characters,
     * which lengthen the message.
     */
    private static String cut(String traceback) {
        StringBuilder text = new StringBuilder(traceback);
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (Character.isISOControl(c) && c != '\n' && c != '\t') {
                text.setCharAt(i, '?');
            }
        }
        byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
        if (bytes.length <= TRACEBACK_BYTES) {
            return text.toString();
        }
        int half = (TRACEBACK_BYTES - CUT.length()) / 2 - 4;
        int headEnd = characterStart(bytes, half);
        int tailStart = characterStart(bytes, bytes.length - half);
        return new String(bytes, 0, headEnd, StandardCharsets.UTF_8)
                + CUT
                + new String(bytes, tailStart, bytes.length - tailStart, StandardCharsets.UTF_8);
    }

    /** The position at or before {@code at} where a character of the UTF-8 text starts. */
    static int characterStart(byte[] utf8, int at) {
        int start = at;
        while (start > 0 && (utf8[start] & 0xc0) == 0x80) {
            start--;
        }
        return start;
    }
}
