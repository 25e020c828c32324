package org.openstack.storlet.services;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;

import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Map;
import org.junit.After;
import org.junit.Test;

/** The services as an author's own tests would use them: with a subclass. */
public class ServicesTest {
    /** Knows one object, and records what is opened. */
    private static final class OneObject extends Services {
        private String opened = "";

        static void become(Services services) {
            setCurrent(services);
        }

        @Override
        protected StoredInputStream openPart(String path, Long first, Long last) {
            opened += path + " " + first + "-" + last + "; ";
            return null;
        }

        @Override
        public Stat stat(String path) {
            return new Stat(Map.of("a", "b"), 3, null, null, null);
        }

        @Override
        public Iterable<Entry> list(String container, ListQuery query) {
            return List.of(new Entry(container + query.prefix(), 3, null, null, null, false));
        }

        @Override
        public void setMetadata(String path, Map<String, String> changes) {}

        @Override
        public StoredInputStream call(StorletCall call) {
            opened += call.storlet() + " " + call.path() + " " + call.ranges() + "; ";
            return null;
        }

        @Override
        public StoredInputStream call(StorletCall call, InputStream data) throws IOException {
            opened += call.storlet() + " " + call.path() + " " + new String(data.readAllBytes()) + "; ";
            return null;
        }

        @Override
        public Stat callInto(StorletCall call, String output) {
            return null;
        }

        @Override
        public Stat callInto(StorletCall call, InputStream data, String output) {
            return null;
        }

        @Override
        public StoredOutputStream create(String path, CreateOptions options) {
            opened += path + " " + options.contentType() + "; ";
            return null;
        }

        @Override
        public void copy(String source, String target) {}

        @Override
        public void delete(String path) {}
    }

    @After
    public void endRun() {
        OneObject.become(null);
    }

    @Test
    public void aRunWithoutServicesHasNone() {
        DeniedException refusal = assertThrows(DeniedException.class, Services::current);
        assertEquals("services.none", refusal.code());
        assertEquals(403, refusal.status());
    }

    @Test
    public void theThreadOfTheRunHasItsServices() throws Exception {
        OneObject services = new OneObject();
        OneObject.become(services);
        assertSame(services, Services.current());
        assertEquals("c", services.list("c").iterator().next().name());
    }

    @Test
    public void anotherThreadUsesTheObject() throws Exception {
        OneObject.become(new OneObject());
        Throwable[] raised = new Throwable[1];
        Thread other = new Thread(() -> {
            try {
                Services.current();
            } catch (Exception refusal) {
                raised[0] = refusal;
            }
        });
        other.start();
        other.join();
        assertEquals(IllegalStateException.class, raised[0].getClass());
    }

    @Test
    public void aRangeHasOneEndOrTwo() throws ServiceException {
        OneObject services = new OneObject();
        services.open("/c/o");
        services.open("/c/o", 5);
        services.open("/c/o", 5, 9);
        assertEquals("/c/o null-null; /c/o 5-null; /c/o 5-9; ", services.opened);
    }

    @Test
    public void aCallHasParametersAndRanges() throws IOException {
        StorletCall call = StorletCall.of("up.py", "/c/o").withParameter("a", "b").withRange(0, 9).withRange(20);
        assertEquals(Map.of("a", "b"), call.parameters());
        assertEquals(List.of(new StorletCall.Range(0, 9L), new StorletCall.Range(20, null)), call.ranges());
        OneObject services = new OneObject();
        services.call("up.py", "/c/o");
        services.call(StorletCall.of("up.py"), "data".getBytes());
        assertEquals("up.py /c/o []; up.py null data; ", services.opened);
    }

    @Test
    public void anObjectIsCreatedWithOptions() throws ServiceException {
        OneObject services = new OneObject();
        services.create("/c/o");
        CreateOptions options = CreateOptions.NONE.withContentType("text/x").withDeleteAfter(60).withMetadata(Map.of("a", "b"));
        assertEquals(new CreateOptions("text/x", Map.of("a", "b"), 60L), options);
        services.create("/c/p", options);
        assertEquals("/c/o null; /c/p text/x; ", services.opened);
    }

    @Test
    public void aFailureHasTheExceptionOfItsReason() {
        assertEquals(LimitExceededException.class, ServiceException.of("", "storlet.limit.services", 422, null).getClass());
        assertEquals(ChangedException.class, ServiceException.of("", "services.changed", 412, null).getClass());
        assertEquals(DeniedException.class, ServiceException.of("", "access.denied", 403, null).getClass());
        assertEquals(DeniedException.class, ServiceException.of("", "", 401, null).getClass());
        assertEquals(NotFoundException.class, ServiceException.of("", "input.not_found", 404, null).getClass());
        assertEquals(UnavailableException.class, ServiceException.of("", "backend.failed", 503, null).getClass());
        assertEquals(UnavailableException.class, ServiceException.of("", "", 429, null).getClass());
        assertEquals(ServiceException.class, ServiceException.of("", "bad_request", 400, null).getClass());
        CallFailedException failed = (CallFailedException) ServiceException.of("", "storlet.limit.services", 422, "up.py");
        assertEquals("up.py", failed.storlet());
        assertEquals("no", ServiceException.of("no", "", 404, null).getMessage());
    }

    @Test
    public void aQueryIsMadeFromAllObjects() {
        ListQuery query = ListQuery.ALL.withPrefix("p").withDelimiter("/").withMarker("a").withEndMarker("z");
        assertEquals(new ListQuery("p", "/", "a", "z", true, 7), query.reversed().withLimit(7));
        assertThrows(IllegalArgumentException.class, () -> query.withLimit(-1));
    }
}
