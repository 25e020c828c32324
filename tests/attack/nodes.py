"""Failures of the node while it is attacked: full disks, killed daemons."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tests.attack.arena import Attacker, must, outcome
from tests.attack.attack import PYTHON, Attack
from tests.support.accounts import unique
from tests.support.tenant import SOURCE


def full_code_cache(attacker: Attacker) -> str:
    """A code cache that is full: 503 with Retry-After, no partial files, plain GETs work; later it
    recovers."""
    attacker.recovers()
    code_dir = attacker.host.code_dir(attacker.tenant.account)
    attacker.tenant.upload("gremlin.py", SOURCE.read_bytes() + b"#" * 1_000_000)
    with attacker.host.tiny_disk_over(code_dir, "64k"):
        answer = attacker.tenant.tool(attacker.placement).get(attacker.path)
        must(outcome(answer) in ("503 node.busy", "503 sandbox.unavailable"), answer)
        must(int(answer.headers["Retry-After"]) > 0, answer)
        must(b"Errno" not in answer.body, answer)
        must(attacker.client.get(attacker.path).body == attacker.tenant.content, "plain GET")
        left = [path.name for path in code_dir.iterdir() if not path.name.startswith(".lock-")]
        must(not left, left)
    must(attacker.tenant.is_well(attacker.placement), "afterwards")
    return outcome(answer)


def full_state(attacker: Attacker) -> str:
    """A full state directory: a new tenant receives 503 with Retry-After, an existing one
    continues."""
    attacker.recovers()
    state = attacker.arena.cluster.state_dir
    newcomer = attacker.arena.account()
    with attacker.host.tiny_disk_over(state, "4k"):
        (state / "full").write_bytes(b"")
        answer = newcomer.tool(attacker.placement).get(newcomer.path)
        must(answer.status == 503, answer)
        must(int(answer.headers["Retry-After"]) > 0, answer)
        must(attacker.client.get(attacker.path).body == attacker.tenant.content, "plain GET")
    deadline = time.monotonic() + 30
    while not newcomer.is_well(attacker.placement):
        must(time.monotonic() < deadline, "the newcomer never works")
        time.sleep(0.5)
    attacker.recovers()
    return f"newcomer: {outcome(answer)}, afterwards 200"


def full_log_container(attacker: Attacker) -> str:
    """The invocation log does not fit into its container: the result is returned nevertheless."""
    tenant = attacker.tenant
    must(
        tenant.client.post("storletlog", {"X-Container-Meta-Quota-Bytes": "1"}).status == 204,
        "quota",
    )
    try:
        path = f"data/{unique('logged')}"
        answer = attacker.tool.get(attacker.path, "identity", {"X-Storlet-Generate-Log": "True"})
        must((outcome(answer), answer.body) == ("200", tenant.content), answer)
        stored = attacker.tool.copy(
            attacker.path, path, "identity", {"X-Storlet-Generate-Log": "True"}
        )
        must(stored.status == 201, stored)
    finally:
        tenant.client.post("storletlog", {"X-Remove-Container-Meta-Quota-Bytes": "x"})
    return f"{outcome(answer)}, {outcome(stored)}"


def full_operator_logs(attacker: Attacker) -> str:
    """The disk of the servers' logs is full: servers that cannot log continue to serve requests."""
    attacker.recovers()
    cluster = attacker.arena.cluster
    # The proxy starts last and stops first: a proxy that reaches no object server avoids it for a
    # minute.
    names = ("object-1", "object-2", "sandboxd", "proxy")
    logs = cluster.process("proxy").log.parent
    for name in reversed(names):
        cluster.stop(name)
    try:
        with attacker.host.tiny_disk_over(logs, "64k"):
            try:
                for name in names:
                    cluster.start(name)
                with (logs / "filler").open("wb", buffering=0) as filler:
                    try:
                        while True:
                            filler.write(b"x" * 4096)
                    except OSError:
                        pass
                deadline = time.monotonic() + 30
                while not attacker.is_well():
                    must(time.monotonic() < deadline, outcome(attacker.shoot("identity")))
                    time.sleep(0.5)
                must(attacker.tenant.is_well(), "another storlet")
                must(
                    attacker.client.get(attacker.path).body == attacker.tenant.content, "plain GET"
                )
            finally:
                for name in reversed(names):
                    cluster.stop(name)
    finally:
        for name in names:
            cluster.start(name)
    attacker.recovers()
    return "200 all the time"


def killed(daemon: str) -> Callable[[Attacker], str]:
    """A daemon is killed under load: every response is right or a 503; soon all are right."""

    def run(attacker: Attacker) -> str:
        attacker.recovers()
        host = attacker.host
        if daemon == "dockerd" and not host.has_own_engine():
            return "not tried: the engine is the host's own"
        until = time.monotonic() + 5
        seen: dict[str, int] = {}

        def request_one() -> None:
            while time.monotonic() < until:
                answer = attacker.shoot("identity")
                good = outcome(answer) == "200" and answer.body == attacker.tenant.content
                must(
                    good or outcome(answer) in ("503 sandbox.unavailable", "503 node.busy"), answer
                )
                seen[outcome(answer)] = seen.get(outcome(answer), 0) + 1

        going = [attacker.arena.pool.submit(request_one) for _ in range(4)]
        time.sleep(0.5)
        pid = host.kill_daemon(daemon)
        newcomer = attacker.arena.account()
        host.wait_back(daemon, pid)
        for one in going:
            one.result(60)
        deadline = time.monotonic() + 60
        while not newcomer.is_well():
            must(time.monotonic() < deadline, "a new tenant never works")
            time.sleep(0.5)
        attacker.recovers(60)
        return (
            ", ".join(f"{what} x{count}" for what, count in sorted(seen.items()))
            + "; then a new tenant works"
        )

    return run


ROWS: Final = (
    Attack(
        "full disk under the code cache",
        "503 with Retry-After, then 200",
        full_code_cache,
        PYTHON,
        fresh=True,
        once=True,
    ),
    Attack(
        "full disk under the state directory",
        "503 for newcomers, then 200",
        full_state,
        PYTHON,
        fresh=True,
    ),
    Attack("full container of logs", "200", full_log_container, PYTHON),
    Attack("full disk under the operator's logs", "200", full_operator_logs, PYTHON, alone=True),
    Attack(
        "sandboxd killed under load", "200 or 503, then 200", killed("sandboxd"), PYTHON, alone=True
    ),
    Attack(
        "dockerd killed under load", "200 or 503, then 200", killed("dockerd"), PYTHON, alone=True
    ),
)
