"""Sizes and places: the orientation of a camera, parts of a picture, and bounds of a result.

The orientations are those of EXIF, 1 to 8: how the stored pixels must be turned and mirrored.
"""

from __future__ import annotations

from image_request import Box, ImageError, Request

#: Orientations whose stored rows are columns of the upright picture.
_SWAPPED = (5, 6, 7, 8)
#: Orientations whose stored pixels are mirrored from left to right, and from top to bottom.
_MIRRORED_X = (2, 3, 7, 8)
_MIRRORED_Y = (3, 4, 6, 7)
#: Factors by which a decoder of JPEG or WebP can shrink.
_FACTORS = (8, 4, 2)
Size = tuple[int, int]


def stored_part(part: Box, stored: Size, orientation: int) -> Box:
    """Where ``part`` of the upright picture is in the stored one.

    :raises ImageError: it is not within the picture.
    """
    width, height = swapped(stored) if orientation in _SWAPPED else stored
    if part.left + part.width > width or part.top + part.height > height:
        raise ImageError(
            f"crop: {part.width}x{part.height} at {part.left},{part.top} is not within the"
            f" picture, which has {width}x{height} pixels"
        )
    left, top, size = part.left, part.top, (part.width, part.height)
    if orientation in _SWAPPED:
        left, top, size = top, left, swapped(size)
    if orientation in _MIRRORED_X:
        left = stored[0] - left - size[0]
    if orientation in _MIRRORED_Y:
        top = stored[1] - top - size[1]
    return Box(left, top, *size)


def stored_bounds(request: Request, orientation: int) -> Size:
    """The bounds of the result, as they are for pixels that are not turned yet."""
    bounds = (request.width, request.height)
    is_swapped = (orientation in _SWAPPED) != (request.rotate in {90, 270})
    return swapped(bounds) if is_swapped else bounds


def resized(size: Size, bounds: Size, *, is_cover: bool) -> Size:
    """The size of a picture that is within ``bounds``, or covers them; it is never larger."""
    ratios = [bound / length for length, bound in zip(size, bounds) if bound]
    ratio = min(1.0, (max if is_cover else min)(ratios, default=1.0))
    width, height = (max(1, round(length * ratio)) for length in size)
    return width, height


def shrink_on_load(size: Size, target: Size) -> int:
    """The factor by which a decoder may shrink; the last factor of two is for a better filter."""
    shrink = min(size[0] / target[0], size[1] / target[1])
    return next((factor for factor in _FACTORS if 2 * factor <= shrink), 1)


def tiles_of(part: Box, tile: Size) -> Size:
    """How many tiles across and down have pixels of ``part``."""
    across = (part.left + part.width - 1) // tile[0] - part.left // tile[0] + 1
    down = (part.top + part.height - 1) // tile[1] - part.top // tile[1] + 1
    return across, down


def centre(size: Size, bounds: Size) -> Box:
    """The part of a picture around its centre that is within ``bounds``."""
    width, height = (min(length, bound) for length, bound in zip(size, bounds))
    return Box((size[0] - width) // 2, (size[1] - height) // 2, width, height)


def swapped(size: Size) -> Size:
    """Width and height of a picture that was turned by a quarter."""
    return size[1], size[0]
