"""The contract: one action for each column, and the change that it makes of a value.

No message has a value: only columns, actions and numbers of lines.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from exact_json import RepeatedKey, unique
from found_text import Finder
from parameters import shown
from refusal import Refusal
from text_kinds import KINDS, Kind

KEEP, DROP, HMAC = "keep", "drop", "hmac"
#: Actions for free text, with the names of kinds after a colon.
FIND, FIND_HMAC = "find", "find-hmac"
#: Actions with a number after a colon: the least number.
NUMBERED = {"mask": 0, "prefix": 1, "band": 1}
ACTIONS = "keep, drop, mask, mask:N, hmac, prefix:N, band:N, year, month, find or find-hmac"
TOKEN_DIGITS = 32
LEAST_KEY_BYTES = 32
MOST_COLUMNS = 1000

Change = Callable[[str], str]


class ContractError(Refusal):
    """The contract, or the data, do not allow a safe result."""


@dataclass(frozen=True)
class Action:
    """The action of one column; ``change`` is ``None`` for the two that change no value.

    ``finder`` has the counts of an action for free text.
    """

    name: str
    change: Change | None = None
    finder: Finder | None = None


def contract_of(text: str, key: bytes | None, declared: Sequence[Kind] = ()) -> dict[str, Action]:
    """The action of each column; ``declared`` are kinds of text beside the known ones.

    :raises ContractError: with every fault.
    """
    given = object_of("columns", "column", text, '{"name": "drop", "born": "year"}')
    if len(given) > MOST_COLUMNS:
        raise ContractError(f"columns: {len(given)} columns: want at most {MOST_COLUMNS}")
    faults: list[str] = []
    found = {}
    for column, action in given.items():
        found[column] = action_of(column, action, key, (*KINDS, *declared), faults)
    if all(action.name == KEEP for action in found.values()) and not faults:
        faults.append("columns: keeps everything: name a column to change or drop")
    used = {name for action in found.values() if action.finder for name in action.finder.counts}
    unused: dict[str, list[str]] = {}
    for kind in declared:
        if kind.name not in used:
            unused.setdefault(kind.parameter, []).append(shown(kind.name))
    faults += [
        f"{parameter}: no column is searched for {', '.join(names[:20])}"
        for parameter, names in unused.items()
    ]
    if faults:
        raise ContractError("; ".join(faults))
    return found


def object_of(parameter: str, member: str, text: str, example: str) -> dict[str, object]:
    """The JSON object in a parameter.

    :raises ContractError: it is none, it is empty, or it has a name twice.
    """
    try:
        given = json.loads(text, object_pairs_hook=unique)
    except RepeatedKey as error:
        raise ContractError(f"{parameter}: a {member} is named twice") from error
    except (ValueError, RecursionError) as error:
        raise ContractError(f"{parameter}: is not JSON: {error}") from error
    if not isinstance(given, dict) or not given:
        raise ContractError(f"{parameter}: want an object such as {example}")
    return given


def action_of(
    column: str, text: object, key: bytes | None, kinds: Sequence[Kind], faults: list[str]
) -> Action:
    """The action of a column; adds what is wrong to ``faults``."""
    name, colon, number = str(text).partition(":")
    if isinstance(text, str) and name in (FIND, FIND_HMAC):
        return search_of(column, text, key, kinds, faults)
    if not isinstance(text, str) or (colon and name not in NUMBERED):
        faults.append(f"columns: {shown(column)}: {shown(str(text))}: want {ACTIONS}")
        return Action(KEEP)
    if name in (KEEP, DROP):
        return Action(name)
    if name == HMAC:
        secret = key_for(column, name, key, faults)
        return Action(name, lambda value: token(value, secret))
    if name in ("year", "month"):
        length = len("2026") if name == "year" else len("2026-11")
        return Action(name, lambda value: date_of(value)[:length])
    least = NUMBERED.get(name)
    count = number_of(number) if colon else (0 if name == "mask" else None)
    if least is None or count is None or count < least:
        faults.append(f"columns: {shown(column)}: {shown(text)}: want {ACTIONS}")
        return Action(KEEP)
    changes: dict[str, Change] = {
        "mask": lambda value: masked(value, count),
        "prefix": lambda value: value[:count],
        "band": lambda value: band_of(value, count),
    }
    return Action(name, changes[name])


def search_of(
    column: str, text: str, key: bytes | None, kinds: Sequence[Kind], faults: list[str]
) -> Action:
    """The action for free text; without names of kinds it finds all of them."""
    name, colon, listed = text.partition(":")
    known = [kind.name for kind in kinds]
    wanted = [each.strip() for each in listed.split(",")] if colon else known
    unknown = [shown(each) for each in wanted if each not in known]
    if unknown:
        faults.append(
            f"columns: {shown(column)}: {name} has no pattern {', '.join(unknown[:20])}: "
            f"want {', '.join(known)}; the parameter presidio declares those of Presidio"
        )
        return Action(KEEP)
    secret = key_for(column, name, key, faults) if name == FIND_HMAC else None

    def replaced(kind: str, found: str) -> str:
        label = kind.upper()
        return f"[{label}]" if secret is None else f"[{label} {token(found, secret)}]"

    finder = Finder([kind for kind in kinds if kind.name in wanted], replaced)
    return Action(name, finder.changed, finder)


def key_for(column: str, action: str, key: bytes | None, faults: list[str]) -> bytes:
    """The key of an action with tokens; adds what is wrong to ``faults``."""
    if key is None:
        faults.append(f"columns: {shown(column)}: {action} needs the parameter key")
    elif len(key) < LEAST_KEY_BYTES:
        faults.append(f"key: the secret has {len(key)} bytes: want {LEAST_KEY_BYTES} or more")
    return key or b""


def number_of(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else None


def token(value: str, key: bytes) -> str:
    """The first 32 hexadecimal digits of HMAC-SHA-256: the same for the same value and key."""
    digest = hmac.digest(key, value.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return digest.hex()[:TOKEN_DIGITS]


def masked(value: str, kept: int) -> str:
    """Stars, and the last ``kept`` characters; all stars if half of the value would be shown."""
    kept = kept if 2 * kept < len(value) else 0
    return "*" * (len(value) - kept) + (value[-kept:] if kept else "")


def date_of(value: str) -> str:
    """A date, or a time, as ``2026-11-26``.

    :raises ValueError: it is none.
    """
    return datetime.datetime.fromisoformat(value.strip()).date().isoformat()


def band_of(value: str, width: int) -> str:
    """The band of a whole number: with the width 10, 37 is in ``30-39``.

    :raises ValueError: it is none.
    """
    if not re.fullmatch(r"-?[0-9]{1,18}", value.strip(), re.ASCII):
        raise ValueError("no whole number")
    first = int(value) // width * width
    return f"{first}-{first + width - 1}" if width > 1 else str(first)
