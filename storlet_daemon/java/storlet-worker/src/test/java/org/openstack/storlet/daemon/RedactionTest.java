package org.openstack.storlet.daemon;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.junit.Test;
import org.openstack.storlet.common.StorletException;

public class RedactionTest {
    private static final String VALUE = "a \"v\u00e4lue\" of + secrets";
    private static final byte[] BYTES = VALUE.getBytes(StandardCharsets.UTF_8);

    private final Redaction redaction = new Redaction(List.of(BYTES));

    @Test
    public void theFormsThatProgramsPrintAreRemoved() {
        String numbers = Arrays.toString(BYTES);
        for (String form : List.of(
                VALUE,
                Base64.getEncoder().encodeToString(BYTES).replace("=", ""),
                Base64.getUrlEncoder().withoutPadding().encodeToString(BYTES),
                "61202276c3a46c756522206f66202b2073656372657473",
                "61202276C3A46C756522206F66202B2073656372657473",
                "a+%22v%C3%A4lue%22+of+%2B+secrets",
                "a%20%22v%C3%A4lue%22%20of%20%2B%20secrets",
                "a \\\"v\u00e4lue\\\" of + secrets",
                numbers.substring(1, numbers.length() - 1))) {
            assertEquals("<[secret]>", redaction.text("<" + form + ">"));
        }
    }

    @Test
    public void theBeginOfAFormAndALineAreRemoved() {
        assertEquals("x [secret]...", redaction.text("x " + VALUE.substring(0, 18) + "..."));
        Redaction lines = new Redaction(List.of("first line of the value\nand the second one\n".getBytes()));
        assertEquals("a [secret] b", lines.text("a and the second one b"));
        assertEquals("[secret]", lines.text("first line of the value\nand the second one"));
    }

    @Test
    public void textsWithoutAValueStay() {
        assertEquals("a value of another", redaction.text("a value of another"));
        assertEquals(VALUE, Redaction.NONE.text(VALUE));
    }

    @Test
    public void aFailureHasNoPartOfAValueThatWasCut() {
        StorletException raised = new StorletException("x".repeat(490) + VALUE);
        Failure failure = Failure.ofRun(raised, redaction);
        assertEquals("x".repeat(490) + "[secret]", failure.message());
        Exception cause = new Exception((VALUE + "-").repeat(2_000));
        String traceback = Failure.ofRun(new RuntimeException(cause), redaction).traceback();
        assertFalse(traceback, traceback.replace("[secret]", "").contains("secret"));
    }
}
