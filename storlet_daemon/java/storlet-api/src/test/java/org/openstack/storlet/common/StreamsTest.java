package org.openstack.storlet.common;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.Map;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** The classes of the API on plain descriptors, as an author's own tests would use them. */
public class StreamsTest {
    private static final byte[] DIGITS = "0123456789".getBytes(StandardCharsets.US_ASCII);

    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();

    private FileInputStream digits() throws IOException {
        File file = folder.newFile();
        Files.write(file.toPath(), DIGITS);
        return new FileInputStream(file);
    }

    private InputStream range(long start, long end) throws IOException {
        return new RangeStorletInputStream(digits().getFD(), new HashMap<>(), start, end).getStream();
    }

    @Test
    public void aRangeHasItsFirstAndItsLastByte() throws IOException {
        assertEquals("2345", new String(range(2, 5).readAllBytes(), StandardCharsets.US_ASCII));
        assertEquals("9", new String(range(9, 9).readAllBytes(), StandardCharsets.US_ASCII));
    }

    @Test
    public void aRangeEndsWithTheFile() throws IOException {
        assertEquals("89", new String(range(8, 1000).readAllBytes(), StandardCharsets.US_ASCII));
        assertEquals(-1, range(10, Long.MAX_VALUE).read());
        assertEquals(-1, range(11, 20).read(new byte[4]));
    }

    @Test
    public void anImpossibleRangeIsRefused() {
        assertThrows(IOException.class, () -> range(-1, 3));
        assertThrows(IOException.class, () -> range(5, 3));
    }

    private SeekableInputStream seekable() throws IOException {
        return SeekableStorletInputStream.ofFile(digits().getFD(), new HashMap<>(), DIGITS.length).getStream();
    }

    @Test
    public void aSeekableInputIsReadAtAnyPlace() throws IOException {
        SeekableInputStream stream = seekable();
        assertEquals(10, stream.size());
        stream.seek(7);
        assertEquals("789", new String(stream.readAllBytes(), StandardCharsets.US_ASCII));
        assertEquals(10, stream.position());
        stream.seek(2);
        assertEquals(3, stream.skip(3));
        assertEquals('5', stream.read());
        assertEquals(4, stream.available());
        assertEquals(4, stream.skip(99));
        assertEquals(-1, stream.read());
    }

    @Test
    public void aSeekableInputHasNothingBeyondItsEndAndNoPlaceBeforeItsStart() throws IOException {
        SeekableInputStream stream = seekable();
        stream.seek(1000);
        assertEquals(-1, stream.read());
        assertEquals(0, stream.skip(1));
        assertThrows(IOException.class, () -> stream.seek(-1));
        assertEquals(1000, stream.position());
    }

    @Test
    public void everyWayOfReadingARangeCounts() throws IOException {
        InputStream stream = range(1, 8);
        assertEquals(8, stream.available());
        assertEquals('1', stream.read());
        assertEquals(2, stream.skip(2));
        byte[] two = new byte[4];
        assertEquals(2, stream.read(two, 1, 2));
        assertArrayEquals(new byte[] {0, '4', '5', 0}, two);
        assertEquals("6", new String(stream.readNBytes(1), StandardCharsets.US_ASCII));
        ByteArrayOutputStream rest = new ByteArrayOutputStream();
        assertEquals(2, stream.transferTo(rest));
        assertEquals("78", rest.toString(StandardCharsets.US_ASCII));
        assertEquals(0, stream.skip(5));
        assertEquals(0, stream.available());
        assertFalse(stream.markSupported());
    }

    @Test
    public void rangesOnOneOpenFileDoNotDisturbEachOther() throws IOException {
        try (FileInputStream file = digits()) {
            InputStream low = new RangeFileInputStream(file.getFD(), 0, 4);
            InputStream high = new RangeFileInputStream(file.getFD(), 5, 9);
            StringBuilder read = new StringBuilder();
            for (int i = 0; i < 5; i++) {
                read.append((char) low.read()).append((char) high.read());
            }
            assertEquals("0516273849", read.toString());
        }
    }

    @Test
    public void theOffsetOfTheFileShowsHowFarARangeWasRead() throws IOException {
        try (FileInputStream file = digits()) {
            InputStream stream = new RangeFileInputStream(file.getFD(), 3, 8);
            assertEquals(4, stream.read(new byte[4]));
            assertEquals(7, file.getChannel().position());
        }
    }

    @Test
    public void aRangeHasNoChannel() {
        assertThrows(UnsupportedOperationException.class, () -> ((FileInputStream) range(1, 2)).getChannel());
    }

    @Test
    public void anInputGivesItsBytesAndItsMetadata() throws IOException {
        HashMap<String, String> metadata = new HashMap<>(Map.of("Colour", "red"));
        StorletInputStream input = new StorletInputStream(digits().getFD(), metadata);
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        input.getStream().transferTo(all);
        assertArrayEquals(DIGITS, all.toByteArray());
        assertEquals("red", input.getMetadata().get("Colour"));
        input.close();
        input.close();
        assertThrows(IOException.class, () -> input.getStream().read());
    }

    @Test
    public void metadataGoesToItsDescriptorAsJson() throws Exception {
        File data = folder.newFile();
        File metadata = folder.newFile();
        StorletObjectOutputStream output = new StorletObjectOutputStream(
                new FileOutputStream(data).getFD(), new HashMap<>(), new FileOutputStream(metadata).getFD());
        output.setMetadata(Map.of("a", "b\"c"));
        output.getStream().write('x');
        output.close();
        assertEquals("{\"a\":\"b\\\"c\"}", Files.readString(metadata.toPath()));
        assertEquals("x", Files.readString(data.toPath()));
        StorletException again = assertThrows(StorletException.class, () -> output.setMetadata(Map.of()));
        assertEquals(IOException.class, again.getCause().getClass());
    }

    @Test
    public void metadataThatWasSetIsRemovedFromItsMap() throws Exception {
        StorletObjectOutputStream output = new StorletObjectOutputStream(
                new FileOutputStream(folder.newFile()).getFD(), new HashMap<>(), new FileOutputStream(folder.newFile()).getFD());
        HashMap<String, String> map = new HashMap<>(Map.of("a", "b"));
        output.setMetadata(map);
        assertEquals(Map.of(), map);
        assertThrows(StorletException.class, () -> {
            map.put("a", "b");
            output.setMetadata(map);
        });
        assertEquals("metadata that was refused stays", Map.of("a", "b"), map);
        output.close();
    }

    @Test
    public void aLogHasALinePerMessageAndNeverFails() throws IOException {
        File file = folder.newFile();
        StorletLogger logger = new StorletLogger(new FileOutputStream(file).getFD());
        logger.emitLog("Zürich");
        logger.emitLog(null);
        logger.Flush();
        logger.close();
        logger.emitLog("lost");
        assertEquals("Zürich\nnull\n", Files.readString(file.toPath()));
    }

    @Test
    public void aClassKnowsItsFolder() {
        String folderOfTest = StorletUtils.getClassFolder(StreamsTest.class);
        assertEquals("target", new File(folderOfTest).getName());
    }
}
