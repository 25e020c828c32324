"""A bundle with numpy: its first call on a node that has no copy of it, and later calls.

Later calls are also compared with a storlet without a bundle, in the same run: the difference is
the cost of bundles and of numpy.
"""

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
from tests.bench.site import PLAIN, SMALL, Account, Code, Treatment, python_code

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
    account, warm = bench.site.main, python_code("identity.py", "Identity")
    for number in range(bench.plan.first):
        account = bench.site.new_account(f"bundle-{secrets.token_hex(4)}")
        account.get_ready(warm)
        account.send("GET", SMALL, {"X-Run-Storlet": warm.name})
        account.send("PUT", "storlet/copy.storlet", body=packed)
        time.sleep(0.2)  # no write of the account's set-up may still be in progress
        first.treated.append(account.send("GET", SMALL, _RUN).first_byte)
        bench.progress.step(number + 1, bench.plan.first)
    yield first
    yield from _warm(bench, account, warm)


def _warm(bench: Bench, account: Account, plain: Code) -> Iterator[Figure]:
    numpy = Treatment("numpy", "bundle with numpy", _RUN)
    storlet = Treatment("storlet", "a storlet without a bundle", {"X-Run-Storlet": plain.name})
    treatments = [numpy, storlet]
    requests = {t.key: account.request("GET", SMALL, t.headers) for t in [PLAIN, *treatments]}

    def one(each: Treatment) -> float:
        return account.connection.exchange(requests[each.key]).whole * 1000

    bench.alternate(treatments, WARM_UP, one)
    samples = bench.alternate(treatments, bench.plan.latency, one)
    family = Family("bundle.warm", "GET 1 KiB p50", "ms")
    yield from family.figures(treatments, samples)
    yield from family.beside(storlet, [numpy], samples)


def _bundle() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "src").mkdir()
        (folder / "src/copy_numpy.py").write_text(_SOURCE, encoding="utf-8")
        (folder / "storlet.toml").write_text(_TOML, encoding="utf-8")
        return build(folder, folder, Sandbox()).read_bytes()
