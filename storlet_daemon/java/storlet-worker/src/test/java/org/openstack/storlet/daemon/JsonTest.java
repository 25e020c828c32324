package org.openstack.storlet.daemon;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.Test;

public class JsonTest {
    private static Map<String, Object> read(String text) throws JsonReader.Malformed {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        // Longer than the text, like the worker's buffer, with an old message behind it.
        byte[] buffer = Arrays.copyOf(bytes, bytes.length + 8);
        Arrays.fill(buffer, bytes.length, buffer.length, (byte) '}');
        return JsonReader.readObject(buffer, bytes.length);
    }

    private static String written(String text) {
        JsonWriter writer = new JsonWriter().string(text);
        return new String(writer.bytes(), 0, writer.length(), StandardCharsets.UTF_8);
    }

    @Test
    public void everyKindOfValueIsRead() throws JsonReader.Malformed {
        Map<String, Object> value = read(" {\"t\":\"x\", \"n\" :12, \"m\":-0.5e1,\"b\":[true,false,null,[]],\"o\":{}}\n");
        Map<String, Object> expected = new HashMap<>();
        expected.put("t", "x");
        expected.put("n", 12L);
        expected.put("m", -5.0);
        expected.put("b", Arrays.asList(true, false, null, List.of()));
        expected.put("o", Map.of());
        assertEquals(expected, value);
    }

    @Test
    public void anArrayIsReadWhole() throws JsonReader.Malformed {
        byte[] bytes = " [{\"a\":1}, 2] ".getBytes(StandardCharsets.UTF_8);
        assertEquals(List.of(Map.of("a", 1L), 2L), JsonReader.readArray(bytes, bytes.length));
        assertThrows(JsonReader.Malformed.class, () -> JsonReader.readArray(bytes, bytes.length - 2));
        byte[] object = "{}".getBytes(StandardCharsets.UTF_8);
        assertThrows(JsonReader.Malformed.class, () -> JsonReader.readArray(object, object.length));
        byte[] two = "[][]".getBytes(StandardCharsets.UTF_8);
        assertThrows(JsonReader.Malformed.class, () -> JsonReader.readArray(two, two.length));
    }

    @Test
    public void numbersUpToTheLargestOfTheProtocolAreWhole() throws JsonReader.Malformed {
        assertEquals(Long.MAX_VALUE, read("{\"n\":9223372036854775807}").get("n"));
        assertEquals(0L, read("{\"n\":-0}").get("n"));
        assertEquals(9.223372036854775808e18, read("{\"n\":9223372036854775808}").get("n"));
    }

    @Test
    public void escapesAndUtf8GiveTheSameText() throws JsonReader.Malformed {
        assertEquals("é😀\"\\/\b\f\n\r\t", read("{\"t\":\"\\u00e9\\ud83d\\uDE00\\\"\\\\\\/\\b\\f\\n\\r\\t\"}").get("t"));
        assertEquals("é😀", read("{\"t\":\"é😀\"}").get("t"));
        assertEquals("naïve\n", read("{\"t\":\"naïve\\n\"}").get("t"));
    }

    @Test
    public void whatIsNotJsonIsRefused() {
        String[] faults = {
            "", " ", "[]", "1", "null", "\"x\"", "{", "{}x", "{}{}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "{a:1}", "{'a':1}",
            "{\"a\":01}", "{\"a\":1.}", "{\"a\":.5}", "{\"a\":+1}", "{\"a\":1e}", "{\"a\":-}", "{\"a\":NaN}", "{\"a\":Infinity}", "{\"a\":nul}",
            "{\"a\":\"\t\"}", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12g4\"}", "{\"a\":\"\\u12\"}", "{\"a\":\"", "{\"a\":\"\\", "{\"a\":[1 2]}", "{\"a\":[1,]}",
            "{\"a\" 1}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\udc00x\"}", "{\"\\ud83d\":1}", "{\"a\":\"\u0000\"}", "\ufeff{}",
        };
        for (String fault : faults) {
            assertThrows(fault, JsonReader.Malformed.class, () -> read(fault));
        }
    }

    @Test
    public void bytesThatAreNotUtf8AreRefused() {
        byte[][] faults = {{(byte) 0xff}, {(byte) 0xc3}, {(byte) 0xed, (byte) 0xa0, (byte) 0x80}, {(byte) 0xc0, (byte) 0x80}};
        for (byte[] fault : faults) {
            byte[] text = new byte[fault.length + 8];
            byte[] head = "{\"a\":\"".getBytes(StandardCharsets.US_ASCII);
            System.arraycopy(head, 0, text, 0, head.length);
            System.arraycopy(fault, 0, text, head.length, fault.length);
            text[text.length - 2] = '"';
            text[text.length - 1] = '}';
            assertThrows(JsonReader.Malformed.class, () -> JsonReader.readObject(text, text.length));
        }
    }

    @Test
    public void depthIsBounded() throws JsonReader.Malformed {
        read("{\"a\":" + "[".repeat(7) + "]".repeat(7) + "}");
        assertThrows(JsonReader.Malformed.class, () -> read("{\"a\":" + "[".repeat(8) + "]".repeat(8) + "}"));
        assertThrows(JsonReader.Malformed.class, () -> read("{\"a\":" + "[".repeat(60000)));
    }

    @Test
    public void textIsWrittenSoThatItIsReadAgain() throws JsonReader.Malformed {
        String text = "plain \"quoted\" \\ \n\t\r\b\u0000\u007f é ߿ ࠀ \u2028 😀";
        assertEquals(text, read("{\"t\":" + written(text) + "}").get("t"));
    }

    @Test
    public void halfASurrogatePairIsReplaced() {
        assertEquals("\"a\ufffdb\"", written("a\ud800b"));
        assertEquals("\"\ufffd\"", written("\ude00"));
    }

    @Test
    public void secondsHaveSixDecimals() {
        JsonWriter writer = new JsonWriter().seconds(1_000_042).raw(" ").seconds(7);
        assertEquals("1.000042 0.000007", new String(writer.bytes(), 0, writer.length(), StandardCharsets.US_ASCII));
    }

    @Test
    public void valuesOfOtherKindsBecomeText() throws JsonReader.Malformed {
        Map<String, Object> values = read("{\"n\":1,\"d\":1.5,\"b\":true,\"l\":[1,null,\"x\",{\"y\":[]}]}");
        assertEquals("1", JsonWriter.text(values.get("n")));
        assertEquals("1.5", JsonWriter.text(values.get("d")));
        assertEquals("true", JsonWriter.text(values.get("b")));
        assertEquals("[1,null,\"x\",{\"y\":[]}]", JsonWriter.text(values.get("l")));
    }
}
