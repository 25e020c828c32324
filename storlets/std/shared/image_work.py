"""The limits, which are checked before a pixel is decoded, and the steps from object to result.

The steps are lazy: the library decodes the lines that the encoder needs, so a large picture is
never kept whole, unless its format or a turn needs that.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from image_geometry import (
    Size,
    centre,
    resized,
    shrink_on_load,
    stored_bounds,
    stored_part,
    tiles_of,
)
from image_input import MOST_PAGES, NAMES, Reader
from image_library import explained, library
from image_request import MILLION, Box, ImageError, Request

#: Bytes of pixels that a format or a turn makes the library keep.
MOST_PIXEL_BYTES = 256 << 20
#: A warning of these decoders is about missing or wrong pixels; one of TIFF is mostly about unknown
#: tags, which good files have.
_FAIL_ON = {"tiff": "error"}
_BYTES = {"uchar": 1, "ushort": 2}
_MOST_BANDS = 4
#: Pixels of the longest side that a format can have.
_LONGEST = {"jpeg": 65_500, "webp": 16_383, "png": 2**31 - 1}
_QUALITY = {"jpeg": 85, "webp": 80}
#: The decoders of GIF and WebP keep the canvas and a frame, with four bytes for a pixel of each.
_ANIMATION_BYTES = 8
#: Metadata that may have a picture of what was cut off: small ones of Photoshop and of cameras.
_MAY_SHOW_MORE = ("iptc-data", "xmp-data", "png-comment-*", "exif-*-MakerNote")


class Picture:
    """The object as a picture, and the result of a request."""

    def __init__(self, reader: Reader, request: Request) -> None:
        """Read the header.

        :raises ImageError: it is damaged, or beyond a limit.
        """
        self._vips = library()
        self._request = request
        self._kind = reader.kind
        self._source = reader.vips_source()
        self._options: dict[str, int] = {}
        header = self._load()
        page = self._page_of(header)
        reader.require_known_colours(page)
        if page > 1:
            self._options = {"page": page - 1}
            header = self._load()
        self._size: Size = (header.width, header.height)
        self._bands, self._sample = header.bands, _BYTES.get(header.format)
        if self._sample is None or self._bands > _MOST_BANDS:
            raise ImageError(
                f"the object has {self._bands} samples of type {header.format} for each pixel: want"
                f" 1 to {_MOST_BANDS} of 8 or 16 bits"
            )
        tag = _number(header, "orientation") or 1
        self._orientation = tag if request.is_upright else 1
        self._is_animation = self._kind in {"gif", "webp"}
        self._is_interlaced = bool(_number(header, "interlaced"))
        self._tile = (_number(header, "tile-width"), _number(header, "tile-height"))
        self.format = request.format
        if request.format == "same":
            self.format = self._kind if self._kind in _LONGEST else "png"
        if request.quality and self.format not in _QUALITY:
            raise ImageError("quality: the result is a PNG, which has none: want another format")

    def result(self) -> Any:
        """The result, of which no pixel is computed yet.

        :raises ImageError: a limit does not allow it.
        """
        request, size = self._request, self._size
        part = request.part and stored_part(request.part, size, self._orientation)
        self._require_few_pixels(part)
        if part:
            size = (part.width, part.height)
        bounds = stored_bounds(request, self._orientation)
        target = resized(size, bounds, is_cover=request.is_cover)
        kept = self._kept_by_decoder(part)
        self._require_little_memory(kept)
        image = self._load(**({} if part else self._shrinking(target)))
        if image.interpretation == "cmyk":
            image = image.icc_transform("srgb", embedded=True, input_profile="cmyk")
        if part:
            image = image.crop(part.left, part.top, part.width, part.height)
        if target != (image.width, image.height):
            image = image.thumbnail_image(target[0], height=target[1], size="force", no_rotate=True)
        if request.is_cover:
            box = centre(target, bounds)
            image = image.crop(box.left, box.top, box.width, box.height)
        self._require_short_sides(image)
        is_turned = self._orientation > 1 or bool(request.rotate)
        if is_turned:
            kept += image.width * image.height * self._pixel_bytes()
        self._require_little_memory(kept + self._kept_by_encoder(image))
        if is_turned:
            image = image.copy_memory()
            if self._orientation > 1:
                image = image.autorot()
            if request.rotate:
                image = image.rot(f"d{request.rotate}")
        return self._encodable(image)

    def write(self, image: Any, target: Any) -> None:
        """Compute and encode the result."""
        keep = self._vips.enums.ForeignKeep
        options: dict[str, Any] = {"keep": keep.ALL if self._request.keeps_metadata else keep.ICC}
        if self.format in _QUALITY:
            options["Q"] = self._request.quality or _QUALITY[self.format]
        getattr(image, f"{self.format}save_target")(target, **options)

    def _load(self, **options: Any) -> Any:
        load = getattr(self._vips.Image, f"{self._kind}load_source")
        options |= {"access": "sequential", "fail_on": _FAIL_ON.get(self._kind, "warning")}
        return load(self._source, **self._options, **options)

    def _page_of(self, header: Any) -> int:
        """The number of the page, from 1."""
        count, page = _number(header, "n-pages") or 1, self._request.page
        if count > MOST_PAGES:
            raise ImageError(f"the object has {count} pages or frames, more than {MOST_PAGES}")
        if page > count:
            raise ImageError(f"page={page}: the number of pages or frames is {count}")
        if not page and count > 1:
            raise ImageError(f"page: the object has {count} pages or frames: want one of them")
        return max(page, 1)

    def _shrinking(self, target: Size) -> dict[str, float]:
        """The options of a loader that can shrink."""
        factor = shrink_on_load(self._size, target)
        if factor > 1 and self._kind == "jpeg":
            return {"shrink": factor}
        if factor > 1 and self._kind == "webp":
            return {"scale": 1 / factor}
        return {}

    def _require_few_pixels(self, part: Box | None) -> None:
        """Refuse a picture of which too much must be decoded."""
        width, height = self._size
        pixels = width * height
        if all(self._tile):
            # Also a tile that is only partly within the picture is decoded whole.
            across, down = self._tiles(part)
            pixels = across * down * self._tile[0] * self._tile[1]
        elif part and not (self._is_interlaced or self._is_animation):
            pixels = width * (part.top + part.height)
        if self._is_animation:
            # A frame is made from those before it.
            pixels *= max(self._request.page, 1)
        if pixels > self._request.most_pixels:
            raise ImageError(
                f"max-megapixels={self._request.most_pixels // MILLION}: the picture has"
                f" {width}x{height} pixels, and {-(-pixels // MILLION)} million must be decoded"
            )

    def _pixel_bytes(self) -> int:
        return self._bands * (self._sample or 1)

    def _tiles(self, part: Box | None) -> Size:
        """How many tiles across and down must be decoded."""
        return tiles_of(part or Box(0, 0, *self._size), self._tile)

    def _kept_by_decoder(self, part: Box | None) -> int:
        """The bytes of pixels that the decoder keeps."""
        pixels = self._size[0] * self._size[1]
        if self._is_animation:
            return _ANIMATION_BYTES * pixels
        if all(self._tile):
            # The library keeps two rows of tiles, and the decoder the tile that it decodes.
            across, down = self._tiles(part)
            tiles = min(across * down, 2 * (1 + self._size[0] // self._tile[0])) + 1
            return tiles * self._tile[0] * self._tile[1] * self._pixel_bytes()
        if self._is_interlaced:
            # Of a JPEG these are coefficients, which have 16 bits.
            return pixels * self._pixel_bytes() * (2 if self._kind == "jpeg" else 1)
        return 0

    def _kept_by_encoder(self, image: Any) -> int:
        """The bytes of pixels that the encoder keeps."""
        if self.format != "webp":
            return 0
        # All pixels with 3 bytes, or 4 with transparency, and again with 1.5 or 2.5 bytes.
        return int(image.width * image.height * (13 if image.hasalpha() else 9) // 2)

    def _require_little_memory(self, kept: int) -> None:
        if kept > MOST_PIXEL_BYTES:
            raise ImageError(
                f"{-(-kept >> 20)} MiB of pixels would be kept in memory, more than"
                f" {MOST_PIXEL_BYTES >> 20}: a GIF, a WebP, an interlaced picture, tiles of a TIFF"
                " and the result of a turn are kept"
            )

    def _require_short_sides(self, image: Any) -> None:
        longest = max(image.width, image.height)
        if longest > _LONGEST[self.format]:
            raise ImageError(
                f"format={self.format}: the result has {longest} pixels on a side, and the format"
                f" has up to {_LONGEST[self.format]}"
            )

    def _encodable(self, image: Any) -> Any:
        """The picture with samples that the format has, and without a copy of the former one."""
        if self.format != "png" and image.format != "uchar":
            image = image.colourspace("b-w" if image.bands < 3 else "srgb")
        if self.format == "jpeg" and image.hasalpha():
            image = image.flatten(background=255)
        # The small picture within EXIF is the former one, also when nothing was cut off.
        patterns = ["jpeg-thumbnail-data"]
        if self._request.part or self._request.is_cover:
            patterns += _MAY_SHOW_MORE
        names = [
            name
            for name in image.get_fields()
            if any(fnmatchcase(name, pattern) for pattern in patterns)
        ]
        if names:
            image = image.copy()
        for name in names:
            image.remove(name)
        return image


def changed(reader: Reader, request: Request) -> tuple[Picture, Any]:
    """The picture, and its result, of which no pixel is computed yet.

    :raises ImageError: the object is damaged, or a limit does not allow the request.
    """
    vips = library()
    try:
        picture = Picture(reader, request)
        # The result of a turn is computed at once.
        reader.begin_pixels()
        return picture, picture.result()
    except vips.Error as error:
        reader.require_no_error()
        raise explained(error, NAMES[reader.kind]) from None


def _number(header: Any, name: str) -> int:
    """A number of the header, or 0."""
    return int(header.get(name)) if header.get_typeof(name) else 0
