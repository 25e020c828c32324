"""Pre-warmed sandboxes: started and connected, and of no tenant yet.

A pre-warmed sandbox is of the user class and the default image.  It runs as root with the three
capabilities by which its supervisor becomes a tenant's user, without code and without data of any
tenant (``hardening``).  It is assigned once: the tenant's code directory is mounted into it, its
supervisor gives up root, its kernel's report is compared with the plan of the tenant's sandbox, and
from then on it *is* that sandbox until it ends.  It is never taken back.

Docker's labels cannot change, so the tenant of a pre-warmed sandbox is recorded in a note,
``<run_dir>/a/<key>``.  The note alone decides what the next sandboxd does with the container:

======================= ==========================================================================
note                    action
======================= ==========================================================================
``free``                never assigned: kept, if it would be made the same way today
a complete assignment   the sandbox of that account: adopted like any other
anything else           removed: it was being started, assigned or removed, and may have data of
                        a tenant
======================= ==========================================================================

Pre-warmed sandboxes count for ``max_per_node``, but they are evicted for tenants, and none is
started when the node has no free slot.  Where the host or the runtime cannot mount into a running
sandbox, there are no pre-warmed sandboxes, and sandboxd logs that once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import re
import secrets
from collections.abc import Callable
from typing import Final

from storlet_middleware.sandboxd import mounting
from storlet_middleware.sandboxd.docker import LABEL_ACCOUNT, LABEL_CONFIG, LABEL_KEY, Container
from storlet_middleware.sandboxd.errors import MountFault, SandboxdFault
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Assignment, Demand, Plan, Planner, detached_key
from storlet_middleware.sandboxd.readback import OWN_KERNEL
from storlet_middleware.sandboxd.sandbox.sandbox import Sandbox
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: Delay of the refill after an assignment: the tenant's first invocation comes first.
REFILL_SECONDS: Final = 1.0
#: Interval after a start that failed, and between checks whether there is room.
AGAIN_SECONDS: Final = 10.0

_FREE: Final = "free"
_KEY: Final = re.compile("[0-9a-f]{16}")


class Spares:
    """The pre-warmed sandboxes of one node.

    ``has_room`` returns whether the node has a free slot; ``end`` ends a sandbox.
    """

    def __init__(
        self,
        node: Node,
        planner: Planner,
        has_room: Callable[[], bool],
        end: Callable[[Sandbox], None],
    ) -> None:
        self._node = node
        self._planner = planner
        self._has_room = has_room
        self._end = end
        self._ready: dict[str, Sandbox] = {}
        self._starting: Sandbox | None = None
        self._adopting: dict[str, Sandbox] = {}
        #: Keys of containers under examination, before it is known whether they are usable.
        self._expected: set[str] = set()
        self._is_possible = True
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def all(self) -> list[Sandbox]:
        """Spares that are ready, being started or being adopted."""
        starting = (self._starting,) if self._starting is not None else ()
        return [*self._ready.values(), *self._adopting.values(), *starting]

    def owns(self, key: str) -> bool:
        """Whether a container's key is that of a pre-warmed sandbox."""
        return key in self._expected or any(spare.plan.key == key for spare in self.all)

    # --- assignment -------------------------------------------------------------------------------

    def take(self, demand: Demand) -> Sandbox | None:
        """A ready sandbox for a demand, or ``None``; the caller must :meth:`assign` it."""
        if not self._ready or not self._planner.can_be_spare(demand):
            return None
        _, spare = self._ready.popitem()
        self._changed.set()
        return spare

    async def assign(
        self, spare: Sandbox, demand: Demand, on_lost: Callable[[Sandbox, str], None]
    ) -> None:
        """Make a taken sandbox the sandbox of ``demand``; on a fault the caller must end it."""
        dirs = self._node.paths.sandboxes
        # From now on no other tenant may get it, even if sandboxd dies here.
        dirs.write_note(spare.plan.key, "")
        plan = await self._node.threads.call(self._planner.assigned_plan, demand, spare.plan)
        await spare.assign(plan, on_lost)
        uid = plan.identity.uid
        assignment = Assignment(spare.container.id or "", demand, uid, plan.code_mark)
        dirs.write_note(spare.plan.key, json.dumps(dataclasses.asdict(assignment)))

    def evict_one(self) -> Sandbox | None:
        """Begin to end a ready pre-warmed sandbox, if there is one."""
        if not self._ready:
            return None
        _, spare = self._ready.popitem()
        log.info("spare sandbox evicted key=%s", spare.plan.key)
        self._end(spare)
        return spare

    # --- refill -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start missing pre-warmed sandboxes one after the other, until cancelled."""
        wanted = self._node.config.sandbox.prewarmed
        runtime = self._planner.spare_runtime
        if wanted and runtime.startswith(OWN_KERNEL):
            self._switch_off(f"runtime {runtime} has a kernel of its own")
        while wanted and self._is_possible:
            self._changed.clear()
            if len(self.all) + len(self._expected) >= wanted or not self._has_room():
                await self._wait(AGAIN_SECONDS)
            elif await self._start():
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
                await asyncio.sleep(REFILL_SECONDS)
        except TimeoutError:
            return

    async def _start(self) -> bool:
        """Start one pre-warmed sandbox; return whether that succeeded."""
        key = secrets.token_hex(8)
        try:
            plan = await self._node.threads.call(self._planner.spare_plan, key)
            spare = self._starting = Sandbox(plan, self._node, self._lost)
            async with asyncio.timeout(self._node.config.sandbox.start_deadline_seconds):
                await spare.start()
                await self._check_mounting(spare)
            self._node.paths.sandboxes.write_note(key, _FREE)
        except (SandboxdFault, TimeoutError) as fault:
            if isinstance(fault, MountFault):
                self._switch_off(str(fault))
            else:
                reason = shown(fault or "it did not start in time")
                log.warning("spare sandbox failed key=%s reason=%s", key, reason)
            if self._starting is not None:
                self._end(self._starting)
            return False
        except asyncio.CancelledError:
            if self._starting is not None:
                self._starting.release()  # without a note: the next sandboxd removes it
            raise
        finally:
            self._starting = None
        if spare.is_lost or not self._has_room():
            self._end(spare)
            return False
        self._ready[key] = spare
        container = (spare.container.id or "")[:12]
        log.info("spare sandbox started key=%s container=%s", key, container)
        return True

    async def _check_mounting(self, spare: Sandbox) -> None:
        if self._node.mount is mounting.mount_read_only:
            empty_dir, pid = self._node.paths.empty_dir, spare.supervisor_pid
            await self._node.threads.call(mounting.check, empty_dir, pid)

    def _switch_off(self, reason: str) -> None:
        self._is_possible = False
        log.warning("no pre-warmed sandboxes on this node reason=%s", shown(reason))

    def _lost(self, spare: Sandbox, reason: str) -> None:
        log.warning("spare sandbox lost key=%s reason=%s", spare.plan.key, shown(reason))
        if self._ready.pop(spare.plan.key, None) is not None:
            self._end(spare)

    # --- adoption ---------------------------------------------------------------------------------

    @staticmethod
    def is_one(container: Container) -> bool:
        """Whether a container of ours was started as a pre-warmed sandbox."""
        return LABEL_ACCOUNT in container.labels and not container.labels[LABEL_ACCOUNT]

    def assigned_plan_of(self, container: Container) -> Plan | None:
        """The plan of an assigned pre-warmed sandbox, or ``None`` when unusable.  Blocks."""
        key, dirs = container.labels.get(LABEL_KEY, ""), self._node.paths.sandboxes
        keys = (name for name in (key, detached_key(container.id)) if _KEY.fullmatch(name))
        for note in (dirs.read_note(name) for name in keys):
            assignment = _assignment(note)
            if assignment is not None:
                return self._planner.assigned_plan_of(container, assignment)
        return None

    async def adopt(self, container: Container) -> bool:
        """Adopt a free one that an earlier sandboxd left; return whether it is kept."""
        key = container.labels.get(LABEL_KEY, "")
        is_free = _KEY.fullmatch(key) and self._node.paths.sandboxes.read_note(key) == _FREE
        count = len(self.all) + len(self._expected)
        wanted = self._node.config.sandbox.prewarmed
        if not is_free or not container.is_running or count >= wanted:
            return False
        self._expected.add(key)
        try:
            plan = await self._node.threads.call(self._planner.spare_plan, key)
        except SandboxdFault as fault:
            log.info("spare sandbox not adopted key=%s reason=%s", key, shown(fault))
            return False
        finally:
            self._expected.discard(key)
        known = (container.name, container.labels.get(LABEL_CONFIG))
        if known != (plan.container_name, plan.config_hash):
            return False
        return await self._adopt(container, plan)

    async def _adopt(self, container: Container, plan: Plan) -> bool:
        key = plan.key
        spare = self._adopting[key] = Sandbox(plan, self._node, self._lost)
        try:
            async with asyncio.timeout(self._node.config.sandbox.start_deadline_seconds):
                await spare.adopt(container.id, container.created_at)
        except (SandboxdFault, TimeoutError) as fault:
            log.info("spare sandbox not adopted key=%s reason=%s", key, shown(fault))
            self._end(spare)
            return True
        finally:
            del self._adopting[key]
        self._ready[key] = spare
        log.info("spare sandbox adopted key=%s container=%s", key, container.id[:12])
        return True

    def release(self) -> None:
        """Disconnect from all of them and leave them running, for the next sandboxd."""
        for spare in self.all:
            spare.release()


def _assignment(note: str) -> Assignment | None:
    try:
        data = json.loads(note)
        demand = Demand(**data["demand"])
        return Assignment(str(data["container"]), demand, int(data["uid"]), str(data["code_mark"]))
    except (ValueError, KeyError, TypeError):
        return None
