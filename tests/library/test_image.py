"""``std:image`` gives the pixels of a slow reference (Pillow), or one error, and never a part."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageCms, ImageFilter, ImageOps, ImageStat
from PIL.PngImagePlugin import PngInfo

from storlet_daemon.author import StorletLogger
from storlet_daemon.author.seekable import SeekableFile
from tests.library.support import LibraryStorlet, Target, filled
from tests.support.property_tests import BRIEF

STORLET = LibraryStorlet("image")
REGION = LibraryStorlet("image-region")
#: The modules that the storlet has imported.
REQUEST = STORLET.module.request_of.__globals__
INPUT = STORLET.module.Reader._read.__globals__
WORK = STORLET.module.changed.__globals__
LIBRARY = STORLET.module.library.__globals__
ERROR: Any = REQUEST["ImageError"]
TRANSPOSED = {
    90: Image.Transpose.ROTATE_270,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}
ORIENTATION = 0x0112
MAKE = 0x010F
SUFFIXES = {"JPEG": "jpeg", "PNG": "png", "WEBP": "webp"}


def ran(data: bytes, storlet: LibraryStorlet = STORLET, **parameters: object) -> tuple[bytes, str]:
    """The output, and its content type without ``image/``."""
    given = {name.replace("_", "-"): str(value) for name, value in parameters.items()}
    result = storlet.run(data, given)
    kind, _, name = result.metadata["Content-Type"].partition("/")
    assert kind == "image"
    found = Image.open(io.BytesIO(result.output))
    assert SUFFIXES[str(found.format)] == name
    assert (str(found.width), str(found.height)) == (
        result.metadata["Width"],
        result.metadata["Height"],
    )
    return result.output, name


def picture(data: bytes, storlet: LibraryStorlet = STORLET, **parameters: object) -> Image.Image:
    output, _ = ran(data, storlet, **parameters)
    found = Image.open(io.BytesIO(output))
    found.load()
    return found


def failure(data: bytes, storlet: LibraryStorlet = STORLET, **parameters: object) -> str:
    with pytest.raises(ERROR) as caught:
        ran(data, storlet, **parameters)
    text = str(caught.value)
    assert "\n" not in text
    return text


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    fast = {"compress_level": 1} if kind == "PNG" else {}
    image.save(file, kind, **fast, **options)
    return file.getvalue()


def sample(size: tuple[int, int] = (64, 48), mode: str = "RGB", seed: int = 1) -> Image.Image:
    """A picture without symmetry: coloured blocks that are blurred, so JPEG keeps them."""
    width, height = size
    small = Image.new("RGB", (7, 5))
    values = zlib.crc32(b"%d" % seed)
    for place in range(35):
        values = (values * 1_103_515_245 + 12_345) & 0xFFFFFFFF
        small.putpixel(
            (place % 7, place // 7), (values >> 24, values >> 16 & 255, values >> 8 & 255)
        )
    return small.resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def difference(one: Image.Image, other: Image.Image) -> float:
    """The mean difference of samples, 0 to 255."""
    assert one.size == other.size
    both = (each.convert("RGB") for each in (one, other))
    return max(ImageStat.Stat(ImageChops.difference(*both)).mean)


def noise(size: tuple[int, int]) -> Image.Image:
    return Image.effect_noise(size, 60).convert("RGB").filter(ImageFilter.BLUR)


# --- the right pixels -----------------------------------------------------------------------------

SIDES = st.integers(1, 40)


@given(data=st.data(), width=SIDES, height=SIDES, mode=st.sampled_from(["L", "LA", "RGB", "RGBA"]))
def test_parts_and_turns_are_those_of_the_reference(
    data: st.DataObject, width: int, height: int, mode: str
) -> None:
    pixels = data.draw(st.binary(min_size=8, max_size=8)) * (width * height)
    image = Image.frombytes(mode, (width, height), pixels[: width * height * len(mode)])
    left, top = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    wide = data.draw(st.integers(1, width - left))
    high = data.draw(st.integers(1, height - top))
    turn = data.draw(st.sampled_from([0, 90, 180, 270]))
    crop = {"crop_left": left, "crop_top": top, "crop_width": wide, "crop_height": high}
    found = picture(saved(image), rotate=turn, **crop)
    expected = image.crop((left, top, left + wide, top + high))
    if turn:
        expected = expected.transpose(TRANSPOSED[turn])
    assert (found.mode, found.size) == (mode, expected.size)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["TIFF", "PNG"])
def test_the_orientation_of_a_camera_is_applied_or_kept(orientation: int, kind: str) -> None:
    image = sample((30, 20))
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    data = saved(image, kind, exif=exif)
    with Image.open(io.BytesIO(data)) as again:
        upright = ImageOps.exif_transpose(again).convert("RGB")
    found = picture(data)
    assert found.tobytes() == upright.tobytes()
    assert found.getexif().get(ORIENTATION, 1) == 1
    kept = picture(data, metadata="keep")
    assert (kept.tobytes(), kept.getexif().get(ORIENTATION, 1)) == (upright.tobytes(), 1)
    crop = {"crop_left": 3, "crop_top": 4, "crop_width": 9, "crop_height": 5}
    part = picture(data, **crop)
    assert part.tobytes() == upright.crop((3, 4, 12, 9)).tobytes()
    turned = picture(data, rotate=90, **crop)
    assert turned.tobytes() == part.transpose(TRANSPOSED[90]).tobytes()
    stored = picture(data, metadata="keep", orientation="keep")
    assert stored.tobytes() == image.tobytes()
    assert stored.getexif().get(ORIENTATION, 1) == orientation


@cache
def of_the_reference(kind: str) -> bytes:
    options = {"quality": 95} if kind in {"JPEG", "WEBP"} else {}
    return saved(sample((400, 300)), kind, **options)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "GIF"])
@pytest.mark.parametrize("bounds", [(50, 40), (40, 0), (0, 33), (300, 10), (9, 9)])
def test_thumbnails_are_those_of_the_reference(kind: str, bounds: tuple[int, int]) -> None:
    data = of_the_reference(kind)
    found = picture(data, width=bounds[0], height=bounds[1], format="png")
    ratio = min(bound / side for bound, side in zip(bounds, (400, 300), strict=True) if bound)
    size = (round(400 * ratio), round(300 * ratio))
    with Image.open(io.BytesIO(data)) as again:
        expected = again.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    assert difference(found, expected) < 6


@given(width=SIDES, height=SIDES, wide=SIDES, high=SIDES, fit=st.sampled_from(["inside", "cover"]))
def test_sizes_of_thumbnails(width: int, height: int, wide: int, high: int, fit: str) -> None:
    found = picture(saved(sample((width, height))), width=wide, height=high, fit=fit)
    if fit == "cover":
        ratio = min(1.0, max(wide / width, high / height))
        expected = (
            min(wide, max(1, round(width * ratio))),
            min(high, max(1, round(height * ratio))),
        )
    else:
        ratio = min(1.0, wide / width, high / height)
        expected = (max(1, round(width * ratio)), max(1, round(height * ratio)))
    assert found.size == expected


def test_cover_keeps_the_centre() -> None:
    image = Image.new("RGB", (90, 30), "red")
    image.paste("blue", (30, 0, 60, 30))
    assert picture(saved(image), width=30, height=30, fit="cover").getcolors() == [
        (900, (0, 0, 255))
    ]


def test_a_thumbnail_of_a_turned_picture_is_within_the_bounds() -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    data = saved(sample((400, 100)), "JPEG", exif=exif)
    assert picture(data, width=50, height=200).size == (50, 200)
    assert picture(data, width=50, height=200, rotate=90).size == (50, 12)


def test_formats() -> None:
    image = sample()
    for kind, name in SUFFIXES.items():
        data = saved(image, kind, quality=95)
        assert ran(data)[1] == name
        for wanted in SUFFIXES.values():
            output, found = ran(data, format=wanted)
            assert found == wanted
            assert difference(Image.open(io.BytesIO(output)), image) < 9
    for kind in ("GIF", "TIFF"):
        assert ran(saved(image, kind))[1] == "png"
    small, large = (ran(saved(image), format="jpeg", quality=quality)[0] for quality in (5, 95))
    assert len(small) < len(large) / 2


def test_samples_of_other_kinds() -> None:
    grey = sample(mode="L")
    deep = Image.frombytes("I;16", (256, 2), struct.pack("<512H", *range(0, 65_536, 128)))
    assert picture(saved(deep)).tobytes() == deep.tobytes()
    assert picture(saved(deep), format="jpeg").mode == "L"
    assert picture(saved(grey, "TIFF")).tobytes() == grey.tobytes()
    bits = grey.convert("1")
    assert picture(saved(bits, "TIFF")).convert("L").tobytes() == bits.convert("L").tobytes()
    palette = sample().quantize(16)
    assert difference(picture(saved(palette)), palette) == 0
    cmyk = sample().convert("CMYK")
    found = picture(saved(cmyk, "JPEG", quality=95))
    assert (found.mode, found.size) == ("RGB", cmyk.size)
    clear = Image.new("RGBA", (8, 8), (200, 0, 0, 0))
    white = picture(saved(clear), format="jpeg")
    assert (white.mode, white.getpixel((4, 4))) == ("RGB", (255, 255, 255))
    floats = sample(mode="F")
    assert "samples of type float" in failure(saved(floats, "TIFF"))


def tiff(
    colours: int, samples: int, compression: int = 1, more: tuple[tuple[int, ...], ...] = ()
) -> bytes:
    """A TIFF of 16 x 16 pixels, whose tags are after them."""
    pixels = bytes((100, 150, 160, 60)[:samples]) * 256
    tags = [
        (256, 3, 1, 16), (257, 3, 1, 16), (258, 3, 1, 8), (259, 3, 1, compression), (262, 3, 1, colours),
        (273, 4, 1, 8), (277, 3, 1, samples), (278, 3, 1, 16), (279, 4, 1, len(pixels)), *more,
    ]  # fmt: skip
    entries = b"".join(struct.pack("<HHLL", *tag) for tag in sorted(tags))
    place = struct.pack("<L", 8 + len(pixels))
    return b"II*\0" + place + pixels + struct.pack("<H", len(tags)) + entries + bytes(4)


@pytest.mark.parametrize("storlet", [STORLET, REGION])
def test_samples_of_a_tiff_that_are_no_rgb_are_not_shown_as_such(storlet: LibraryStorlet) -> None:
    assert picture(tiff(2, 3), storlet).getpixel((3, 3)) == (100, 150, 160)
    assert picture(tiff(0, 1), storlet).getpixel((3, 3)) == 155
    whole = ((530, 3, 2, 1 | 1 << 16),)
    for data in (
        tiff(6, 3, more=whole),
        *(tiff(kind, 3) for kind in (9, 10, 34892)),
        tiff(32803, 1),
    ):
        assert "which is not supported" in failure(data, storlet)
    image = sample()
    for compression in (None, "tiff_lzw"):
        data = saved(image.convert("YCbCr"), "TIFF", compression=compression)
        assert "samples of the kind 6" in failure(data, storlet)
    data = saved(image.convert("YCbCr"), "TIFF", compression="jpeg")
    assert difference(picture(data, storlet), image) < 5
    # Only the page that is wanted counts.
    pages = saved(image, "TIFF", save_all=True, append_images=[image.convert("YCbCr")])
    assert difference(picture(pages, storlet, page=1), image) == 0
    assert "samples of the kind 6" in failure(pages, storlet, page=2)


def test_pages_of_a_tiff_in_a_circle_are_damage() -> None:
    data = bytearray(tiff(2, 3))
    data[-4:] = data[4:8]
    for storlet in (STORLET, REGION):
        assert "damaged" in failure(bytes(data), storlet)


def test_pages_and_frames() -> None:
    frames = [sample(seed=seed).quantize(64) for seed in (1, 2, 3)]
    more = {"save_all": True, "append_images": frames[1:]}
    for kind in ("GIF", "TIFF", "WEBP"):
        data = saved(frames[0], kind, **more, **({"lossless": True} if kind == "WEBP" else {}))
        assert failure(data) == "page: the object has 3 pages or frames: want one of them"
        assert failure(data, page=4) == "page=4: the number of pages or frames is 3"
        for number, frame in enumerate(frames, 1):
            assert difference(picture(data, page=number, format="png"), frame) < 3
    assert picture(saved(frames[0]), page=1).size == frames[0].size


# --- metadata -------------------------------------------------------------------------------------


def test_metadata_is_removed_or_kept() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif = Image.Exif()
    exif[MAKE] = "SECRET camera"
    image = sample()
    for kind in ("JPEG", "PNG", "WEBP", "TIFF"):
        data = saved(image, kind, exif=exif, icc_profile=profile)
        assert b"SECRET" in data
        for wanted in SUFFIXES.values():
            output, _ = ran(data, format=wanted, width=20)
            assert b"SECRET" not in output
            found = Image.open(io.BytesIO(output))
            assert found.info["icc_profile"] == profile
            assert not dict(found.getexif())
    kept = picture(saved(image, "JPEG", exif=exif), metadata="keep", width=20)
    assert kept.getexif()[MAKE] == "SECRET camera"


def test_the_small_picture_within_the_metadata_is_never_kept() -> None:
    small = saved(Image.new("RGB", (32, 24), (9, 99, 199)), "JPEG")
    data = with_thumbnail(saved(sample(), "JPEG"), small)
    assert small in data
    output, _ = ran(data, metadata="keep", crop_width=8, crop_height=8)
    assert b"Exif" in output
    assert output.count(b"\xff\xd8\xff") == 1


def with_thumbnail(data: bytes, small: bytes) -> bytes:
    """A JPEG with an EXIF block that has a picture."""
    first = struct.pack("<H", 0) + struct.pack("<L", 14)
    entries = [(0x0201, 4, 1, 14 + 2 + 36 + 4), (0x0202, 4, 1, len(small)), (0x0103, 3, 1, 6)]
    entries.sort()
    second = struct.pack("<H", 3) + b"".join(struct.pack("<HHLL", *each) for each in entries)
    tiff = b"II*\0" + struct.pack("<L", 8) + first + second + struct.pack("<L", 0) + small
    block = b"Exif\0\0" + tiff
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + data[2:]


def segment(mark: int, data: bytes) -> bytes:
    """A segment of a JPEG."""
    return bytes((0xFF, mark)) + struct.pack(">H", len(data) + 2) + data


CUTS: tuple[dict[str, Any], ...] = (
    {"crop_width": 8, "crop_height": 8},
    {"width": 9, "height": 20, "fit": "cover"},
)


def test_metadata_that_may_show_what_was_cut_off_is_removed() -> None:
    exif = Image.Exif()
    exif[MAKE] = "the camera"
    exif[0x8769] = {0x927C: b"SECRET of the maker"}
    photoshop = b"8BIM" + struct.pack(">HHL", 0x040C, 0, 14) + b"SECRET as IPTC"
    data = saved(sample(), "JPEG", exif=exif)
    more = segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x>SECRET of XMP</x>")
    more += segment(0xED, b"Photoshop 3.0\0" + photoshop)
    data = data[:2] + more + data[2:]
    assert ran(data, metadata="keep")[0].count(b"SECRET") == 3
    for cut in CUTS:
        output, _ = ran(data, metadata="keep", **cut)
        assert b"SECRET" not in output
        assert b"the camera" in output


def test_texts_of_a_png_are_removed_with_what_was_cut_off() -> None:
    text = PngInfo()
    text.add_text("Raw profile type iptc", "SECRET")
    data = saved(sample(), pnginfo=text)
    assert "SECRET" in picture(data, metadata="keep").info.values()
    for cut in CUTS:
        assert "SECRET" not in picture(data, metadata="keep", **cut).info.values()


# --- damaged objects ------------------------------------------------------------------------------

DAMAGED = {
    "JPEG": saved(sample((96, 64)), "JPEG", quality=90),
    "PNG": saved(sample((96, 64))),
    "WEBP": saved(sample((96, 64)), "WEBP", quality=90),
    "GIF": saved(sample((96, 64)), "GIF"),
    "TIFF": saved(sample((96, 64)), "TIFF", compression="tiff_lzw"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_an_object_that_is_cut_is_an_error(kind: str) -> None:
    data = DAMAGED[kind]
    most = len(data)
    for size in (*range(0, 40, 3), *range(40, most, most // 40), *range(most - 20, most)):
        for parameters in ({}, {"width": 10, "format": "png"}):
            text = failure(data[:size], **parameters)
            assert text.startswith(("the object is damaged", "the object is no JPEG")), size


@pytest.mark.parametrize("storlet", [STORLET, REGION])
@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP"])
def test_frames_and_pages_that_are_cut_off_are_missed(kind: str, storlet: LibraryStorlet) -> None:
    frames = [sample(seed=seed).quantize(64) for seed in (1, 2, 3)]
    options = {"compression": "tiff_lzw"} if kind == "TIFF" else {}
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    # An entry of the directory of a page has 12 bytes: with steps of 7, each of them is an end.
    step = {"TIFF": 1 if settings().max_examples > BRIEF else 7}.get(kind, 23)
    for size in range(12, len(data), step):
        assert "page" in (text := failure(data[:size], storlet)) or "damaged" in text, size


@pytest.mark.parametrize("storlet", [STORLET, REGION])
def test_data_behind_the_end_of_a_picture_are_no_damage(storlet: LibraryStorlet) -> None:
    for kind in ("JPEG", "PNG", "GIF"):
        assert ran(DAMAGED[kind] + b"something else", storlet)[0] == ran(DAMAGED[kind], storlet)[0]
    # A mark of the end within another chunk is none.
    data = saved(sample(), pnginfo=text_of(saved(sample())[-12:].decode("latin-1")))
    assert ran(data, storlet)[0] == ran(saved(sample()), storlet)[0]
    assert "the end of the PNG is missing" in failure(data[:-12], storlet)


def text_of(value: str) -> PngInfo:
    found = PngInfo()
    found.add_text("Comment", value)
    return found


def test_the_end_of_a_gif_is_found_behind_palettes_comments_and_empty_blocks() -> None:
    data = saved(sample().quantize(64), "GIF", comment=b";" * 300)
    for more in (b"", b"\0", b"!\xfe\3;;;\0"):
        whole = data[:-1] + more + b";"
        assert ran(whole)[0] == ran(data)[0]
        assert "damaged" in failure(whole[:-1])


def test_pixels_that_are_missing_in_jpeg_data_of_a_tiff_are_not_grey() -> None:
    data = saved(noise((200, 200)), "TIFF", compression="jpeg")
    with Image.open(io.BytesIO(data)) as image:
        tags = dict(image.tag_v2)  # type: ignore[attr-defined]
    place, size = tags[273][0], tags[279][0]
    for damage in (bytes(size - size // 2), b"\xff\xd9"):
        changed = bytearray(data)
        start = place + size // 2
        changed[start : start + len(damage)] = damage
        for storlet in (STORLET, REGION):
            for parameters in ({}, {"rotate": 90}):
                text = failure(bytes(changed), storlet, **parameters)
                assert text.startswith("the object is damaged: Corrupt JPEG data"), text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(DAMAGED)),
    at=st.floats(0, 1, exclude_max=True),
    change=st.binary(min_size=1, max_size=6),
    storlet=st.sampled_from([STORLET, REGION]),
)
def test_changed_bytes_end_in_a_whole_picture_or_one_error(
    kind: str, at: float, change: bytes, storlet: LibraryStorlet
) -> None:
    data = bytearray(DAMAGED[kind])
    place = int(at * len(data))
    data[place : place + len(change)] = change
    try:
        found = picture(bytes(data), storlet, width=20, format="png", max_megapixels=1)
    except ERROR as error:
        text = str(error)
    else:
        text = ""
        assert 1 <= found.width <= 20
    assert "\n" not in text


def test_pixels_that_are_missing_within_a_jpeg_are_not_grey() -> None:
    data = saved(noise((200, 200)), "JPEG", quality=90)
    # The mark of the end follows on the first half of the data: Pillow shows the rest as grey.
    cut = data[: len(data) // 2] + data[-2:]
    with Image.open(io.BytesIO(cut)) as image:
        image.load()
    assert "the object is damaged" in failure(cut)


def test_a_wrong_checksum_of_a_png_is_an_error() -> None:
    data = bytearray(saved(noise((200, 200))))
    data[len(data) // 2] ^= 1
    assert "the object is damaged" in failure(bytes(data))


def test_nothing_is_written_before_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(noise((300, 300)), "JPEG", quality=95)
    target = Target()
    with pytest.raises(ERROR, match="damaged"):
        run(data[: len(data) // 2], target, {"format": "png"})
    assert not target.data
    monkeypatch.setattr(STORLET.module, "HELD_BYTES", 1000)
    # A large picture: the threads of libvips are a few hundred lines ahead of what is written.
    data = saved(noise((300, 3000)), "JPEG", quality=95)
    with pytest.raises(ERROR, match="damaged"):
        run(data[: len(data) * 9 // 10], target, {"format": "png"})
    assert target.data


class Broken(io.BytesIO):
    """An input that breaks off with an error."""

    def seekable(self) -> bool:
        return False

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if not data:
            raise OSError("the input broke off")
        return data


def run(source: Any, target: Target, given: dict[str, str]) -> None:
    opened = filled(source) if isinstance(source, bytes) else None
    if opened is not None:
        source = SeekableFile({}, opened, len(source))
    try:
        STORLET.module.Image(StorletLogger("", None))([source], [target], STORLET.values(given))
    finally:
        source.close()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_errors_of_input_and_output_are_the_reason(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    data = DAMAGED[kind]
    for size in (len(data) // 2, 13):
        with pytest.raises(OSError, match="the input broke off"):
            run(Broken(data[:size]), Target(), {})
    monkeypatch.setattr(STORLET.module, "HELD_BYTES", 100)
    with pytest.raises(OSError, match="the output is closed"):
        run(saved(noise((400, 400)), kind), Target(most=1000), {"format": "png"})


def test_an_error_of_the_input_is_one_also_when_the_library_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader: Any = STORLET.module.Reader
    begin = reader.begin_pixels

    def break_off(self: Any) -> None:
        """The input breaks off after the header, with which all pixels came."""
        begin(self)
        self.error = OSError("the input broke off")

    monkeypatch.setattr(reader, "begin_pixels", break_off)
    target = Target()
    with pytest.raises(OSError, match="the input broke off"):
        run(saved(Image.new("L", (4, 4)), "JPEG"), target, {"format": "png"})
    assert not target.data


# --- limits ---------------------------------------------------------------------------------------


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">L", len(data)) + name + data + struct.pack(">L", zlib.crc32(name + data))


def png(width: int, height: int, lines: int, interlaced: int = 0) -> bytes:
    """A grey PNG whose header has a size, and whose data have ``lines`` lines."""
    header = struct.pack(">LLBBBBB", width, height, 8, 0, 0, 0, interlaced)
    data = zlib.compress(bytes((width + 1) * lines), 9)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def test_too_many_pixels_are_refused_before_the_first_one() -> None:
    text = failure(png(60_000, 50_000, 1), width=100)
    assert text == (
        "max-megapixels=100: the picture has 60000x50000 pixels, and 3000 million must be decoded"
    )
    image = saved(sample((2000, 1001)), "JPEG")
    assert "and 3 million must be decoded" in failure(image, max_megapixels=2, width=100)
    assert picture(image, max_megapixels=3, width=100).size == (100, 50)
    # Only the lines down to the end of a part are decoded.
    tall = saved(sample((1000, 3000)))
    crop = {"crop_width": 10, "crop_height": 10, "max_megapixels": 1}
    assert picture(tall, **crop).size == (10, 10)
    assert "and 2 million must be decoded" in failure(tall, **crop, crop_top=1000)


def test_pictures_that_a_decoder_keeps_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    most = {"max_megapixels": 2000, "width": 10}
    text = failure(png(20_000, 20_000, 1, interlaced=1), **most)
    assert text.startswith("382 MiB of pixels would be kept in memory, more than 256: ")
    monkeypatch.setitem(WORK, "MOST_PIXEL_BYTES", 1_000_000)
    image = sample((600, 400))
    kept = "would be kept in memory"
    assert kept in failure(saved(image, "JPEG", progressive=True), width=10)
    assert picture(saved(image, "JPEG"), width=10).width == 10
    assert picture(saved(image), width=500).width == 500
    wide = sample((800, 500))
    assert picture(saved(wide), rotate=90, width=100).width == 100
    assert kept in failure(saved(wide), rotate=90)
    for kind in ("WEBP", "GIF"):
        assert kept in failure(saved(wide, kind), width=10)


def test_a_part_of_a_picture_that_is_decoded_whole_does_not_need_less() -> None:
    part: dict[str, Any] = {"crop_width": 10, "crop_height": 10, "max_megapixels": 1}
    refused = "and 3 million must be decoded"
    assert refused in failure(png(2000, 1001, 1, interlaced=1), **part)
    image = Image.new("RGB", (2000, 1001), "teal")
    assert refused in failure(saved(image, "JPEG", progressive=True), **part)
    assert picture(saved(image, "JPEG"), **part).size == (10, 10)
    for kind in ("GIF", "WEBP"):
        assert refused in failure(saved(image, kind), **part)
        assert picture(saved(image, kind), **{**part, "max_megapixels": 3}).size == (10, 10)


def test_tiles_count_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    vips: Any = LIBRARY["pyvips"]
    image = vips.Image.black(600, 600)
    data = image.tiffsave_buffer(tile=True, tile_width=1024, tile_height=1024, compression="lzw")
    part: dict[str, Any] = {"crop_left": 9, "crop_width": 5, "crop_height": 5}
    for storlet in (STORLET, REGION):
        for parameters in ({}, part):
            text = failure(data, storlet, max_megapixels=1, **parameters)
            assert "600x600 pixels, and 2 million must be decoded" in text
            assert picture(data, storlet, max_megapixels=2, **parameters).mode == "L"
    # The tile that is decoded, and the same one as it is kept.
    monkeypatch.setitem(WORK, "MOST_PIXEL_BYTES", 2 << 20)
    assert picture(data, **part).size == (5, 5)
    monkeypatch.setitem(WORK, "MOST_PIXEL_BYTES", (2 << 20) - 1)
    assert "would be kept in memory" in failure(data, **part)


def test_a_webp_is_limited_by_what_its_decoder_and_its_encoder_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = failure(png(16_000, 6_000, 1), format="webp")
    assert text.startswith("412 MiB of pixels would be kept in memory, more than 256: ")
    image = sample((100, 100))
    kept = "would be kept in memory"
    cases: list[tuple[bytes, dict[str, Any], int]] = [
        (saved(image), {"format": "webp"}, 45_000),
        (saved(image.convert("RGBA")), {"format": "webp"}, 65_000),
        (saved(image), {"format": "webp", "rotate": 90}, 75_000),
        (saved(image, "WEBP"), {"format": "png"}, 80_000),
    ]
    for data, parameters, most in cases:
        monkeypatch.setitem(WORK, "MOST_PIXEL_BYTES", most)
        assert picture(data, **parameters).size == (100, 100)
        monkeypatch.setitem(WORK, "MOST_PIXEL_BYTES", most - 1)
        assert kept in failure(data, **parameters)


def test_pages_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [Image.new("L", (2, 2), shade) for shade in range(12)]
    for kind in ("GIF", "TIFF"):
        data = saved(frames[0], kind, save_all=True, append_images=frames[1:])
        assert picture(data, page=12).size == (2, 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(WORK, "MOST_PAGES", 11)
            text = failure(data, page=12)
        assert text == "the object has 12 pages or frames, more than 11"
    wide = [Image.new("L", (1000, 200), 40 * shade) for shade in range(6)]
    data = saved(wide[0], "GIF", save_all=True, append_images=wide[1:])
    assert picture(data, page=5, max_megapixels=1).size == (1000, 200)
    assert "and 2 million must be decoded" in failure(data, page=6, max_megapixels=1)


def test_objects_that_are_kept_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INPUT, "MOST_KEPT_BYTES", 1 << 20)
    monkeypatch.setitem(INPUT, "BLOCK_BYTES", 1 << 18)
    data = saved(noise((800, 600)), "TIFF")
    assert failure(data) == (
        "the object has more than 1 MiB, and TIFF is kept in memory: std:image-region reads a part"
        " of it"
    )
    assert picture(data, REGION, width=10).width == 10
    gif = DAMAGED["GIF"] + bytes(1 << 20)
    for storlet in (STORLET, REGION):
        assert "the object has more than 1 MiB, and GIF" in failure(gif, storlet)
    # JPEG and PNG stream.
    assert picture(saved(noise((1500, 1200))), width=10).width == 10


def test_data_before_the_first_pixel_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INPUT, "MOST_HEADER_BYTES", 1 << 20)
    comment = b"\xff\xfe" + struct.pack(">H", 60_002) + bytes(60_000)
    data = DAMAGED["JPEG"]
    assert picture(data[:2] + comment * 8 + data[2:]).size == (96, 64)
    text = failure(data[:2] + comment * 40 + data[2:])
    assert text == "the first pixel is not within 1 MiB of the object"


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_pixels_of_a_turn_are_not_before_the_first_pixel(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setitem(INPUT, "MOST_HEADER_BYTES", 1 << 16)
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    data = saved(noise((600, 400)), kind, exif=exif, quality=100)
    assert len(data) > 1 << 16
    assert picture(data).size == (400, 600)
    assert picture(data, rotate=90).size == (600, 400)


def test_a_side_that_the_format_does_not_have_is_refused() -> None:
    long = png(20_000, 2, 2)
    assert "format=webp: the result has 20000 pixels on a side" in failure(long, format="webp")
    assert picture(long, format="jpeg").size == (20_000, 2)
    assert picture(png(65_500, 1, 1), format="jpeg").size == (65_500, 1)
    for parameters in ({}, {"rotate": 90}):
        text = failure(png(65_501, 1, 1), format="jpeg", **parameters)
        assert text == (
            "format=jpeg: the result has 65501 pixels on a side, and the format has up to 65500"
        )


@pytest.mark.parametrize("kind", ["PNG", "GIF", "TIFF"])
def test_a_quality_of_a_png_is_refused(kind: str) -> None:
    text = failure(saved(sample(), kind), quality=50)
    assert text == "quality: the result is a PNG, which has none: want another format"
    assert ran(saved(sample(), kind), quality=50, format="webp")[1] == "webp"


@pytest.mark.parametrize("data", [b"", b"x", b"<svg/>", b"%PDF-1.7", b"BM" + bytes(99), b"RIFF"])
def test_other_objects_are_refused(data: bytes) -> None:
    assert failure(data) == "the object is no JPEG, PNG, WebP, GIF or TIFF"


def test_all_conflicts_of_the_parameters() -> None:
    text = failure(
        b"", fit="cover", width=5, crop_width=3, quality=7, format="png", orientation="keep",
        rotate=90,
    )  # fmt: skip
    assert text.split("; ") == [
        "crop-width, crop-height: want both or none",
        "fit=cover: requires width and height",
        "quality: format=png has none, it loses nothing",
        "orientation=keep: requires metadata=keep, because the orientation is metadata",
        "orientation=keep, rotate: a viewer would turn the result once more",
    ]
    assert failure(b"", crop_left=1) == "crop-left, crop-top: want crop-width and crop-height"
    text = failure(saved(sample()), crop_left=60, crop_width=5, crop_height=48)
    assert text == "crop: 5x48 at 60,0 is not within the picture, which has 64x48 pixels"


def test_an_image_without_pyvips_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIBRARY, "pyvips", None)
    text = failure(saved(sample()))
    assert "a change of a picture needs the Python package pyvips" in text
    assert failure(saved(sample()), REGION) == text
    assert "storlets/sandbox-data" in text


# --- memory, and parts of large pictures ----------------------------------------------------------


def test_only_the_tiles_of_a_part_are_read() -> None:
    vips: Any = LIBRARY["pyvips"]
    image = vips.Image.gaussnoise(3000, 3000, mean=128, sigma=30).cast("uchar")
    data = image.tiffsave_buffer(tile=True, tile_width=128, tile_height=128)
    source = SeekableFile({}, filled(data), len(data))
    target = Target()
    crop = {"crop-left": "2000", "crop-top": "1500", "crop-width": "200", "crop-height": "100"}
    values = REGION.values({**crop, "max-megapixels": "1"})
    try:
        REGION.module.Image(StorletLogger("", None))([source], [target], values)
        assert source.bytes_read < len(data) // 10
    finally:
        source.close()
    found = Image.open(io.BytesIO(target.data))
    expected = image.crop(2000, 1500, 200, 100).write_to_memory()
    assert found.tobytes() == bytes(expected)


@cache
def large(kind: str) -> bytes:
    return saved(sample((6000, 4000)), kind)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"width": "300"},
        {"crop-top": "3000", "crop-left": "100", "crop-width": "3000", "crop-height": "500"},
    ],
)
def test_a_large_picture_is_not_kept(tmp_path: Path, kind: str, parameters: dict[str, str]) -> None:
    """24 million pixels, which would be 72 MB.  No thread is new, so the worker is kept, too."""
    path = tmp_path / "picture"
    path.write_bytes(large(kind))
    code = (
        "import os, re, sys\n"
        "from pathlib import Path\n"
        "from tests.library.support import LibraryStorlet\n"
        "storlet = LibraryStorlet('image')\n"
        "given = dict(word.split('=') for word in sys.argv[2:])\n"
        "data = Path(sys.argv[1]).read_bytes()\n"
        # The peak of getrusage would be that of the parent, if it was larger.
        "def peak(): return int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])\n"
        "before = peak()\n"
        "threads = len(os.listdir('/proc/self/task'))\n"
        "storlet.run(data, given)\n"
        "assert len(os.listdir('/proc/self/task')) == threads > 1\n"
        "print(peak() - before)\n"
    )
    words = [f"{name}={value}" for name, value in parameters.items()]
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), *words],
        capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    assert int(done.stdout) < 45 * 1024
