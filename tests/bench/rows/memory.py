"""Memory of a tenant's idle sandbox: empty, after a Python storlet, and after a Java storlet as
well."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Iterator

from storlet_daemon.protocol import messages
from tests.bench.bench import Bench
from tests.bench.figures import Figure
from tests.bench.node import Node, processes_of, pss_bytes, wait
from tests.bench.site import SMALL, java_identity, python_code

_SETTLE_SECONDS = 1.0


def measure(bench: Bench) -> Iterator[Figure]:
    """PSS of all processes of the Docker container, in MB; all steps in one sandbox per tenant."""
    steps = {
        "empty": "empty",
        "python": "with a Python storlet",
        "java": "with a Java storlet as well",
    }
    figures = {
        name: Figure(f"memory.{name}", f"idle sandbox, {title} (PSS)", "MB")
        for name, title in steps.items()
    }
    own: dict[str, list[float]] = {name: [] for name in steps}
    rounds = min(3, bench.plan.first)
    for number in range(rounds):
        for name, pids in _of_one_tenant(bench):
            figures[name].treated.append(pss_bytes(pids) / 1e6)
            own[name].append(pss_bytes(pids, own=True) / 1e6)
        bench.progress.step(number + 1, rounds)
    for name, figure in figures.items():
        note = f"{statistics.median(own[name]):.2f} MB are its own, the rest its part of files that other sandboxes use, too"
        figure.notes += [note, "without Docker's shim"]
    yield from figures.values()


def _of_one_tenant(bench: Bench) -> Iterator[tuple[str, list[int]]]:
    """The name of each step and the processes of the sandbox, idle."""
    node = Node(bench.site.cluster)
    account = bench.site.new_account(f"memory-{secrets.token_hex(4)}")
    python, java = python_code("identity.py", "Identity"), java_identity(bench.site.java_dir)
    account.get_ready(python, java)
    node.request(messages.Prepare(account.name, python.name))
    if not wait(lambda: node.of(account.name), 30):
        raise RuntimeError("an empty sandbox did not start")
    yield "empty", _settled(node, account.name)
    for name, code in (("python", python), ("java", java)):
        account.send("GET", SMALL, {"X-Run-Storlet": code.name})
        yield name, _settled(node, account.name)


def _settled(node: Node, account: str) -> list[int]:
    time.sleep(_SETTLE_SECONDS)
    sandbox = node.of(account)
    if sandbox is None or not sandbox.container:
        raise RuntimeError("the sandbox is gone")
    return processes_of(sandbox.container)
