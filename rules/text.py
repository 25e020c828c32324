"""The text of a rules object as a tree of values, each with its place; what YAML can do beyond that is refused.

YAML is read event by event and put together here, because its own loader would do what rules must not depend on:

- it guesses types: ``no`` would be false, ``22:00`` the number 1320, ``2026-01-01`` a date, and the key ``on`` would be true.
  Here a scalar keeps its text, and :class:`Scalar` says what YAML takes it for, so that whoever wants a string can ask for
  quotes;
- it takes the last of several equal keys without a word;
- anchors, aliases, merge keys and tags make a text mean something else than it says, and a small one a huge one.

A text is refused unread that is longer than :data:`MAX_BYTES`, and no further read that nests deeper than :data:`MAX_NESTING`
or has more than :data:`MAX_VALUES` values: whoever may upload rules must not be able to keep a proxy busy with them.

PyYAML's own reader is used, also where it has libyaml: the two do not accept the same (``[x:[y]]``, ``[a?b]``, tabs), and a text that
one proxy takes and another one refuses would be two sets of rules.  A thousand rules take it 0.4 s and the worst
text that was measured 1.2 s, once for a version; libyaml would take a fifth.  Tabs stay refused, as other readers of the same
file disagree about them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

import yaml

from rules.faults import Faults, quoted
from rules.model import Place

MAX_BYTES: Final = 1 << 20
MAX_NESTING: Final = 20
MAX_VALUES: Final = 100_000


class Guess(Enum):
    """What YAML takes a scalar for."""

    STRING = "a string"
    NUMBER = "a number"
    TRUTH = "true or false"
    NOTHING = "nothing"
    OTHER = "a date or something else of YAML's"


@dataclass(frozen=True)
class Scalar:
    text: str
    guess: Guess
    place: Place


@dataclass(frozen=True)
class Sequence:
    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True)
class Mapping:
    """Keys are texts, whatever YAML takes them for, and each occurs once."""

    entries: tuple[tuple[Scalar, Node], ...]
    place: Place

    def __contains__(self, key: str) -> bool:
        return any(key == known.text for known, _ in self.entries)


Node: TypeAlias = Scalar | Sequence | Mapping


class _StoppedError(Exception):
    """The rest of the text cannot be read."""


def read(text: bytes | str, faults: Faults) -> Node | None:
    """The tree, or ``None`` when the text cannot be read to its end."""
    decoded = _decode(text, faults)
    if decoded is None:
        return None
    loader: Any = yaml.SafeLoader(decoded)
    try:
        return _Composer(loader, faults).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        said = ", ".join(part for part in (error.context, error.problem) if part)
        faults.add("syntax", place, f"this is not YAML: {said}", _SYNTAX_HELP)
    except yaml.YAMLError as error:
        faults.add(
            "syntax", Place(1, 1), f"this is not YAML: {str(error).splitlines()[0]}", _SYNTAX_HELP
        )
    except (
        ValueError,
        OverflowError,
    ):  # it makes a character or a number of what is neither, and does not look
        mark = loader.get_mark()
        said = "an escape or a directive here has a number that is too large"
        faults.add(
            "syntax", Place(mark.line + 1, mark.column + 1), said, "write the character itself"
        )
    except _StoppedError:
        pass
    return None


_SYNTAX_HELP: Final = (
    "look for a missing quote, bracket or colon here or in the line above; indent with spaces, never with tabs;"
    " quote what has one of ? : # { } [ ] * & ! % @ ` in it"
)


def _decode(text: bytes | str, faults: Faults) -> str | None:
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(encoded) > MAX_BYTES:
        help_ = "use globs, prefixes and lists in place of a rule for each name"
        faults.add(
            "size.bytes", Place(1, 1), f"the rules are longer than {MAX_BYTES:,} bytes", help_
        )
        return None
    try:
        decoded = encoded.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = encoded[: error.start].decode("utf-8")
        faults.add("syntax", _place_after(before), "this is not UTF-8", "save the file as UTF-8")
        return None
    control = _CONTROL.search(decoded)
    if control:
        code = f"U+{ord(control[0]):04X}"
        faults.add(
            "syntax",
            _place_after(decoded[: control.start()]),
            f"the character {code} must not be here",
            "remove it",
        )
        return None
    text = _json_as_yaml(decoded)
    tab = text.find("\t")
    if tab >= 0:
        help_ = "indent with spaces; a tab that is meant is written \\t, in double quotes"
        faults.add(
            "syntax",
            _place_after(text[:tab]),
            "a tab is here, and readers of YAML disagree about tabs",
            help_,
        )
        return None
    return text


#: What YAML refuses unescaped.  PyYAML would say so without the line.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufeff\ufffe\uffff]")
_SURROGATES: Final = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE
)

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _place_after(before: str) -> Place:
    lines = before.split("\n")
    return Place(len(lines), len(lines[-1]) + 1)


def _json_as_yaml(text: str) -> str:
    r"""JSON is YAML but for two things: tabs between values, and characters written as two ``\u`` escapes."""
    if not text.lstrip().startswith("{") or not ("\t" in text or _SURROGATES.search(text)):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _SURROGATES.sub(
        _one_character, text.replace("\t", " ")
    )  # JSON has no tab within a string


def _one_character(match: re.Match[str]) -> str:
    pair = bytes.fromhex(match[2] + match[3])
    return match[1] + pair.decode("utf-16-be")


class _Composer:
    """Puts a tree together from events."""

    def __init__(self, loader: Any, faults: Faults) -> None:
        self._events = _events(loader)
        self._faults = faults
        self._values = 0

    def document(self) -> Node | None:
        next(self._events)  # the stream begins
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        root = self._node(next(self._events), 0)
        next(self._events)  # the document ends
        following = next(self._events)
        if not isinstance(following, yaml.StreamEndEvent):
            self._faults.add(
                "syntax.unsupported",
                _place(following),
                "a second document begins here",
                "leave one of them",
            )
        return root

    def _node(self, event: Any, depth: int) -> Node:
        place = _place(event)
        self._limit(depth, place)
        if isinstance(event, yaml.AliasEvent):
            help_ = "write the value out, or quote it when it is meant as a string"
            self._faults.add(
                "syntax.unsupported",
                place,
                f"{quoted('*' + event.anchor)} refers to an anchor",
                help_,
            )
            return Scalar("", Guess.STRING, place)
        self._refuse_decoration(event, place)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, place)
        if isinstance(event, yaml.SequenceStartEvent):
            return Sequence(tuple(self._items(depth)), place)
        return Mapping(tuple(self._entries(depth)), place)

    def _limit(self, depth: int, place: Place) -> None:
        self._values += 1
        if depth > MAX_NESTING:
            self._faults.add(
                "size.nesting",
                place,
                f"nested deeper than {MAX_NESTING}",
                "split the rule into several",
            )
            raise _StoppedError
        if self._values > MAX_VALUES:
            help_ = "use globs, prefixes and lists in place of a rule for each name"
            self._faults.add(
                "size.values", place, f"there are more than {MAX_VALUES:,} values", help_
            )
            raise _StoppedError

    def _refuse_decoration(self, event: Any, place: Place) -> None:
        if event.anchor:
            help_ = "leave it away, or quote the value when it is meant as a string"
            self._faults.add(
                "syntax.unsupported", place, f"{quoted('&' + event.anchor)} sets an anchor", help_
            )
        if event.tag:
            help_ = "leave it away, or quote the value when it is meant as a string"
            self._faults.add(
                "syntax.unsupported", place, f"the tag {quoted(event.tag)} is not supported", help_
            )

    def _scalar(self, event: Any, place: Place) -> Scalar:
        if _LONE_SURROGATE.search(event.value):
            self._faults.add(
                "syntax", place, "an escape here is half a character", "write the character itself"
            )
        return Scalar(event.value, _guess(event), place)

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _entries(self, depth: int) -> Iterator[tuple[Scalar, Node]]:
        seen: dict[str, Place] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            if not isinstance(key, Scalar):
                self._faults.add(
                    "value.type", key.place, "a list or mapping cannot be a key", "write a name"
                )
            elif key.text in seen:
                text = f"{quoted(key.text)} is here a second time, after line {seen[key.text].line}"
                self._faults.add(
                    "key.duplicate",
                    key.place,
                    text,
                    "leave one of them, or make a list of their values",
                )
            else:
                seen[key.text] = key.place
                yield key, value


def _events(loader: Any) -> Iterator[Any]:
    while loader.check_event():
        yield loader.get_event()


def _place(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


_GUESSES: Final = {
    "null": Guess.NOTHING,
    "bool": Guess.TRUTH,
    "int": Guess.NUMBER,
    "float": Guess.NUMBER,
}


def _guess(event: Any) -> Guess:
    """By PyYAML's own table of what an unquoted scalar may be."""
    if event.style or not event.implicit[0]:
        return Guess.STRING
    for tag, pattern in yaml.SafeLoader.yaml_implicit_resolvers.get(event.value[:1], ()):
        if pattern.match(event.value):
            return _GUESSES.get(tag.rpartition(":")[2], Guess.OTHER)
    return Guess.STRING
