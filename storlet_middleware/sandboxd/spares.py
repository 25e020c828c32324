"""Pre-warmed sandboxes: started, connected, and nobody's until an account needs one at once.

A spare is of the user class and the default image.  It runs as root with the three capabilities by which its supervisor
becomes a tenant's user, without code and without anything of any tenant (``hardening``).  It is given away once: its tenant's
code directory is mounted into it, its supervisor gives up root, what its kernel says is held against what the tenant's
sandbox must be, and from then on it *is* that sandbox, until it ends.  It is never taken back.

Docker's labels cannot change, so whose a spare is stands in a note of ours, ``<run_dir>/a/<key>``.  What the next sandboxd does
with the container depends on it alone:

=============== ====================================================================================================
the note says   then
=============== ====================================================================================================
free            it was never given to anybody: kept as a spare, if it would be made the same way today
given, with all it is that account's sandbox, and adopted as any other
anything else   removed: it was being started, being given away, or being removed, and may have something of a tenant
=============== ====================================================================================================

Spares count for ``max_per_node``, but they make way for tenants, and none is started where it would take a tenant's place.
Where the host or the runtime cannot mount into a running sandbox, there are no spares, and the log says so once.
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
from storlet_middleware.sandboxd.plan import Demand, Given, Plan, Planner, aside_key
from storlet_middleware.sandboxd.readback import OWN_KERNEL
from storlet_middleware.sandboxd.sandbox import Node, Sandbox
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: After a spare was given away: its tenant's first invocation comes first.
REFILL_SECONDS: Final = 1.0
#: After a start that failed, and between looks whether there is room.
AGAIN_SECONDS: Final = 10.0

_FREE: Final = "free"
_KEY: Final = re.compile("[0-9a-f]{16}")


class Spares:
    """The spares of one node; ``is_room`` says whether one more would take no tenant's place, ``end`` ends a sandbox."""

    def __init__(
        self,
        node: Node,
        planner: Planner,
        is_room: Callable[[], bool],
        end: Callable[[Sandbox], None],
    ) -> None:
        self._node = node
        self._planner = planner
        self._is_room = is_room
        self._end = end
        self._ready: dict[str, Sandbox] = {}
        self._starting: Sandbox | None = None
        self._adopting: dict[str, Sandbox] = {}
        #: Keys of those that are being looked at, from before it is known whether they are of use.
        self._expected: set[str] = set()
        self._is_possible = True
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def all(self) -> list[Sandbox]:
        """Those that wait, and those that are being started or adopted."""
        starting = (self._starting,) if self._starting is not None else ()
        return [*self._ready.values(), *self._adopting.values(), *starting]

    def owns(self, key: str) -> bool:
        """Whether a container's key is that of a spare."""
        return key in self._expected or any(spare.plan.key == key for spare in self.all)

    # --- giving away ------------------------------------------------------------------------------------------------

    def take(self, demand: Demand) -> Sandbox | None:
        """A spare for a demand, if one is ready; the caller must :meth:`give` it."""
        if not self._ready or not self._planner.can_be_spare(demand):
            return None
        _, spare = self._ready.popitem()
        self._changed.set()
        return spare

    async def give(
        self, spare: Sandbox, demand: Demand, on_lost: Callable[[Sandbox, str], None]
    ) -> None:
        """Make a taken spare the sandbox of ``demand``; on any fault it is of no use, and the caller must end it."""
        places = self._node.places
        places.write_note(
            spare.plan.key, ""
        )  # from now on nobody else may have it, whatever becomes of us
        plan = await self._node.threads.call(self._planner.given_plan, demand, spare.plan)
        await spare.give(plan, on_lost)
        given = Given(spare.container_id or "", demand, plan.identity.uid, plan.code_mark)
        places.write_note(spare.plan.key, json.dumps(dataclasses.asdict(given)))

    def drop_one(self) -> Sandbox | None:
        """Make room: begin to end a spare, if there is one."""
        if not self._ready:
            return None
        _, spare = self._ready.popitem()
        log.info("spare sandbox makes way key=%s", spare.plan.key)
        self._end(spare)
        return spare

    # --- having some ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start spares where some are missing, one after the other, until cancelled."""
        wanted = self._node.config.sandbox.prewarmed
        runtime = self._planner.spare_runtime
        if wanted and runtime.startswith(OWN_KERNEL):
            self._switch_off(f"runtime {runtime} has a kernel of its own")
        while wanted and self._is_possible:
            self._changed.clear()
            if len(self.all) + len(self._expected) >= wanted or not self._is_room():
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
        """Start one; whether that succeeded."""
        key = secrets.token_hex(8)
        try:
            plan = await self._node.threads.call(self._planner.spare_plan, key)
            spare = self._starting = Sandbox(plan, self._node, self._lost)
            async with asyncio.timeout(self._node.config.sandbox.start_deadline_seconds):
                await spare.start()
                await self._check_mounting(spare)
            self._node.places.write_note(key, _FREE)
        except (SandboxdFault, TimeoutError) as fault:
            if isinstance(fault, MountFault):
                self._switch_off(str(fault))
            else:
                log.warning(
                    "spare sandbox failed key=%s reason=%s",
                    key,
                    shown(fault or "it did not start in time"),
                )
            if self._starting is not None:
                self._end(self._starting)
            return False
        except asyncio.CancelledError:
            if self._starting is not None:
                self._starting.release()  # without a note: the next sandboxd removes it
            raise
        finally:
            self._starting = None
        if spare.is_lost or not self._is_room():
            self._end(spare)
            return False
        self._ready[key] = spare
        log.info("spare sandbox started key=%s container=%s", key, (spare.container_id or "")[:12])
        return True

    async def _check_mounting(self, spare: Sandbox) -> None:
        if self._node.mount is mounting.mount_read_only:
            await self._node.threads.call(
                mounting.check, self._node.places.empty_dir, spare.supervisor_pid
            )

    def _switch_off(self, reason: str) -> None:
        self._is_possible = False
        log.warning("no pre-warmed sandboxes on this node reason=%s", shown(reason))

    def _lost(self, spare: Sandbox, reason: str) -> None:
        log.warning("spare sandbox lost key=%s reason=%s", spare.plan.key, shown(reason))
        if self._ready.pop(spare.plan.key, None) is not None:
            self._end(spare)

    # --- of an earlier sandboxd -------------------------------------------------------------------------------------

    @staticmethod
    def is_one(container: Container) -> bool:
        """Whether a container of ours was started as a spare."""
        return LABEL_ACCOUNT in container.labels and not container.labels[LABEL_ACCOUNT]

    def given_plan_of(self, container: Container) -> Plan | None:
        """The plan of a spare that is a tenant's sandbox; ``None`` for one that is not, or of no use.  Blocks."""
        key = container.labels.get(LABEL_KEY, "")
        notes = (
            self._node.places.read_note(name)
            for name in (key, aside_key(container.id))
            if _KEY.fullmatch(name)
        )
        given = next((given for note in notes if (given := _given(note)) is not None), None)
        return self._planner.given_plan_of(container, given) if given is not None else None

    async def adopt(self, container: Container) -> bool:
        """Keep a free spare that an earlier sandboxd left; whether it is kept."""
        key = container.labels.get(LABEL_KEY, "")
        is_free = _KEY.fullmatch(key) and self._node.places.read_note(key) == _FREE
        count = len(self.all) + len(self._expected)
        if not is_free or not container.is_running or count >= self._node.config.sandbox.prewarmed:
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
        """Let go of all of them and leave them running, for the next sandboxd."""
        for spare in self.all:
            spare.release()


def _given(note: str) -> Given | None:
    try:
        data = json.loads(note)
        return Given(
            str(data["container"]),
            Demand(**data["demand"]),
            int(data["uid"]),
            str(data["code_mark"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
