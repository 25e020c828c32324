package org.openstack.storlet.daemon;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.junit.Test;

public class InvocationTest {
    private static Invocation parse(String text, int count) throws ProtocolError {
        int[] descriptors = new int[1 + Native.DESCRIPTORS_MAX];
        descriptors[0] = count;
        for (int i = 1; i <= count; i++) {
            descriptors[i] = 100 + i;
        }
        byte[] bytes = text.replace('\'', '"').getBytes(StandardCharsets.UTF_8);
        return Invocation.parse(bytes, bytes.length, descriptors);
    }

    private static void refused(String text, int count) {
        assertThrows(text, ProtocolError.class, () -> parse(text, count));
    }

    private static String invoke(String rest) {
        return "{'v':1,'type':'invoke','id':'tx-1'," + rest + "}";
    }

    @Test
    public void theShortestInvocationHasDefaults() throws ProtocolError {
        Invocation invocation = parse(invoke("'inputs':[{'fd':0}],'output':{'fd':1}"), 2);
        assertEquals("tx-1", invocation.id());
        assertEquals(Map.of(), invocation.parameters());
        assertEquals(101, invocation.inputs().get(0).descriptor());
        assertEquals(-1, invocation.inputs().get(0).start());
        assertEquals(List.of(102), invocation.outputs());
        assertNull(invocation.log());
        assertEquals(4096, invocation.metadataBytes());
        assertNull(invocation.services());
    }

    @Test
    public void aFullInvocationIsRead() throws ProtocolError {
        String inputs = "'inputs':[{'fd':3,'metadata':{'k':'v'},'start':10,'end':20},{'fd':1,'end':5},{'fd':4,'start':7}]";
        Invocation invocation = parse(
                invoke(inputs + ",'parameters':{'p':'q'},'output':{'fd':0},'log':{'fd':2,'limit':99},'limits':{'metadata_bytes':7}"), 5);
        assertEquals(Map.of("p", "q"), invocation.parameters());
        assertEquals(new Invocation.Input(104, invocation.inputs().get(0).metadata(), 10, 20, null, -1), invocation.inputs().get(0));
        assertEquals(Map.of("k", "v"), invocation.inputs().get(0).metadata());
        assertEquals(0, invocation.inputs().get(1).start());
        assertEquals(5, invocation.inputs().get(1).end());
        assertEquals(Long.MAX_VALUE, invocation.inputs().get(2).end());
        assertEquals(new Invocation.Log(103, 99), invocation.log());
        assertEquals(7, invocation.metadataBytes());
    }

    @Test
    public void furtherOutputsFollowTheFirst() throws ProtocolError {
        Invocation invocation = parse(invoke("'inputs':[{'fd':2}],'further_outputs':[{'fd':1},{'fd':3}],'output':{'fd':0}"), 4);
        assertEquals(List.of(101, 102, 104), invocation.outputs());
        String good = "'inputs':[{'fd':0}],'output':{'fd':1},'further_outputs':";
        refused(invoke(good + "{'fd':2}"), 3);
        refused(invoke(good + "[2]"), 3);
        refused(invoke(good + "[{'fd':1}]"), 2);
        refused(invoke(good + "[{'fd':2}]"), 4);
    }

    @Test
    public void servicesHaveADescriptorAndOperations() throws ProtocolError {
        String rest = "'inputs':[{'fd':0}],'output':{'fd':1},'services':";
        Invocation invocation = parse(invoke(rest + "{'fd':2,'operations':['read','list']}"), 3);
        assertEquals(new Invocation.Services(103, List.of("read", "list")), invocation.services());
        refused(invoke(rest + "{'fd':2}"), 3);
        refused(invoke(rest + "{'fd':2,'operations':[1]}"), 3);
        refused(invoke(rest + "{'operations':['read']}"), 2);
        refused(invoke(rest + "{'fd':1,'operations':['read']}"), 2);
        refused(invoke(rest + "['read']"), 2);
    }

    @Test
    public void unknownKeysAndNullsCountForNothing() throws ProtocolError {
        parse(invoke("'inputs':[{'fd':0,'x':1,'start':null}],'output':{'fd':1},'log':null,'parameters':null,'limits':null,'new':[{}]"), 2);
    }

    @Test
    public void whatTheProtocolForbidsIsRefused() {
        String good = "'inputs':[{'fd':0}],'output':{'fd':1}";
        refused("{'v':2,'type':'invoke','id':'a'," + good + "}", 2);
        refused("{'type':'invoke','id':'a'," + good + "}", 2);
        refused("{'v':1,'id':'a'," + good + "}", 2);
        refused("{'v':1,'type':'ready','id':'a'," + good + "}", 2);
        refused("{'v':1,'type':'invoke'," + good + "}", 2);
        refused("{'v':1,'type':'invoke','id':''," + good + "}", 2);
        refused("{'v':1,'type':'invoke','id':1," + good + "}", 2);
        refused(invoke("'inputs':[],'output':{'fd':0}"), 1);
        refused(invoke("'inputs':{},'output':{'fd':0}"), 1);
        refused(invoke("'inputs':[1],'output':{'fd':0}"), 1);
        refused(invoke("'output':{'fd':0}"), 1);
        refused(invoke("'inputs':[{'fd':0}]"), 1);
        refused(invoke("'inputs':[{'fd':0}],'output':1"), 1);
        refused(invoke("'inputs':[{'fd':0}],'output':{}"), 2);
        refused(invoke(good + ",'parameters':{'a':1}"), 2);
        refused(invoke(good + ",'parameters':[]"), 2);
        refused(invoke(good + ",'log':{'fd':2}"), 3);
        refused(invoke(good + ",'limits':{'metadata_bytes':-1}"), 2);
        refused(invoke(good + ",'limits':{'metadata_bytes':1.5}"), 2);
        refused(invoke("'inputs':[{'fd':0,'metadata':{'a':null}}],'output':{'fd':1}"), 2);
        refused(invoke("'inputs':[{'fd':0,'start':5,'end':4}],'output':{'fd':1}"), 2);
        refused(invoke("'inputs':[{'fd':0,'start':-1}],'output':{'fd':1}"), 2);
        refused("not json", 0);
    }

    @Test
    public void everyDescriptorIsNamedOnce() {
        refused(invoke("'inputs':[{'fd':0}],'output':{'fd':0}"), 1);
        refused(invoke("'inputs':[{'fd':0}],'output':{'fd':1}"), 3);
        refused(invoke("'inputs':[{'fd':0}],'output':{'fd':1}"), 1);
        refused(invoke("'inputs':[{'fd':-1}],'output':{'fd':1}"), 2);
        refused(invoke("'inputs':[{'fd':4294967296}],'output':{'fd':1}"), 2);
        refused(invoke("'inputs':[{'fd':true}],'output':{'fd':1}"), 2);
    }
}
