"""The benchmark's storlets return the right output."""

from __future__ import annotations

import hashlib

import pytest

from tests.bench.storlets.fixity import Hashes
from tests.bench.storlets.one_percent import DROP, FLAG_AT, KEEP, RECORD_BYTES, Scanner

RECORDS = [
    (b"%0*d" % (FLAG_AT, number) + (KEEP if number % 7 == 3 else DROP)).ljust(RECORD_BYTES, b"+")
    for number in range(50)
]


@pytest.mark.parametrize("step", [1, 99, 100, 101, 260, 5000])
def test_the_filter_keeps_the_flagged_records_in_pieces_of_any_size(step: int) -> None:
    data, scanner = b"".join(RECORDS), Scanner()
    kept = b"".join(scanner.feed(data[at : at + step]) for at in range(0, len(data), step))
    assert kept == b"".join(record for number, record in enumerate(RECORDS) if number % 7 == 3)


@pytest.mark.parametrize("threads", [1, 2])
def test_both_hashes_are_those_of_the_complete_input(threads: int) -> None:
    hashes = Hashes(threads)
    for piece in (b"one", b"two" * 1000, b"three"):
        hashes.feed(piece)
    data = b"one" + b"two" * 1000 + b"three"
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    assert hashes.finish() == f"{md5} {hashlib.sha256(data).hexdigest()}"
