"""Thumbnails, parts, turns and conversions of pictures, with libvips.

The limits are checked before a pixel is decoded.  The output begins when ``HELD_BYTES`` of it are
there, or all of it: so most damaged objects end in an error before any output.
"""

from __future__ import annotations

from typing import Any

from image_input import NAMES, Reader
from image_library import DamageLog, explained, library
from image_request import Request, request_of
from image_work import changed

HELD_BYTES = 8 << 20


class Image:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        request = request_of(params)
        # Before the object is looked at: without the library, that is the reason.
        library()
        # The library logs what is wrong in a TIFF's JPEG data, also while it computes a turn.
        with DamageLog() as damage:
            change(request, Reader(in_files[0]), out_files[0], damage)


def change(request: Request, reader: Reader, target: Any, damage: DamageLog) -> None:
    """Write the picture that ``request`` describes."""
    vips = library()
    picture, result = changed(reader, request)
    target.set_metadata(
        {
            "Content-Type": f"image/{picture.format}",
            "Width": str(result.width),
            "Height": str(result.height),
        }
    )
    output = Output(target)
    try:
        picture.write(result, output.vips_target())
    except vips.Error as error:
        reader.require_no_error()
        output.require_no_error()
        raise explained(error, NAMES[reader.kind]) from None
    # The library can succeed without the bytes whose read failed.
    reader.require_no_error()
    damage.require_none()
    if request.part is None:
        reader.require_end()
    output.finish()


class Output:
    """The output, whose first bytes are held back.

    A call from the library cannot raise: an error is kept, and the library ends.
    """

    def __init__(self, target: Any) -> None:
        self._target = target
        self._held: list[bytes] = []
        self._size = 0
        self._error: Exception | None = None

    def vips_target(self) -> Any:
        """The output for an encoder of the library."""
        custom = library().TargetCustom()
        custom.on_write(self._write_for_library)
        return custom

    def finish(self) -> None:
        """Write what is held back: the picture is whole."""
        for block in self._held:
            self._target.write(block)

    def require_no_error(self) -> None:
        """Raise the error of a call from the library."""
        if self._error is not None:
            raise self._error

    def _write_for_library(self, data: Any) -> int:
        try:
            self._held.append(bytes(data))
            self._size += len(data)
            if self._size > HELD_BYTES:
                self.finish()
                self._held.clear()
        except Exception as error:  # raised in the main thread
            self._error = error
            return -1
        return len(data)
