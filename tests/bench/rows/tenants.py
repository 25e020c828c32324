"""More tenants than sandboxes: each calls once, in sequence."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

from tests.bench.bench import Bench
from tests.bench.figures import Figure, quantile
from tests.bench.http import BadAnswer
from tests.bench.node import Node, processes_of, pss_bytes
from tests.bench.site import SMALL, Account, own_site, python_code


def measure(bench: Bench) -> Iterator[Figure]:
    """Errors, the longest wait against the usual cold start, and the memory of all sandboxes at the
    end.

    On a separate cluster: sandboxes of other rows would be evicted first, while the first tenants
    wait.
    """
    plan, code = bench.plan, python_code("identity.py", "Identity")
    with own_site() as site:
        site.configure({"storlet.conf:sandbox": {"max_per_node": plan.sandboxes}})
        run = secrets.token_hex(3)
        accounts = [site.new_account(f"tenant-{run}-{number}") for number in range(plan.tenants)]
        waits, errors = [], []
        for number, account in enumerate(accounts):
            account.get_ready(code)
            try:
                waits.append(_call(account, code.name))
            except BadAnswer as error:
                errors.append(str(error))
            account.reconnect()
            bench.progress.step(number + 1, plan.tenants)
        sandboxes = [s.container for s in Node(site.cluster).sandboxes() if s.container]
        memory = sum(pss_bytes(processes_of(container)) for container in sandboxes) / 1e6
    title = f"{plan.tenants} tenants, {plan.sandboxes} sandboxes"
    yield Figure(
        "tenants.errors",
        f"{title}: errors",
        "errors",
        treated=[float(len(errors))],
        notes=errors[:3],
    )
    usual = quantile(sorted(waits[: plan.sandboxes]), 0.5)
    yield Figure("tenants.wait", f"{title}: longest wait", "s", treated=[max(waits)], plain=[usual])
    note = f"of {len(sandboxes)} sandboxes"
    yield Figure(
        "tenants.memory", f"{title}: memory at the end", "MB", treated=[memory], notes=[note]
    )


def _call(account: Account, storlet: str) -> float:
    began = time.perf_counter()
    account.send("GET", SMALL, {"X-Run-Storlet": storlet})
    return time.perf_counter() - began
