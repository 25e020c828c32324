"""The table of headers and names."""

from __future__ import annotations

from storlet_middleware import names


def test_names_are_written_once_each() -> None:
    values = [
        value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)
    ]
    # The one header of requests and answers alike.
    assert sorted({value for value in values if values.count(value) > 1}) == [names.GRANTS]


def test_every_header_is_a_row_and_has_a_constant() -> None:
    constants = {
        value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)
    }
    rows = {row.name for row in names.TABLE}
    assert rows <= constants
    assert {value for value in constants - rows if value.startswith("X-")} == {
        names.STORLET_META,
        names.OBJECT_META,
    }
