"""A range of an object that a rule stores compressed and restores on read: the share of the stored
bytes that is read, of those for the whole object.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from tests.bench.bench import Bench
from tests.bench.figures import Figure
from tests.bench.http import BadAnswer
from tests.bench.rows.seek import bytes_in
from tests.bench.site import SMALL_BYTES, Account

_BLOCK_BYTES: Final = 64 << 10
#: A rule for each placement.
_RULES: Final = """\
version: 1
rules:
""" + "".join(
    f"""\
- name: {place}
  when: {{method: PUT, container: {place}}}
  run:
    storlet: "std:compress"
    parameters: {{format: zstd, policy: fast, seek-table: "true"}}
  and-reverse-on-read: {{run: {{storlet: "std:decompress", on: {place}}}}}
"""
    for place in ("object", "proxy")
)


def measure(bench: Bench) -> Iterator[Figure]:
    """Bytes that are read for 1 KiB in the middle, against those for the whole object."""
    account = bench.site.new_account("ranges")
    account.get_ready()
    account.send("PUT", "storlet_rules")
    account.send("PUT", "storlet_rules/rules.yaml", body=_RULES.encode())
    data = _data(bench.plan.scan_bytes)
    for number, place in enumerate(("object", "proxy"), 1):
        path = f"{place}/large"
        account.send("PUT", place)
        account.send("PUT", path, body=memoryview(data))
        first = len(data) // 2 - SMALL_BYTES // 2
        part = data[first : first + SMALL_BYTES]
        span = {"Range": f"bytes={first}-{first + SMALL_BYTES - 1}"}
        used = bytes_in(_got(account, path, span, part))
        # The headers of the whole precede its usage: a GET of it reads all that is stored.
        _got(account, path, {}, data)
        whole = _length(account.send("HEAD", path).head)
        title = f"1 KiB of {len(data) / (1 << 30):.2g} GiB that are stored compressed, {place}"
        yield Figure(f"ranges.{place}", f"{title}: bytes read", "MB", [used / 1e6], [whole / 1e6])
        bench.progress.step(number, 2)


def _data(size: int) -> bytes:
    """Bytes that become half as long: each block is there twice."""
    return b"".join(os.urandom(_BLOCK_BYTES) * 2 for _ in range(size // _BLOCK_BYTES // 2))


def _got(account: Account, path: str, headers: dict[str, str], expected: bytes) -> bytes:
    """The head of the answer to a GET, whose body must be ``expected``."""
    got = bytearray()
    answer = account.connection.exchange(account.request("GET", path, headers), got.extend)
    if got != expected:
        raise BadAnswer(f"{len(got)} bytes, not the {len(expected)} of the request")
    return answer.head


def _length(head: bytes) -> int:
    found = re.search(rb"^content-length: *(\d+)", head, re.IGNORECASE | re.MULTILINE)
    if found is None:
        raise BadAnswer(f"no length in {head!r}")
    return int(found[1])
