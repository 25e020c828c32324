"""Runs the self-test of a trust class in a sandbox that is made for it.

The sandbox is made by the same plan as a tenant's but smaller, for an account that no tenant can
have.  Inside, ``storlet_daemon.selftest`` tries to break out and to exceed the limits, with a
donated file of root's like a storlet's object.  The sandbox is removed afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from storlet_daemon import selftest
from storlet_middleware.config import USER_CLASS, TrustClass
from storlet_middleware.sandboxd.errors import (
    EngineFault,
    LoadRefused,
    MountFault,
    SandboxLost,
    SandboxWeak,
)
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Plan, Planner
from storlet_middleware.sandboxd.sandbox.sandbox import Sandbox, State
from storlet_middleware.sandboxd.self_test.plans import SelfTestPlans
from storlet_middleware.sandboxd.wording import plain, shown

log = logging.getLogger("storlet.sandboxd")

#: Faults seen from outside: it came up weaker, it ended, or the donated file was changed.
AS_CONFIGURED: Final = "sandbox-as-configured"
SURVIVES: Final = "sandbox-survives"
DONATED: Final = "donated-unchanged"

#: Every name that ``accept_failures`` may contain.
NAMES: Final = frozenset({*selftest.OUTSIDE, *(test.name for test in selftest.TESTS)})

#: An abandoned start is waited for this long.
END_SECONDS: Final = 3.0

CONTENT: Final = b"an object in the hands of a storlet\n"
XATTR: Final = "user.storlets.selftest"
_XATTR_VALUE: Final = b"what only Swift may read"


class SelfTests:
    """Makes the sandboxes of self-tests; the caller runs one test at a time."""

    def __init__(self, node: Node, planner: Planner) -> None:
        self._node = node
        self._plans = SelfTestPlans(node.config, planner)
        self._keys: set[str] = set()

    def owns(self, key: str) -> bool:
        """Whether a sandbox is being tested now."""
        return key in self._keys

    async def run(self, trust_class: TrustClass) -> dict[str, str]:
        """The faults of a class by name of the test; raises a fault when no sandbox can be made."""
        call = self._node.threads.call
        self._node.paths.code.make(self._plans.demand(trust_class.name).account)
        faults = await self._run_in(await call(self._plans.plan, trust_class.name), trust_class)
        if faults[SURVIVES]:
            # A restart of Docker may have ended it.  A fault of the sandbox would occur again.
            log.warning(
                "self-test sandbox ended class=%s reason=%s",
                trust_class.name,
                shown(faults[SURVIVES]),
            )
            faults = await self._run_in(await call(self._plans.plan, trust_class.name), trust_class)
        if trust_class.name == USER_CLASS and self._node.config.sandbox.prewarmed:
            # An assigned pre-warmed sandbox must be as strong as a sandbox made for its tenant.
            with contextlib.suppress(MountFault):  # this node cannot have pre-warmed sandboxes
                assigned = await self._run_in(await call(self._plans.spare_plan), trust_class)
                faults |= {
                    name: f"pre-warmed: {text}"
                    for name, text in assigned.items()
                    if text and not faults.get(name)
                }
        return faults

    async def _run_in(self, plan: Plan, trust_class: TrustClass) -> dict[str, str]:
        sandbox = Sandbox(plan, self._node, _ignore_loss)
        self._keys.add(plan.key)
        # Not cancelled with this task: a container that Docker is about to start has no id yet by
        # which it could be removed.
        starting = asyncio.get_running_loop().create_task(self._start(sandbox))
        try:
            async with asyncio.timeout(self._node.config.sandbox.start_deadline_seconds):
                await asyncio.shield(starting)
            return await self._check_inside(sandbox, trust_class)
        except SandboxWeak as fault:
            return _with_outside({AS_CONFIGURED: plain(fault)})
        except TimeoutError:
            raise SandboxLost("the sandbox for the self-test did not start in time") from None
        finally:
            await _wait_for_end(starting)
            sandbox.cut()
            # A container that cannot be removed now is removed when its name is used again.
            with contextlib.suppress(EngineFault):
                await sandbox.remove()
            self._keys.discard(plan.key)

    async def _start(self, sandbox: Sandbox) -> None:
        await sandbox.start()
        if sandbox.state is State.SPARE:
            plan = await self._node.threads.call(self._plans.assigned_plan, sandbox.plan)
            await sandbox.assign(plan, _ignore_loss)

    async def _check_inside(self, sandbox: Sandbox, trust_class: TrustClass) -> dict[str, str]:
        with donated(self._node.paths.state_dir) as descriptor:
            before = _fingerprint(descriptor)
            try:
                faults = await sandbox.check(
                    descriptor,
                    allowed(trust_class),
                    self._plans.limits(trust_class.name),
                )
            except (SandboxLost, LoadRefused) as fault:
                faults = {SURVIVES: plain(fault)}
            if _fingerprint(descriptor) != before:
                faults[DONATED] = "the donated file was changed"
        return _with_outside(faults)


def _ignore_loss(_sandbox: Sandbox, _reason: str) -> None:
    """The loss of such a sandbox is noticed by the test, which waits for its answer."""


async def _wait_for_end(starting: asyncio.Task[None]) -> None:
    """Return when a start has ended, with or without success."""
    await asyncio.wait({starting}, timeout=END_SECONDS)
    starting.cancel()
    await asyncio.wait({starting})
    if not starting.cancelled():
        starting.exception()  # retrieved: the waiting task got it, too


def _with_outside(faults: Mapping[str, str]) -> dict[str, str]:
    """``faults``, beginning with the tests that are made from outside."""
    return {name: faults.get(name, "") for name in selftest.OUTSIDE} | dict(faults)


def allowed(trust_class: TrustClass) -> tuple[str, ...]:
    """The permissions of a class, in the words of the self-test."""
    network = () if trust_class.network == "none" else ("network",)
    return (
        *network,
        *(f"write:{mount.target}" for mount in trust_class.mounts if mount.is_writable),
    )


@contextlib.contextmanager
def donated(folder: Path) -> Iterator[int]:
    """A file like an object's: of root, closed to others, with attributes; opened for reading."""
    path = folder / "self-test-object"
    path.unlink(missing_ok=True)
    descriptor = os.open(
        path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        os.write(descriptor, CONTENT)
        # A file system without attributes has nothing to protect.
        with contextlib.suppress(OSError):
            os.setxattr(descriptor, XATTR, _XATTR_VALUE)
    finally:
        os.close(descriptor)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


def _fingerprint(descriptor: int) -> object:
    """Everything of a file that a storlet might change."""
    status = os.fstat(descriptor)
    names = []
    with contextlib.suppress(OSError):
        names = sorted((name, os.getxattr(descriptor, name)) for name in os.listxattr(descriptor))
    kept = (
        status.st_mode,
        status.st_uid,
        status.st_gid,
        status.st_nlink,
        status.st_mtime_ns,
        status.st_size,
    )
    return kept, names, os.pread(descriptor, 4096, 0)
