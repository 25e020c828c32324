package org.openstack.storlet.daemon;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.junit.Test;
import org.openstack.storlet.services.NotFoundException;
import org.openstack.storlet.services.ServiceException;
import org.openstack.storlet.services.Stat;

public class ServiceMessagesTest {
    private static ServiceRequest request() {
        return new ServiceRequest("open", "read");
    }

    private static String written(ServiceRequest request) throws ServiceException {
        JsonWriter writer = new JsonWriter();
        request.write(writer, 7);
        return new String(writer.bytes(), 0, writer.length(), StandardCharsets.UTF_8).replace('"', '\'');
    }

    private interface Build {
        Object run() throws ServiceException;
    }

    private static void refused(String text, Build build) {
        ServiceException refusal = assertThrows(ServiceException.class, build::run);
        assertEquals("bad_request", refusal.code());
        assertEquals(400, refusal.status());
        assertEquals("open: " + text, refusal.getMessage());
    }

    @Test
    public void aRequestHasTheFieldsThatAreGiven() throws ServiceException {
        assertEquals(
                "{'type':'open','id':7,'path':'/c/ö','start':0,'reverse':true}",
                written(request().name("path", "/c/ö").count("start", 0L).count("end", null).text("etag", "").flag("reverse", true)));
        Map<String, String> changes = new HashMap<>(Collections.singletonMap("a", null));
        assertEquals("{'type':'open','id':7,'changes':{'a':''}}", written(request().texts("changes", changes)));
    }

    @Test
    public void aRequestThatViolatesTheProtocolIsRefused() {
        refused("path is missing", () -> request().name("path", null));
        refused("path is not text of at least one character", () -> request().name("path", ""));
        refused("path is not text of at least one character", () -> request().name("path", "a\0"));
        refused("path has half of a surrogate pair", () -> request().name("path", "a\ud83d"));
        refused("start is not a whole number from 0", () -> request().count("start", -1L));
        refused("changes has half of a surrogate pair", () -> request().texts("changes", Map.of("a", "\udc00")));
        refused("changes has a name that is null", () -> request().texts("changes", Collections.singletonMap(null, "x")));
        refused("the message has 65568 bytes, more than 65536", () -> written(request().name("path", "x".repeat(65536))));
    }

    private static ServiceReply reply(String text, int count) throws ProtocolError {
        byte[] bytes = text.replace('\'', '"').getBytes(StandardCharsets.UTF_8);
        return ServiceReply.parse(bytes, bytes.length, new int[] {count, 100, 101});
    }

    @Test
    public void factsThatAreAbsentAreNotKnown() throws ProtocolError {
        ServiceReply reply = reply("{'type':'opened','id':1,'facts':{'metadata':{'k':'v'}},'has_more':true}", 1);
        assertEquals(new Stat(Map.of("k", "v"), -1, null, null, null), reply.facts());
        assertEquals(100, reply.descriptor());
        assertTrue(reply.hasMore());
        assertFalse(reply.isEnd());
        Stat stat = reply("{'type':'described','id':1,'facts':{'size':5,'etag':'e','content_type':'t','last_modified':'l'}}", 0).facts();
        assertEquals(new Stat(Map.of(), 5, "e", "t", "l"), stat);
        assertNull(reply("{'type':'performed','id':1,'facts':null}", 0).facts().etag());
    }

    @Test
    public void aFailureIsAnException() throws ProtocolError {
        ServiceReply reply = reply("{'type':'failed','id':3,'code':'input.not_found','status':404,'message':'no'}", 0);
        assertTrue(reply.isFailure());
        assertEquals(NotFoundException.class, reply.refusal().exception().getClass());
        assertFalse(reply.isEnd());
        assertEquals(12, reply("{'type':'ended','id':1,'bytes':12}", 0).bytes());
    }

    @Test
    public void anyOtherMessageIsRefused() {
        String[] messages = {
            "garbage",
            "[]",
            "{'id':1}",
            "{'type':'invoke','id':1}",
            "{'type':'described'}",
            "{'type':'described','id':'1'}",
            "{'type':'described','id':-1}",
            "{'type':'described','id':1,'facts':'none'}",
            "{'type':'described','id':1,'facts':{'size':-1}}",
            "{'type':'described','id':1,'facts':{'etag':1}}",
            "{'type':'described','id':1,'facts':{'metadata':{'k':1}}}",
            "{'type':'described','id':1,'has_more':1}",
            "{'type':'opened','id':1}",
            "{'type':'ended','id':1}",
            "{'type':'failed','id':1,'code':'','status':403,'message':'no'}",
            "{'type':'failed','id':1,'code':'a','message':'no'}",
            "{'type':'failed','id':1,'code':'a','status':403}",
        };
        for (String message : messages) {
            assertThrows(message, ProtocolError.class, () -> reply(message, 0));
        }
        assertThrows(ProtocolError.class, () -> reply("{'type':'opened','id':1}", 2));
        assertThrows(ProtocolError.class, () -> reply("{'type':'described','id':1}", 1));
    }
}
