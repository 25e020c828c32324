"""``storlet sandboxes``: the sandboxes of this node, their storlets and their self-tests."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from storlet_daemon import selftest
from storlet_daemon.protocol import messages
from storlet_middleware import config as configuration
from storlet_middleware.admission import shared_table
from storlet_middleware.cli import node, text
from storlet_middleware.cli.command import DONE, NOT_WELL, Command, complain, say
from storlet_middleware.cli.kept_space import Kept, kept_by
from storlet_middleware.config import Config
from storlet_middleware.keys import tenant_key
from storlet_middleware.sandboxd.wording import plain
from storlet_middleware.self_test import FAIL, UNTESTED

CHECK_SECONDS: Final = 180.0

DESCRIPTION: Final = """Show the sandboxes of this node.

  sudo storlet sandboxes
  sudo storlet sandboxes --check

Also shown: their storlets, the running and waiting invocations, the disk space of deleted files
that storlets keep (to root), and the last self-test of each trust class.

A class whose self-test failed is closed: its storlets are not loaded on this node
(503 sandbox.unavailable), until the cause is fixed or the name of the failed test is in
[sandbox] accept_failures of storlet.conf."""


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conf",
        default=configuration.DEFAULT_PATH,
        metavar="FILE",
        help="configuration file of the node (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--check",
        action="store_true",
        help="run the self-test now, in a new sandbox of each class, and show every test; takes a "
        "few seconds",
    )


def _run(options: argparse.Namespace) -> int:
    config = node.load_config(options.conf)
    if options.check:
        with _waiting("testing a sandbox of each trust class"):
            status = node.ask(config, messages.AskSelfTest(), CHECK_SECONDS)
    else:
        status = node.ask(config, messages.AskNodeStatus())
    usage, kept = _usage(config), _kept(status)
    if options.json:
        say(json.dumps(_as_data(config, status, usage, kept), indent=2))
    else:
        if not options.check:
            say(_sandboxes(config, status, usage))
            for part in _kept_space(status, kept):
                say(f"\n{part}")
            say()
        for result in status.self_tests:
            say(_self_test(result, config.sandbox.accept_failures, every=options.check))
    return NOT_WELL if any(result.state == FAIL for result in status.self_tests) else DONE


COMMAND: Final = Command(
    "sandboxes", "show the sandboxes of this node and their self-test", DESCRIPTION, _declare, _run
)


# --- text -----------------------------------------------------------------------------------------


def _sandboxes(
    config: Config, status: messages.NodeStatus, usage: Mapping[str, shared_table.Usage]
) -> str:
    node = f"node {config.sandbox.node_id}"
    if not status.sandboxes:
        return f"{node}: no sandboxes; the first request for a storlet starts one"
    now = time.time()
    tenants = [
        (text.name(account), used.running, used.waiting)
        for account in sorted({sandbox.account for sandbox in status.sandboxes if sandbox.account})
        if (used := usage.get(tenant_key(account)))
    ]
    parts = [
        f"{node}: {len(status.sandboxes)} of at most {config.sandbox.max_per_node} sandboxes",
        text.table(
            ("ACCOUNT", "CLASS", "STATE", "UID", "CONTAINER", "STARTED", "IMAGE"),
            [_row(sandbox, now) for sandbox in status.sandboxes],
            right=("UID",),
        ),
    ]
    groups = [(sandbox, group) for sandbox in status.sandboxes for group in sandbox.groups]
    if groups:
        parts.append(
            text.table(
                ("ACCOUNT", "STORLET", "WORKERS", "BUSY", "RUNS", "FAILURES", "IDLE"),
                [
                    (
                        text.name(sandbox.account),
                        text.name(group.name),
                        group.workers,
                        group.busy,
                        group.runs,
                        group.failures,
                        text.duration(group.idle_seconds),
                    )
                    for sandbox, group in groups
                ],
                right=("WORKERS", "BUSY", "RUNS", "FAILURES"),
            )
        )
    if "cut" in status.images:
        parts.append(str(status.images["cut"]))
    if tenants:
        parts.append(
            text.table(("ACCOUNT", "RUNNING", "WAITING"), tenants, right=("RUNNING", "WAITING"))
        )
    return "\n\n".join(parts)


def _kept_space(status: messages.NodeStatus, kept: Mapping[int, Kept] | None) -> Iterator[str]:
    """The part of the text that follows the sandboxes, if there is one."""
    if kept is None:
        yield "deleted files that storlets keep: unknown, root is needed to see them"
        return
    rows = [
        (text.name(sandbox.account), len(one.files), one.size_bytes, one.in_messages)
        for sandbox in status.sandboxes
        if (one := kept.get(sandbox.uid or 0)) and (one.files or one.messages)
    ]
    columns = ("ACCOUNT", "DELETED FILES", "BYTES", "DESCRIPTORS IN MESSAGES")
    if rows:
        yield text.table(columns, rows, right=columns[1:])


def _row(sandbox: messages.Sandbox, now: float) -> tuple[object, ...]:
    started = (
        text.duration(max(0.0, now - sandbox.started_at)) + " ago" if sandbox.started_at else "-"
    )
    return (
        text.name(sandbox.account) if sandbox.account else "(pre-warmed)",
        sandbox.trust_class or "-",
        sandbox.state,
        "-" if sandbox.uid is None else sandbox.uid,
        (sandbox.container or "-")[:12],
        started,
        text.name(sandbox.image) if sandbox.image else "-",
    )


def _self_test(result: messages.SelfTest, accepted: tuple[str, ...], *, every: bool) -> str:
    """The result of a class: the tests that failed, or with ``every`` all of them."""
    failed = [name for name, fault in result.faults.items() if fault]
    lines = [f"class {result.trust_class}: {_summary(result, failed)}"]
    against = {**selftest.OUTSIDE, **{test.name: test.against for test in selftest.TESTS}}
    width = max((len(name) for name in result.faults), default=0)
    for name, fault in result.faults.items():
        if fault or every:
            mark = "pass" if not fault else "accepted" if name in accepted else "FAIL"
            lines.append(f"  {mark:8}  {name:{width}}  {against.get(name, '')}".rstrip())
        if fault:
            lines.append(f"  {'':8}  {'':{width}}  -> {plain(fault)}")
    return "\n".join(lines)


def _summary(result: messages.SelfTest, failed: list[str]) -> str:
    if result.state == UNTESTED:
        return "not tested yet: see the log of storlet-sandboxd; the next load tries again"
    when = text.duration(max(0.0, time.time() - result.at))
    if result.state == FAIL:
        return f"CLOSED on this node ({len(result.faults)} tests, {len(failed)} failed, {when} ago)"
    accepted = f", {len(failed)} failed and accepted" if failed else ""
    return f"{result.state} ({len(result.faults)} tests{accepted}, {when} ago)"


@contextmanager
def _waiting(what: str) -> Iterator[None]:
    """Show progress: every second on a terminal, else once."""
    if not sys.stderr.isatty():
        complain(f"{what} ...")
        yield
        return
    done = threading.Event()
    began = time.monotonic()

    def tick() -> None:
        while True:
            sys.stderr.write(f"\r{what} ... {time.monotonic() - began:.0f} s")
            sys.stderr.flush()
            if done.wait(1):
                sys.stderr.write("\n")
                return

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        done.set()
        ticker.join()


# --- JSON -----------------------------------------------------------------------------------------


def _as_data(
    config: Config,
    status: messages.NodeStatus,
    usage: Mapping[str, shared_table.Usage],
    kept: Mapping[int, Kept] | None,
) -> dict[str, Any]:
    return {
        "node": config.sandbox.node_id,
        "sandboxes": [_sandbox_data(sandbox, usage, kept) for sandbox in status.sandboxes],
        "images": dict(status.images),
        "self_tests": {
            result.trust_class: {
                "state": result.state,
                "at": result.at,
                "failed": {name: fault for name, fault in result.faults.items() if fault},
                "accepted": sorted(
                    set(config.sandbox.accept_failures) & {n for n, f in result.faults.items() if f}
                ),
                "tests": list(result.faults),
            }
            for result in status.self_tests
        },
    }


def _sandbox_data(
    sandbox: messages.Sandbox,
    usage: Mapping[str, shared_table.Usage],
    kept: Mapping[int, Kept] | None,
) -> dict[str, Any]:
    data = {
        **dataclasses.asdict(sandbox),
        "storlets": [dataclasses.asdict(group) for group in sandbox.groups],
    }
    del data["groups"]
    found = (kept or {}).get(sandbox.uid or 0)
    data["kept"] = found and {
        "files": len(found.files), "bytes": found.size_bytes, "in_messages": found.in_messages,
    }  # fmt: skip
    used = usage.get(tenant_key(sandbox.account))
    # Numbers of the whole account on this node: it may have a sandbox of each class.
    return {**data, "running": used.running if used else 0, "waiting": used.waiting if used else 0}


def _kept(status: messages.NodeStatus) -> Mapping[int, Kept] | None:
    """The deleted files that each sandbox keeps, by its user; ``None`` without the right to see
    them.
    """
    try:
        return kept_by({sandbox.uid for sandbox in status.sandboxes if sandbox.uid})
    except PermissionError:
        return None


def _usage(config: Config) -> Mapping[str, shared_table.Usage]:
    try:
        return shared_table.snapshot(config.sandbox.run_dir)
    except (OSError, shared_table.TableFault) as error:
        complain(f"storlet: running and waiting invocations are unknown: {error}")
        return {}
