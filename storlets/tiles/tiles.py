"""Cut a picture into tiles and make a thumbnail of it, in one run.

The first output is the thumbnail; the others, the objects in ``X-Storlet-Output``, are the tiles
from left to right and from top to bottom.  Pictures are PNG with 8 bits a channel, without a
palette and without interlacing.  Parameters::

    columns   number of tiles side by side             default: "2"
    size      width and height of the thumbnail        default: "64"
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Bytes of a pixel by the type of its colour: grey, colour, and both with transparency.
PIXELS = {0: 1, 2: 3, 4: 2, 6: 4}


class Tiles:
    """Streams: memory use depends on the width of the picture, not on its height."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Read the picture once, and write each row into the thumbnail and the tiles."""
        picture = Picture(in_files[0])
        columns, size = int(params.get("columns", "2")), int(params.get("size", "64"))
        if columns < 1 or size < 1:
            raise ValueError("columns and size must be positive")
        lines, rest = divmod(len(out_files) - 1, columns)
        if rest:
            raise ValueError(f"{len(out_files) - 1} tiles are no grid of {columns} columns")
        # The thumbnail has one pixel of each ``step``, and one row.
        step = max(1, -(-max(picture.width, picture.height) // size))
        small = (-(-picture.width // step), -(-picture.height // step))
        thumbnail = Writer(out_files[0], *small, picture.colour)
        left, top = edges(picture.width, columns), edges(picture.height, lines)
        tiles = [
            [
                Writer(
                    out_files[1 + line * columns + column],
                    left[column + 1] - left[column],
                    top[line + 1] - top[line],
                    picture.colour,
                )
                for column in range(columns)
            ]
            for line in range(lines)
        ]
        line, width = 0, picture.pixel
        for number, row in enumerate(picture.rows()):
            if number % step == 0:
                starts = range(0, len(row), step * width)
                thumbnail.write(b"".join(row[at : at + width] for at in starts))
            if not tiles:
                continue
            if number == top[line + 1]:
                line += 1
            for column, tile in enumerate(tiles[line]):
                tile.write(row[left[column] * width : left[column + 1] * width])
        for writer in (thumbnail, *(tile for row in tiles for tile in row)):
            writer.end()


def edges(length: int, parts: int) -> list[int]:
    """The borders of ``parts`` parts that differ by one pixel at most."""
    if parts > length:
        raise ValueError(f"{length} pixels cannot be cut into {parts} parts")
    return [length * part // parts for part in range(parts + 1)] if parts else [0]


class Picture:
    """Reads a PNG row by row."""

    def __init__(self, source: Any) -> None:
        self._source = source
        if self._exactly(len(SIGNATURE)) != SIGNATURE:
            raise ValueError("the object is no PNG picture")
        _, header = self._chunk()
        self.width, self.height, depth, self.colour, _, _, interlaced = struct.unpack(
            ">IIBBBBB", header
        )
        if depth != 8 or self.colour not in PIXELS or interlaced:
            raise ValueError("want 8 bits a channel, without a palette and without interlacing")
        self.pixel = PIXELS[self.colour]

    def rows(self) -> Iterator[bytes]:
        """The pixels of each row; raises if the picture is not complete."""
        size = self.width * self.pixel
        row, count, waiting = bytes(size), 0, bytearray()
        for data in self._pixels():
            waiting += data
            while len(waiting) > size and count < self.height:
                row = unfiltered(waiting[0], waiting[1 : size + 1], row, self.pixel)
                del waiting[: size + 1]
                count += 1
                yield row
        if count != self.height:
            raise ValueError(f"the picture has {count} rows of {self.height}")

    def _pixels(self) -> Iterator[bytes]:
        unpacker = zlib.decompressobj()
        while True:
            kind, data = self._chunk()
            if kind == b"IEND":
                return
            if kind == b"IDAT":
                yield unpacker.decompress(data)

    def _chunk(self) -> tuple[bytes, bytes]:
        length, kind = struct.unpack(">I4s", self._exactly(8))
        data = self._exactly(length)
        if struct.unpack(">I", self._exactly(4))[0] != zlib.crc32(kind + data):
            raise ValueError("the picture is damaged")
        return kind, data

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self._source.read(size - len(found))
            if not more:
                raise ValueError("the picture ends early")
            found += more
        return found


def unfiltered(kind: int, row: bytearray, above: bytes, pixel: int) -> bytes:
    """The pixels of a row, which PNG stores as differences to their neighbours."""
    for at in range(len(row)) if kind else ():
        left = row[at - pixel] if at >= pixel else 0
        corner = above[at - pixel] if at >= pixel else 0
        up = above[at]
        predicted = (0, left, up, (left + up) // 2, nearest(left, up, corner))[kind]
        row[at] = (row[at] + predicted) & 255
    return bytes(row)


def nearest(left: int, up: int, corner: int) -> int:
    """The neighbour that is nearest to ``left + up - corner`` (Paeth)."""
    wanted = left + up - corner
    return min((left, up, corner), key=lambda each: abs(wanted - each))


class Writer:
    """Writes a PNG row by row into an output."""

    def __init__(self, output: Any, width: int, height: int, colour: int) -> None:
        self._output = output
        self._packer = zlib.compressobj()
        output.set_metadata(
            {"Content-Type": "image/png", "Width": str(width), "Height": str(height)}
        )
        output.write(SIGNATURE)
        self._chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))

    def write(self, row: bytes) -> None:
        """Add the pixels of a row."""
        data = self._packer.compress(b"\0" + row)
        if data:
            self._chunk(b"IDAT", data)

    def end(self) -> None:
        """Complete the picture."""
        self._chunk(b"IDAT", self._packer.flush())
        self._chunk(b"IEND", b"")

    def _chunk(self, kind: bytes, data: bytes) -> None:
        self._output.write(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )
