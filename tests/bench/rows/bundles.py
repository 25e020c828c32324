"""A bundle with numpy: its first call on a node that has no copy of it, and later calls."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storlet_client.builder.bundler import build
from storlet_client.builder.wheels import Sandbox
from tests.bench.bench import WARM_UP, Bench, Family
from tests.bench.figures import Figure
from tests.bench.site import SMALL, Account, Treatment, python_code

_SOURCE: Final = """\
import numpy


class Copy:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        data = numpy.frombuffer(in_files[0].read(), dtype="u1")
        out_files[0].set_metadata({})
        out_files[0].write(data.tobytes())
        out_files[0].close()
"""
_TOML: Final = """\
name = "copy"
version = "1.0"
language = "python"
main = "copy_numpy.Copy"
requirements = ["numpy==2.3.5"]
"""
_RUN: Final = {"X-Run-Storlet": "copy"}


def measure(bench: Bench) -> Iterator[Figure]:
    """Each first call is of another account, so that no file of an earlier one is shared.

    The account's sandbox runs: its start is a figure of the row ``first``.
    """
    packed = _bundle()
    first = Figure("bundle.first.numpy", "first call of a bundle with numpy", "s")
    account = bench.site.main
    for number in range(bench.plan.first):
        account = bench.site.new_account(f"bundle-{secrets.token_hex(4)}")
        account.get_ready(warm := python_code("identity.py", "Identity"))
        account.send("GET", SMALL, {"X-Run-Storlet": warm.name})
        account.send("PUT", "storlet/copy.storlet", body=packed)
        time.sleep(0.2)  # no write of the account's set-up may still be in progress
        first.treated.append(account.send("GET", SMALL, _RUN).first_byte)
        bench.progress.step(number + 1, bench.plan.first)
    yield first
    yield from _warm(bench, account)


def _warm(bench: Bench, account: Account) -> Iterator[Figure]:
    treatment = Treatment("numpy", "bundle with numpy", _RUN)
    requests = {
        "plain": account.request("GET", SMALL),
        "numpy": account.request("GET", SMALL, treatment.headers),
    }

    def one(each: Treatment) -> float:
        return account.connection.exchange(requests[each.key]).whole * 1000

    bench.alternate([treatment], WARM_UP, one)
    samples = bench.alternate([treatment], bench.plan.small, one)
    yield from Family("bundle.warm", "GET 1 KiB p50", "ms").figures([treatment], samples)


def _bundle() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "src").mkdir()
        (folder / "src/copy_numpy.py").write_text(_SOURCE, encoding="utf-8")
        (folder / "storlet.toml").write_text(_TOML, encoding="utf-8")
        return build(folder, folder, Sandbox()).read_bytes()
