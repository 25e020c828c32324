"""The parameters of a run; one error names all their conflicts."""

from __future__ import annotations

from dataclasses import dataclass

from refusal import Refusal

MILLION = 1_000_000


class ImageError(Refusal):
    """The parameters conflict, or the object is no picture that can be changed so."""


@dataclass(frozen=True)
class Box:
    """A part of a picture, in pixels."""

    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True)
class Request:
    """The parameters of a run.

    :ivar width: most pixels of the result from left to right, or 0.
    :ivar height: most pixels of the result from top to bottom, or 0.
    :ivar part: the part of the upright picture to keep, or None for all of it.
    :ivar page: the number of a page or frame, from 1, or 0 if there must be only one.
    :ivar most_pixels: how many pixels may be decoded.
    """

    width: int
    height: int
    is_cover: bool
    part: Box | None
    rotate: int
    format: str
    quality: int
    keeps_metadata: bool
    is_upright: bool
    page: int
    most_pixels: int


def request_of(params: dict[str, str]) -> Request:
    """The parameters, whose types and ranges the manifest has checked.

    :raises ImageError: with every conflict between them.
    """
    left, top, width, height = (
        int(params[f"crop-{name}"]) for name in ("left", "top", "width", "height")
    )
    request = Request(
        width=int(params["width"]),
        height=int(params["height"]),
        is_cover=params["fit"] == "cover",
        part=Box(left, top, width, height) if width and height else None,
        rotate=int(params["rotate"]),
        format=params["format"],
        quality=int(params["quality"]),
        keeps_metadata=params["metadata"] == "keep",
        is_upright=params["orientation"] == "apply",
        page=int(params["page"]),
        most_pixels=int(params["max-megapixels"]) * MILLION,
    )
    faults = []
    if bool(width) != bool(height):
        faults.append("crop-width, crop-height: want both or none")
    elif (left or top) and not width:
        faults.append("crop-left, crop-top: want crop-width and crop-height")
    if request.is_cover and not (request.width and request.height):
        faults.append("fit=cover: requires width and height")
    if request.quality and request.format == "png":
        faults.append("quality: format=png has none, it loses nothing")
    if not request.is_upright and not request.keeps_metadata:
        faults.append("orientation=keep: requires metadata=keep, because the orientation is metadata")
    if not request.is_upright and request.rotate:
        faults.append("orientation=keep, rotate: a viewer would turn the result once more")
    if faults:
        raise ImageError("; ".join(faults))
    return request
