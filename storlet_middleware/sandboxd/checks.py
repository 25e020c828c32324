"""Validation of requests: names must be safe in paths, arguments and labels.

The filter validates uploads as well; everything is checked again here, because names become parts
of paths that root opens.  All faults of a request are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from storlet_daemon.protocol import messages
from storlet_middleware.errors import BadRequest

ACCOUNT_BYTES: Final = 1024
NAME_BYTES: Final = 255
MAIN_BYTES: Final = 1024
DEPENDENCIES_MAX: Final = 128
#: All names of a storlet together: they must fit into one message to the supervisor.
NAMES_BYTES: Final = 24 * 1024
ARGUMENTS_MAX: Final = 128
ARGUMENTS_BYTES: Final = 4096


def check_account(account: str) -> None:
    """Raise :class:`BadRequest` for an invalid account name."""
    _refuse(_text_faults("account", account, ACCOUNT_BYTES))


def check_storlet(account: str, storlet: messages.Storlet, languages: Iterable[str]) -> None:
    """Raise :class:`BadRequest` with all faults of a request to load ``storlet``."""
    faults = _text_faults("account", account, ACCOUNT_BYTES)
    faults += _name_faults("storlet.name", storlet.name, NAME_BYTES)
    faults += _name_faults("storlet.file", storlet.file, NAME_BYTES)
    faults += _name_faults("storlet.main", storlet.main, MAIN_BYTES)
    if storlet.language_version is not None:
        faults += _name_faults("storlet.language_version", storlet.language_version, 16)
    for position, name in enumerate(storlet.dependencies[: DEPENDENCIES_MAX + 1]):
        faults += _name_faults(f"storlet.dependencies[{position}]", name, NAME_BYTES)
    if len(storlet.dependencies) > DEPENDENCIES_MAX:
        faults.append(
            f"storlet.dependencies: {len(storlet.dependencies)} names, at most {DEPENDENCIES_MAX}"
        )
    faults += _argument_faults(storlet.arguments)
    if storlet.language not in languages:
        faults.append(f"storlet.language must be one of {', '.join(languages)}")
    if (
        not faults
        and _size([storlet.main, storlet.file, storlet.name, *storlet.dependencies]) > NAMES_BYTES
    ):
        faults.append(f"all names together have more than {NAMES_BYTES} bytes")
    _refuse(faults)


def _refuse(faults: list[str]) -> None:
    if faults:
        raise BadRequest(messages.one_line("; ".join(faults)))


def _text_faults(where: str, text: str, limit: int) -> list[str]:
    if not text or len(text.encode("utf-8", "replace")) > limit:
        return [f"{where} must have 1 to {limit} bytes"]
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in text):
        return [f"{where} contains control characters"]
    return []


def _name_faults(where: str, name: str, limit: int) -> list[str]:
    faults = _text_faults(where, name, limit)
    if "/" in name or name in {".", ".."}:
        faults.append(f"{where} is not a plain name")
    if name.startswith("-"):
        faults.append(f"{where} begins with '-'")
    return faults


def _argument_faults(arguments: Sequence[str]) -> list[str]:
    """Arguments of a program may be any texts, but they must fit into one message."""
    if any("\0" in text for text in arguments):
        return ["storlet.arguments contains a NUL"]
    if len(arguments) > ARGUMENTS_MAX or _size([*arguments]) > ARGUMENTS_BYTES:
        return [f"storlet.arguments: at most {ARGUMENTS_MAX} of together {ARGUMENTS_BYTES} bytes"]
    return []


def _size(names: list[str]) -> int:
    return sum(len(name.encode("utf-8", "replace")) for name in names)
