"""The table of headers and names."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("storlet", "bundle", "holder"),
    [
        ("thumb", ("thumb", 0), "thumb.storlet"),
        ("thumb@3", ("thumb", 3), "thumb.storlet"),
        ("thumb@0", None, "thumb@0"),
        ("thumb.py", None, "thumb.py"),
        ("a@3.py", None, "a@3.py"),
        ("Thumb", None, "Thumb"),
    ],
)
def test_names_of_bundles_have_no_dot(
    storlet: str, bundle: tuple[str, int] | None, holder: str
) -> None:
    assert names.bundle_of(storlet) == bundle
    assert names.object_of(storlet) == holder
