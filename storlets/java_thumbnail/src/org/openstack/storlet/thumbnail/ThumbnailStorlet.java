package org.openstack.storlet.thumbnail;

import java.awt.image.BufferedImage;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import javax.imageio.ImageIO;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;

/**
 * Makes a small PNG of a picture (PNG, JPEG, GIF, BMP). Parameter {@code size}: the longer side in
 * pixels, default 100; a smaller picture keeps its size. Metadata {@code Width} and {@code Height}
 * are the original's.
 */
public class ThumbnailStorlet implements IStorlet {
    private static final int SIZE_MAX = 2000;

    /** Pictures are read through memory: the sandbox has little scratch space. */
    public ThumbnailStorlet() {
        ImageIO.setUseCache(false);
    }

    @Override
    public void invoke(
            ArrayList<StorletInputStream> inStreams,
            ArrayList<StorletOutputStream> outStreams,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {
        StorletInputStream source = inStreams.get(0);
        StorletObjectOutputStream target = (StorletObjectOutputStream) outStreams.get(0);
        int size = size(parameters.getOrDefault("size", "100"));
        try {
            BufferedImage picture = ImageIO.read(source.getStream());
            if (picture == null) {
                throw new StorletException("the object is not a picture that can be read");
            }
            HashMap<String, String> metadata = new HashMap<>(source.getMetadata());
            metadata.put("Content-Type", "image/png");
            metadata.put("Width", Integer.toString(picture.getWidth()));
            metadata.put("Height", Integer.toString(picture.getHeight()));
            target.setMetadata(metadata);
            ImageIO.write(reduced(picture, size), "png", target.getStream());
        } catch (IOException cause) {
            throw new StorletException("the picture could not be reduced: " + cause.getMessage());
        }
    }

    private static int size(String text) throws StorletException {
        int size = text.matches("[0-9]{1,4}") ? Integer.parseInt(text) : 0;
        if (size < 1 || size > SIZE_MAX) {
            throw new StorletException("size must be 1 to " + SIZE_MAX + ", not " + text);
        }
        return size;
    }

    /**
     * Each new point is the mean of the rectangle of old points under it. Implemented here, because
     * it gives the same bytes on every machine, which Java's own scaling does not guarantee, and
     * needs no fonts or screens.
     */
    private static BufferedImage reduced(BufferedImage picture, int size) {
        int longer = Math.max(picture.getWidth(), picture.getHeight());
        int width = longer <= size ? picture.getWidth() : Math.max(1, picture.getWidth() * size / longer);
        int height = longer <= size ? picture.getHeight() : Math.max(1, picture.getHeight() * size / longer);
        BufferedImage small = new BufferedImage(width, height, BufferedImage.TYPE_INT_ARGB);
        for (int y = 0; y < height; y++) {
            int top = y * picture.getHeight() / height;
            int bottom = Math.max(top + 1, (y + 1) * picture.getHeight() / height);
            for (int x = 0; x < width; x++) {
                int left = x * picture.getWidth() / width;
                int right = Math.max(left + 1, (x + 1) * picture.getWidth() / width);
                small.setRGB(x, y, mean(picture, left, top, right, bottom));
            }
        }
        return small;
    }

    private static int mean(BufferedImage picture, int left, int top, int right, int bottom) {
        long[] sums = new long[4];
        for (int y = top; y < bottom; y++) {
            for (int x = left; x < right; x++) {
                int point = picture.getRGB(x, y);
                for (int channel = 0; channel < 4; channel++) {
                    sums[channel] += point >>> 8 * channel & 255;
                }
            }
        }
        long count = (long) (right - left) * (bottom - top);
        int mean = 0;
        for (int channel = 0; channel < 4; channel++) {
            mean |= (int) (sums[channel] / count) << 8 * channel;
        }
        return mean;
    }
}
