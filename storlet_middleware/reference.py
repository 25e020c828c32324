"""The reference pages of the tables: options, limits, error codes, headers, metrics, records, and
of the system library.

``python3 -m storlet_middleware.reference --write`` makes the files of :data:`PAGES` below
``docs/reference`` and ``etc/storlet.conf-sample``; ``--check`` names those that differ from the
tables and returns 1."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from storlet_daemon.protocol import messages
from storlet_daemon.runtimes.table import LANGUAGES
from storlet_middleware import config, errors, metrics, names
from storlet_middleware.catalog.library import library_of
from storlet_middleware.config import Level, Option
from storlet_middleware.engine import limits
from storlet_middleware.records import record

_ROOT: Final = Path(__file__).parents[1]
_WIDTH: Final = 100
_LEVELS: Final = {
    Level.NODE: "",
    Level.CLASS: "trust class",
    Level.REQUEST: "trust class, storlet, request",
}


def options_page() -> str:
    head = ("option", "kind", "default", "may be lowered by", "meaning")
    parts = []
    for section in dict.fromkeys(row.section for row in config.OPTIONS):
        rows = [row for row in config.OPTIONS if row.section == section]
        parts += _section(f"[{section}]", _table(head, map(_option, rows)))
    text = (
        "Of the sections above, a trust class may set what the fourth column allows, and lower it"
        " only."
    )
    own = _table(head, map(_option, config.CLASS_OPTIONS))
    parts += _section("[class:user], [class:admin]", [*_wrapped(text), "", *own])
    return _page(
        "Options",
        "The options of ``/etc/swift/storlet.conf``. An unknown name or a bad value is refused at"
        " start.",
        parts,
    )


def _option(row: Option) -> tuple[str, ...]:
    bounds = f"at least {row.least:g}" if row.least else ""
    unit = f", {row.kind.unit}" if row.kind.unit else ""
    meaning = f"admin only: {row.meaning}" if row.is_admin_only else row.meaning
    return (
        f"``{row.name}``",
        f"{row.kind.name}{unit}",
        f"``{row.default}``" if row.default else "",
        _LEVELS[row.level],
        f"{meaning} ({bounds})" if bounds else meaning,
    )


def limits_page() -> str:
    head = ("limit", "option", "least", "at the limit")
    rows = [
        (f"``{row.name}``", f"``{row.option}``", _least(row), row.limit.effect)
        for row in limits.TABLE
    ]
    return _page(
        "Limits",
        f"A storlet declares a limit as ``{names.STORLET_META}<limit>``, a request as"
        f" ``{names.LIMIT_PREFIX}<limit>``. Each lowers the maximum, which the option sets.",
        _table(head, rows),
    )


def _least(row: limits.Row) -> str:
    least = row.form.show(row.least)
    floors = {
        language.title: row.form.show(row.floor(language.name))
        for language in LANGUAGES
        if row.floor(language.name) > row.least
    }
    return "; ".join([least, *(f"{floor} for {title}" for title, floor in floors.items())])


def errors_page() -> str:
    head = ("code", "status", "legacy status", "blame", "retry", "meaning")
    rows = [
        (
            f"``{row.code}``",
            row.statuses or str(row.status),
            _legacy(row),
            row.blame.value.replace("_", " "),
            row.retry.value if row.retry_after is None else f"after {row.retry_after} s",
            row.help,
        )
        for row in errors.TABLE.values()
    ]
    text = (
        "``code`` of a ``ServiceError`` is a code of the table above, or one of these, which no"
        " answer has."
    )
    own = _table(("code", "meaning"), [(f"``{c}``", m) for c, m in messages.SERVICE_CODES.items()])
    return _page(
        "Error codes",
        "The code of a failure is in ``X-Storlet-Error``. The legacy statuses, of GET and of other"
        " methods, are those of OpenStack Storlets; an operator may choose them with "
        "``legacy_status``. *Retry* says whether the same request can succeed later; the seconds "
        "are the default of ``Retry-After``.",
        [
            *_table(head, rows),
            "",
            *_section("Services of a running storlet", [*_wrapped(text), "", *own]),
        ],
    )


def _legacy(row: errors.ErrorCode) -> str:
    statuses = dict.fromkeys(str(status) for status in (row.legacy_get, row.legacy_put) if status)
    return ", ".join(statuses)


def headers_page() -> str:
    head = ("header", "value", "meaning")
    parts = []
    for scope in names.Scope:
        rows = [
            (f"``{row.name}``", row.value, row.help) for row in names.TABLE if row.scope is scope
        ]
        if rows:
            parts += _section(scope.value[0].upper() + scope.value[1:], _table(head, rows))
    return _page("Headers", "A name that ends in ``-`` is a prefix.", parts)


def metrics_page() -> str:
    head = ("name", "kind", "unit", "labels", "emitted by", "meaning")
    rows = [
        (
            f"``{row.name}``",
            row.kind.value,
            row.unit,
            ", ".join(row.labels),
            f"``{row.emitter}``",
            row.help,
        )
        for row in metrics.TABLE.values()
    ]
    return _page(
        "Metrics",
        "StatsD metrics. Swift prefixes each name with ``log_name`` of the server. A ``.`` in a "
        "label is written ``-``.",
        _table(head, rows),
    )


def records_page() -> str:
    head = ("field", "value", "seen by", "meaning")
    rows = [(f"``{row.name}``", row.kind.value, row.seen.value, row.help) for row in record.TABLE]
    return _page(
        "Records of runs",
        "The fields of a record, in JSON. A value that is not known is absent. *Seen by*: the owner"
        " of the account sees all fields of all records; another caller sees its own runs.",
        _table(head, rows),
    )


def library_page() -> str:
    head = ("parameter", "type", "default", "meaning")
    parts = []
    for name, member in library_of(config.parse("")).published().items():
        rows = [
            (f"``{key}``", row["type"], _default(row), row["help"])
            for key, row in member["parameters"].items()
        ]
        summary = _wrapped(f"{member['summary']}. Version {member['version']}.")
        parts += _section(name, [*summary, *(["", *_table(head, rows)] if rows else [])])
    return _page(
        "The system library",
        "Storlets that every account with storlets has, without an upload. An operator may add"
        " others and switch single ones off: ``GET /v1/ACCOUNT?storlet-library`` lists those of a"
        " cluster. :doc:`/user/library/reference` has their formats, guarantees, limits and"
        " errors.",
        parts,
    )


def _default(row: Mapping[str, Any]) -> str:
    if row.get("required"):
        return "required"
    value = row.get("default", "")
    return f"``{json.dumps(value)}``" if value != "" else ""


#: The files made from the tables, below the root of the source tree.
PAGES: Final[dict[str, Callable[[], str]]] = {
    "docs/reference/options.rst": options_page,
    "docs/reference/limits.rst": limits_page,
    "docs/reference/errors.rst": errors_page,
    "docs/reference/headers.rst": headers_page,
    "docs/reference/metrics.rst": metrics_page,
    "docs/reference/records.rst": records_page,
    "docs/reference/library.rst": library_page,
    "etc/storlet.conf-sample": config.sample,
}


def outdated(root: Path = _ROOT) -> list[str]:
    """The files of :data:`PAGES` that differ from the tables."""
    return [
        name
        for name, page in PAGES.items()
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != page()
    ]


def write(root: Path = _ROOT) -> None:
    """Make every file of :data:`PAGES`."""
    for name, page in PAGES.items():
        (root / name).write_text(page(), encoding="utf-8")


# --- reStructuredText -----------------------------------------------------------------------------


def _page(title: str, intro: str, body: Iterable[str]) -> str:
    lines = [
        ".. Made by python3 -m storlet_middleware.reference --write; do not edit.",
        "",
        title,
        "=" * len(title),
        "",
        *_wrapped(intro),
        "",
        *body,
    ]
    return "\n".join(lines).rstrip() + "\n"


def _section(title: str, body: Iterable[str]) -> list[str]:
    return [title, "-" * len(title), "", *body, ""]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (head, *rows):
        for index, cell in enumerate(row):
            first = "   * - " if index == 0 else "     - "
            lines += _wrapped(cell, first, " " * 7) or [first.rstrip()]
    return lines


def _wrapped(text: str, first: str = "", further: str = "") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=further,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="storlet_middleware.reference", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--check", action="store_true", help="name the files that are not up to date"
    )
    action.add_argument("--write", action="store_true", help="make the files")
    if parser.parse_args(arguments).write:
        write()
        return 0
    files = outdated()
    for name in files:
        sys.stdout.write(
            f"{name} is not up to date: python3 -m storlet_middleware.reference --write\n"
        )
    return 1 if files else 0


if __name__ == "__main__":
    sys.exit(main())
