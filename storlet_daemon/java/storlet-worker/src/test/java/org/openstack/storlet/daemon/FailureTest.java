package org.openstack.storlet.daemon;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.junit.Test;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.services.ServiceException;

public class FailureTest {
    private static Failure ofRun(Throwable raised) {
        return Failure.ofRun(raised, Redaction.NONE);
    }

    private static StackTraceElement frame(String className) {
        return new StackTraceElement(className, "m", "F.java", 1);
    }

    @Test
    public void aStorletExceptionSpeaksForItself() {
        Failure failure = ofRun(new StorletException("no such\ncolumn\u0007"));
        assertEquals(Failure.FAILED, failure.code());
        assertEquals("no such column", failure.message());
    }

    @Test
    public void anyOtherExceptionSaysWhatItIs() {
        assertEquals("java.lang.IllegalStateException: x", ofRun(new IllegalStateException("x")).message());
        assertEquals(Failure.FAILED, ofRun(new StackOverflowError()).code());
    }

    @Test
    public void memoryIsALimitAlsoWhenItIsWrapped() {
        assertEquals(Failure.MEMORY, ofRun(new OutOfMemoryError("Java heap space")).code());
        assertEquals(Failure.MEMORY, ofRun(new RuntimeException(new OutOfMemoryError())).code());
        String message = ofRun(new OutOfMemoryError("Java heap space")).message();
        assertTrue(message, message.matches("java.lang.OutOfMemoryError: Java heap space .the heap of each worker has \\d+ MiB."));
    }

    @Test
    public void aProcessOrThreadThatIsRefusedIsALimitToo() {
        OutOfMemoryError thread = new OutOfMemoryError("unable to create native thread: possibly out of memory");
        assertEquals(Failure.PROCESSES, ofRun(thread).code());
        IOException process = new IOException("Cannot run program \"x\": error=11, Resource temporarily unavailable");
        assertEquals(Failure.PROCESSES, ofRun(new RuntimeException(process)).code());
        assertEquals(Failure.FAILED, ofRun(new IOException("Cannot run program \"x\": error=2, No such file")).code());
    }

    @Test
    public void aFullDiskIsTheLimitOfTheScratchSpace() {
        for (String text : new String[] {"File too large", "No space left on device", "/tmp/x: No space left on device"}) {
            assertEquals(Failure.SCRATCH, ofRun(new IOException(text)).code());
            assertEquals(Failure.SCRATCH, ofRun(new RuntimeException(new IOException(text))).code());
            assertEquals(Failure.FAILED, ofRun(new RuntimeException(text)).code());
        }
    }

    @Test
    public void aLimitOfTheServicesIsNamedAlsoWhenItIsWrapped() {
        ServiceException limit = ServiceException.of("more than 2 operations", "storlet.limit.services", 422, null);
        assertEquals(Failure.SERVICES, ofRun(new UncheckedIOException(limit)).code());
        ServiceException refusal = ServiceException.of("no", "access.denied", 403, null);
        assertEquals(Failure.FAILED, ofRun(new UncheckedIOException(refusal)).code());
    }

    @Test
    public void whatIsMissingOnFirstUseWasNotLoaded() {
        assertEquals(Failure.LOAD, ofRun(new NoClassDefFoundError("a/B")).code());
        assertEquals(Failure.LOAD, Failure.ofLoad(new IllegalStateException()).code());
    }

    @Test
    public void onlyTheTenantsFramesAreShown() {
        Exception raised = new Exception("x", new Exception("cause"));
        raised.setStackTrace(new StackTraceElement[] {
            frame("tenant.Storlet"), frame("java.util.ArrayList"), frame("org.openstack.storlet.daemon.Worker"),
        });
        raised.getCause().setStackTrace(new StackTraceElement[] {frame("tenant.Helper"), frame("jdk.internal.reflect.X")});
        assertEquals(
                "java.lang.Exception: x\n    at tenant.Storlet.m(F.java:1)\n    at java.util.ArrayList.m(F.java:1)\n"
                        + "Caused by: java.lang.Exception: cause\n    at tenant.Helper.m(F.java:1)\n",
                ofRun(raised).traceback());
    }

    @Test
    public void aCircleOfCausesEnds() {
        Exception first = new Exception("first");
        Exception second = new Exception("second", first);
        first.initCause(second);
        assertTrue(ofRun(first).traceback().contains("Caused by: java.lang.Exception: second"));
    }

    @Test
    public void lengthsAreBounded() {
        Failure failure = ofRun(new RuntimeException("é\u0001".repeat(100_000)));
        assertTrue(failure.message().length() <= 500);
        byte[] traceback = failure.traceback().getBytes(StandardCharsets.UTF_8);
        assertTrue(traceback.length > 16000 && traceback.length <= 16384);
        assertFalse(failure.traceback().contains("\ufffd"));
        assertTrue(failure.traceback().endsWith(")\n"));
    }

    @Test
    public void anExceptionThatCannotDescribeItselfIsNamed() {
        RuntimeException hostile = new RuntimeException() {
            private static final long serialVersionUID = 1L;

            @Override
            public String toString() {
                throw new IllegalStateException();
            }
        };
        assertEquals(hostile.getClass().getName(), ofRun(hostile).message());
    }
}
