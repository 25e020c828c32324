"""Rows of the table of options: bounds, levels and the meaning of 0."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from storlet_middleware.config import OPTIONS, ConfigError, Level, Limit, Option, parse
from storlet_middleware.config.option import COUNT, option, options_of

#: The least value of each limit that a trust class may lower.
LEAST = {
    row.name: row.least
    for row in OPTIONS
    if row.section == "limits" and row.level >= Level.CLASS and row.least
}


@pytest.mark.parametrize("section", ["limits", "class:user", "class:admin"])
@pytest.mark.parametrize("name", [name for name in LEAST if name != "storlet_cpus"])
def test_a_limit_too_small_for_any_storlet_is_refused_in_every_section(
    section: str, name: str
) -> None:
    """Also 0 in a class: Docker and control groups take 0 for no limit."""
    parse(f"[{section}]\n{name} = {LEAST[name]}")
    for value in (0, LEAST[name] - 1):
        with pytest.raises(ConfigError, match=rf"\[{section}\] {name}: want at least "):
            parse(f"[{section}]\n{name} = {value}")


def test_zero_cpus_is_no_limit_and_a_tiny_number_is_refused() -> None:
    parse("[limits]\nstorlet_cpus = 0")
    with pytest.raises(ConfigError, match=r"want at least 0\.01 or 0 for no limit"):
        parse("[limits]\nstorlet_cpus = 0.001")


@pytest.mark.parametrize(
    ("bounds", "value", "fault"),
    [
        ({"least": 4}, 4, ""),
        ({"least": 4}, 3, "want at least 4"),
        ({"least": 4, "most": 30}, 31, "want at most 30"),
        ({"least": 4, "zero": "no limit"}, 0, ""),
        ({"least": 4, "zero": "no limit"}, 1, "want at least 4 or 0 for no limit"),
        ({"least": 4}, "text", ""),
    ],
)
def test_bounds_of_a_value(bounds: dict[str, Any], value: Any, fault: str) -> None:
    assert Option("limits", "pids", COUNT, "8", "help", **bounds).fault(value) == fault


@pytest.mark.parametrize(
    ("zero", "value", "node", "is_raised"),
    [
        ("", 5, 4, True),
        ("", 4, 4, False),
        ("no limit", 0, 4, True),
        ("no limit", 4, 0, False),
        ("no limit", 5, 4, True),
        ("no limit", 0, 0, False),
    ],
)
def test_a_class_may_lower_the_nodes_value_and_0_is_the_highest(
    zero: str, value: float, node: float, *, is_raised: bool
) -> None:
    row = Option("limits", "pids", COUNT, "8", "help", zero=zero)
    assert row.is_raised(value, node) is is_raised


def test_the_default_of_an_option_is_within_its_own_bounds() -> None:
    for row in OPTIONS:
        assert row.fault(row.kind.read(row.default)) == ""
        assert row.help
        assert row.meaning.startswith(row.help)


def test_a_row_is_made_of_the_field_of_a_class() -> None:
    @dataclasses.dataclass(frozen=True)
    class Section:
        plain: str
        size: int = option(COUNT, "1", "a size", least=1)
        limited: int = option(COUNT, "2", "a limit", limit=Limit("Size", "refused"))

    size, limited = options_of("made-up", Section)
    assert (size.section, size.name, size.default, size.least) == ("made-up", "size", "1", 1)
    assert (size.level, size.is_published) == (Level.NODE, False)
    assert (limited.level, limited.is_published) == (Level.REQUEST, True)
