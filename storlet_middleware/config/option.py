"""One row of the table of options, written as the field of a section's class.

::

    @dataclass(frozen=True)
    class LimitsSection:
        pids: int = option(COUNT, "512", "processes and threads of a sandbox", least=4)

The class and the field are the names of the section and the option, the annotation is the type; the
arguments are the rest.  :func:`option_per_language` makes one field of several options: one for
each language, ``<field>_<language>``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from storlet_daemon.runtimes.language import Language
from storlet_daemon.runtimes.table import LANGUAGES as LANGUAGE_ROWS
from storlet_middleware.config import readers

_KEY: Final = "option"
_KEY_PER_LANGUAGE: Final = "option per language"


class Level(IntEnum):
    """The lowest level that may lower the option; each lowers what the level above sets."""

    NODE = 1  # storlet.conf only
    CLASS = 2  # also [class:user] and [class:admin]
    REQUEST = 3  # also a storlet's metadata and a request's header


@dataclass(frozen=True)
class Kind:
    """The form of a value in the file: how it is read, and its unit."""

    name: str
    read: Callable[[str], Any]
    unit: str = ""


TEXT: Final = Kind("text", readers.read_text)
NAME: Final = Kind("name", readers.read_name)
LIST: Final = Kind("list", readers.read_list)
COUNT: Final = Kind("whole number", readers.read_count)
BYTES: Final = Kind("size", readers.read_bytes, "bytes")
SECONDS: Final = Kind("time", readers.read_seconds, "seconds")
CPUS: Final = Kind("number", readers.read_cpus, "CPUs")
MEMORY: Final = Kind("size or percentage", readers.read_memory, "bytes")
LANGUAGES: Final = Kind("languages", readers.read_languages)
RUN_ON: Final = Kind("object or proxy", readers.read_run_on)
PERMISSION: Final = Kind("refuse or allow", readers.read_permission)
OVERFLOW: Final = Kind("none, replica or proxy", readers.read_overflow)
WEIGHTS: Final = Kind("weights", readers.read_weights)
MOUNTS: Final = Kind("mounts", readers.read_mounts)


@dataclass(frozen=True)
class Limit:
    """The properties of an option that is a limit, which a storlet and a request can lower.

    ``name`` ends the names of its headers.  ``effect`` describes what happens at the limit.
    ``least`` is the minimum in a header where the file has none.  ``resource`` is the field of
    ``Resources`` that this limits; a language's ``least_limits`` may have a higher minimum."""

    name: str
    effect: str
    least: float = 0
    resource: str = ""


@dataclass(frozen=True)
class Option:
    """One row.  ``default`` is text, read like a value of the file.

    ``least``, ``most``: bounds of the value.  ``zero``: the meaning of 0, where 0 is allowed and
    the bounds do not hold for it.  ``part_of``: the option of the same section that this one never
    exceeds. ``is_published``: ``/info`` shows it.  ``is_admin_only``: an option of
    ``[class:admin]`` alone.  ``field``: the field of the section's class with the value; with a
    ``language``, the field is a mapping by language."""

    section: str
    name: str
    kind: Kind
    default: str
    help: str
    least: float = 0
    most: float = 0
    zero: str = ""
    level: Level = Level.NODE
    limit: Limit | None = None
    part_of: str = ""
    is_published: bool = False
    is_admin_only: bool = False
    field: str = ""
    language: str = ""

    def fault(self, value: Any) -> str:
        """Why ``value`` is out of bounds; empty when it is not."""
        if not isinstance(value, int | float) or (not value and self.zero):
            return ""
        if value < self.least:
            return f"want at least {self.least:g}{' or 0 for no limit' if self.zero else ''}"
        return f"want at most {self.most:g}" if self.most and value > self.most else ""

    def is_raised(self, value: float, node: float) -> bool:
        """Whether ``value`` of a trust class is more than the ``node``'s."""
        if self.zero:
            return bool(node) and (value > node or not value)
        return value > node

    @property
    def meaning(self) -> str:
        """``help`` with the meaning of 0."""
        return f"{self.help}; 0 = {self.zero}" if self.zero else self.help


def option(kind: Kind, default: str, meaning: str, **more: Any) -> Any:
    """A field of a section's class; ``more`` as in :class:`Option`."""
    if "limit" in more:
        more = {"level": Level.REQUEST, "is_published": True, **more}
    return dataclasses.field(metadata={_KEY: (kind, default, meaning, more)})


def option_per_language(
    kind: Kind,
    default: Callable[[Language], object],
    meaning: Callable[[Language], str],
    **more: Any,
) -> Any:
    """A field with a value for each language, by its name; one option for each."""
    return dataclasses.field(metadata={_KEY_PER_LANGUAGE: (kind, default, meaning, more)})


def options_of(section: str, cls: type) -> tuple[Option, ...]:
    """The rows of a section's class; fields without a row are no options."""
    rows = []
    for field in dataclasses.fields(cls):
        name = field.name
        if _KEY in field.metadata:
            kind, default, meaning, more = field.metadata[_KEY]
            rows.append(Option(section, name, kind, default, meaning, **more, field=name))
        elif _KEY_PER_LANGUAGE in field.metadata:
            kind, default, meaning, more = field.metadata[_KEY_PER_LANGUAGE]
            rows += [
                Option(
                    section,
                    f"{name}_{language.name}",
                    kind,
                    str(default(language)),
                    meaning(language),
                    **more,
                    field=name,
                    language=language.name,
                )
                for language in LANGUAGE_ROWS
            ]
    return tuple(rows)


def fields_of(rows: Iterable[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a section's class from ``values`` by option."""
    fields: dict[str, Any] = {}
    for row in rows:
        if row.language:
            fields.setdefault(row.field, {})[row.language] = values[row.name]
        else:
            fields[row.field] = values[row.name]
    return fields
