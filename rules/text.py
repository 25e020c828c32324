"""A safe subset of YAML: parses the text of a rules object into a tree of nodes with positions.

The tree is composed from PyYAML's events, because PyYAML's loader has features that rules must not
depend on:

- it infers types: ``no`` is false, ``22:00`` is the number 1320, ``2026-01-01`` is a date, and the
  key ``on`` is true.  Here a scalar keeps its text, and :class:`Scalar` records the type that YAML
  infers, so that the parser can require quotes where a string is expected;
- it silently uses the last of several equal keys;
- anchors, aliases, merge keys and tags hide the meaning of a text, and make a small text huge.

A text longer than :data:`MAX_BYTES` is refused without parsing.  Parsing stops at nesting deeper
than :data:`MAX_NESTING` or at more than :data:`MAX_VALUES` values.  This bounds the CPU time that
an upload of rules can cost a proxy.

PyYAML's pure-Python parser is used even if libyaml is available: the two accept different texts
(``[x:[y]]``, ``[a?b]``, tabs), and a text that one proxy accepts and another refuses would be two
rule sets.  A thousand rules take 0.4 s, the measured worst case 1.2 s, once for a ruleset version;
libyaml would take a fifth.  Tabs are refused, because YAML parsers disagree about them.
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
    """The type that YAML infers for a scalar."""

    STRING = "a string"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    NULL = "empty"
    OTHER = "a date or another YAML type"


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
    """Keys are unique strings; the type that YAML infers is ignored."""

    entries: tuple[tuple[Scalar, Node], ...]
    place: Place

    def __contains__(self, key: str) -> bool:
        return any(key == known.text for known, _ in self.entries)


Node: TypeAlias = Scalar | Sequence | Mapping


class _StoppedError(Exception):
    """Stops parsing; a fault has been added."""


@dataclass(frozen=True)
class Subject:
    """The subject of a text, for the faults of its size.

    :param name: the subject, in the plural.
    :param shorter: how to make it shorter.
    :param flatter: how to nest it less.
    """

    name: str
    shorter: str
    flatter: str


RULES: Final = Subject(
    "the rules",
    "use globs, prefixes and lists instead of one rule for each name",
    "split the rule into several rules",
)


def read(text: bytes | str, faults: Faults, subject: Subject = RULES) -> Node | None:
    """The tree, or ``None`` if the text cannot be parsed to its end."""
    decoded = _decode(text, faults, subject)
    if decoded is None:
        return None
    loader: Any = yaml.SafeLoader(decoded)
    try:
        return _Composer(loader, faults, subject).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        faults.add("syntax", place, f"invalid YAML: {problem}", _SYNTAX_HELP)
    except yaml.YAMLError as error:
        problem = str(error).splitlines()[0]
        faults.add("syntax", Place(1, 1), f"invalid YAML: {problem}", _SYNTAX_HELP)
    except (ValueError, OverflowError):
        # PyYAML converts numbers in escapes and directives without a range check.
        mark = loader.get_mark()
        place = Place(mark.line + 1, mark.column + 1)
        problem = "an escape or a directive here has a number that is too large"
        faults.add("syntax", place, problem, "write the character itself")
    except _StoppedError:
        pass
    return None


_SYNTAX_HELP: Final = (
    "check for a missing quote, bracket or colon here or in the line above; indent with spaces, not"
    " tabs; quote values that contain one of ? : # { } [ ] * & ! % @ `"
)


def _decode(text: bytes | str, faults: Faults, subject: Subject) -> str | None:
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(encoded) > MAX_BYTES:
        problem = f"{subject.name} are longer than {MAX_BYTES:,} bytes"
        faults.add("size.bytes", Place(1, 1), problem, subject.shorter)
        return None
    try:
        decoded = encoded.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = encoded[: error.start].decode("utf-8")
        faults.add(
            "syntax", _place_after(before), "the text is not UTF-8", "save the file as UTF-8"
        )
        return None
    control = _CONTROL.search(decoded)
    if control:
        place = _place_after(decoded[: control.start()])
        problem = f"the character U+{ord(control[0]):04X} is not allowed"
        faults.add("syntax", place, problem, "remove it")
        return None
    text = _json_as_yaml(decoded)
    tab = text.find("\t")
    if tab >= 0:
        problem = "tabs are not allowed, because YAML parsers disagree about them"
        help_ = "indent with spaces; write a literal tab as \\t, in double quotes"
        faults.add("syntax", _place_after(text[:tab]), problem, help_)
        return None
    return text


#: Characters that YAML refuses unescaped; PyYAML's error would lack the line.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufeff\ufffe\uffff]")
_SURROGATES: Final = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE
)

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _place_after(before: str) -> Place:
    lines = before.split("\n")
    return Place(len(lines), len(lines[-1]) + 1)


def _json_as_yaml(text: str) -> str:
    r"""Convert what PyYAML refuses in JSON: tabs, and surrogate pairs of ``\u`` escapes."""
    if not text.lstrip().startswith("{") or not ("\t" in text or _SURROGATES.search(text)):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    # JSON has no literal tab within a string.
    return _SURROGATES.sub(_one_character, text.replace("\t", " "))


def _one_character(match: re.Match[str]) -> str:
    pair = bytes.fromhex(match[2] + match[3])
    return match[1] + pair.decode("utf-16-be")


class _Composer:
    """Composes the tree from YAML events."""

    def __init__(self, loader: Any, faults: Faults, subject: Subject) -> None:
        self._events = _events(loader)
        self._faults = faults
        self._subject = subject
        self._values = 0

    def document(self) -> Node | None:
        next(self._events)  # start of the stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        root = self._node(next(self._events), 0)
        next(self._events)  # end of the document
        following = next(self._events)
        if not isinstance(following, yaml.StreamEndEvent):
            problem = "a second document starts here"
            self._faults.add("syntax.unsupported", _place(following), problem, "keep one of them")
        return root

    def _node(self, event: Any, depth: int) -> Node:
        place = _place(event)
        self._limit(depth, place)
        if isinstance(event, yaml.AliasEvent):
            problem = f"{quoted('*' + event.anchor)} refers to an anchor"
            help_ = "write out the value, or quote it if it is a string"
            self._faults.add("syntax.unsupported", place, problem, help_)
            return Scalar("", Guess.STRING, place)
        self._refuse_anchor_and_tag(event, place)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, place)
        if isinstance(event, yaml.SequenceStartEvent):
            return Sequence(tuple(self._items(depth)), place)
        return Mapping(tuple(self._entries(depth)), place)

    def _limit(self, depth: int, place: Place) -> None:
        self._values += 1
        if depth > MAX_NESTING:
            problem = f"nested deeper than {MAX_NESTING} levels"
            self._faults.add("size.nesting", place, problem, self._subject.flatter)
            raise _StoppedError
        if self._values > MAX_VALUES:
            problem = f"there are more than {MAX_VALUES:,} values"
            self._faults.add("size.values", place, problem, self._subject.shorter)
            raise _StoppedError

    def _refuse_anchor_and_tag(self, event: Any, place: Place) -> None:
        help_ = "remove it, or quote the value if it is a string"
        if event.anchor:
            problem = f"{quoted('&' + event.anchor)} defines an anchor, which is not supported"
            self._faults.add("syntax.unsupported", place, problem, help_)
        if event.tag:
            problem = f"the tag {quoted(event.tag)} is not supported"
            self._faults.add("syntax.unsupported", place, problem, help_)

    def _scalar(self, event: Any, place: Place) -> Scalar:
        if _LONE_SURROGATE.search(event.value):
            problem = "an escape here is half of a surrogate pair"
            self._faults.add("syntax", place, problem, "write the character itself")
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
                problem = "a list or mapping cannot be a key"
                self._faults.add("value.type", key.place, problem, "write a name")
            elif key.text in seen:
                problem = f"{quoted(key.text)} is a duplicate, after line {seen[key.text].line}"
                help_ = "keep one of them, or combine their values in a list"
                self._faults.add("key.duplicate", key.place, problem, help_)
            else:
                seen[key.text] = key.place
                yield key, value


def _events(loader: Any) -> Iterator[Any]:
    while loader.check_event():
        yield loader.get_event()


def _place(event: Any) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)


_GUESSES: Final = {
    "null": Guess.NULL,
    "bool": Guess.BOOLEAN,
    "int": Guess.NUMBER,
    "float": Guess.NUMBER,
}


def _guess(event: Any) -> Guess:
    """Uses PyYAML's own table of patterns for unquoted scalars."""
    if event.style or not event.implicit[0]:
        return Guess.STRING
    for tag, pattern in yaml.SafeLoader.yaml_implicit_resolvers.get(event.value[:1], ()):
        if pattern.match(event.value):
            return _GUESSES.get(tag.rpartition(":")[2], Guess.OTHER)
    return Guess.STRING
