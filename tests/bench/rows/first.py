"""First calls: of a tenant that has no sandbox, with a pre-warmed one, and of a new storlet in a
running sandbox."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Final

from tests.bench.bench import Bench
from tests.bench.figures import Figure
from tests.bench.node import Node
from tests.bench.site import SMALL, Code, java_identity, python_code

_SPARES: Final = 2
_PATIENCE_SECONDS: Final = 20.0


def measure(bench: Bench) -> Iterator[Figure]:
    """Seconds to the first byte, without a ratio: plain Swift has no first call."""
    for language, make in _codes(bench).items():
        yield _new_tenants(
            bench, language, make, f"first.tenant.{language}", "first call of a tenant"
        )
    for language, make in _codes(bench).items():
        yield _new_storlets(bench, language, make)
    bench.site.configure({"storlet.conf:sandbox": {"prewarmed": _SPARES}})
    try:
        for language, make in _codes(bench).items():
            title = "first call of a tenant, pre-warmed"
            yield _new_tenants(
                bench, language, make, f"first.prewarmed.{language}", title, spares=_SPARES
            )
    finally:
        bench.site.configure({})


def _codes(bench: Bench) -> dict[str, Callable[[str], Code]]:
    java = bench.site.java_dir
    return {
        "python": lambda name: python_code("identity.py", "Identity", f"{name}.py"),
        "java": lambda name: java_identity(java, f"{name}-1.0.jar"),
    }


def _new_tenants(
    bench: Bench,
    language: str,
    make: Callable[[str], Code],
    key: str,
    title: str,
    *,
    spares: int = 0,
) -> Figure:
    figure = Figure(key, f"{title}, {language.capitalize()}", "s")
    node = Node(bench.site.cluster)
    for number in range(bench.plan.first):
        account = bench.site.new_account(f"first-{secrets.token_hex(4)}")
        code = make("identity")
        account.get_ready(code)
        if spares and not node.wait_for_spares(spares, _PATIENCE_SECONDS):
            figure.notes.append(
                f"no {spares} sandboxes were pre-warmed within {_PATIENCE_SECONDS:g} s"
            )
            break
        # No write of the account's set-up may still be in progress.
        time.sleep(0.2)
        figure.treated.append(account.send("GET", SMALL, {"X-Run-Storlet": code.name}).first_byte)
        bench.progress.step(number + 1, bench.plan.first)
    return figure


def _new_storlets(bench: Bench, language: str, make: Callable[[str], Code]) -> Figure:
    """In a sandbox that has run another storlet of this language."""
    figure = Figure(
        f"first.storlet.{language}", f"first call of a new storlet, {language.capitalize()}", "s"
    )
    account = bench.site.new_account(f"storlets-{secrets.token_hex(4)}")
    account.get_ready(warm := make("warm"))
    account.send("GET", SMALL, {"X-Run-Storlet": warm.name})
    for number in range(bench.plan.first):
        account.upload(code := make(f"fresh{number}"))
        time.sleep(0.2)
        figure.treated.append(account.send("GET", SMALL, {"X-Run-Storlet": code.name}).first_byte)
        bench.progress.step(number + 1, bench.plan.first)
    return figure
