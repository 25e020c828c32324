"""Declared limits as numbers, the same as the server's."""

from __future__ import annotations

import pytest

from storlet_client.bundle import manifest
from storlet_client.limits import Amount, numbers
from storlet_middleware.engine import limits


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("memory", "65536", 65536),
        ("memory", "256M", 256 << 20),
        ("scratch", "1.5 GiB", 3 << 29),
        ("log", "64kb", 64 << 10),
        ("output", "0", 0),
        ("cpu", "0.5", 0.5),
        ("cpu", "2", 2),
        ("processes", "32", 32),
        ("timeout-total", "20", 20),
        ("timeout-total", "2m", 120),
        ("timeout-idle", "500ms", 0.5),
        ("timeout-first-byte", "1.5H", 5400),
    ],
)
def test_a_limit_is_a_number_in_its_base_unit(name: str, text: str, number: Amount) -> None:
    found = numbers({name: text})[name]
    assert (found, type(found)) == (number, type(number))


@pytest.mark.parametrize("text", ["", "much", "1Q", "1..5", "-1", "1e3", "256M\n"])
@pytest.mark.parametrize("name", ["memory", "timeout-total", "cpu", "processes", "foreign"])
def test_a_text_of_another_form_stays(name: str, text: str) -> None:
    assert numbers({name: text}) == {name: text}


def test_a_limit_that_this_release_does_not_know_stays() -> None:
    assert numbers({"colours": "12"}) == {"colours": "12"}


READERS = {
    "size": limits.read_size,
    "time": limits.read_time,
    "number": limits.read_number,
    "cpus": limits.read_cpus,
}


@pytest.mark.parametrize("text", ["7", "7.25", "0.3m", "0.1k", "3G", "9ms", "12 s", "1.1 MiB"])
def test_the_server_reads_the_same(text: str) -> None:
    for name, row in manifest.schema()["properties"]["limits"]["properties"].items():
        found = numbers({name: text})[name]
        try:
            expected: Amount = READERS[row["$ref"].rpartition("/")[2]](text)
        except ValueError:
            expected = text
        assert found == expected, name
