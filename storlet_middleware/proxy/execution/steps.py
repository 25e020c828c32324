"""The steps of an execution: one storlet each, with what a run of it needs.

A step knows no request: :mod:`storlet_middleware.proxy.requested_steps` adds that of a client or of
a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from storlet_middleware.admission.controller import Slot
from storlet_middleware.engine.log_pieces import LogPiece, ignore
from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.errors import InternalError


@dataclass(frozen=True)
class Settings:
    """The settings of one storlet's run.

    :param parameters: of the storlet, with the defaults of its manifest once it is resolved.
    :param limits: lower ones than the storlet's, by the names of
        :data:`storlet_middleware.engine.limits.TABLE`.
    """

    parameters: Mapping[str, str]
    limits: Mapping[str, float] = field(default_factory=dict)
    wants_log: bool = False


@dataclass
class Step:
    """One storlet of a run.

    :param id: the invocation's.
    :param version: known after the permission checks.
    :param keeps_log_tail: the record of the run has the end of its log if it fails.
    :param log_delay_seconds: see :class:`~storlet_middleware.engine.log_pieces.LogPieces`.
    :param tell: receives the log in pieces while the storlet runs.
    :param slot: the step's slot on this node, from its acquisition until the invocation takes it
        over.  Only steps of a pipeline acquire one here; a single storlet acquires its slot when it
        starts.
    :param secrets: the values of the account's secrets that the storlet has.
    """

    id: str
    settings: Settings
    version: StorletVersion | None = None
    keeps_log_tail: bool = False
    log_delay_seconds: float | None = None
    tell: Callable[[LogPiece], None] = ignore
    slot: Slot | None = None
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def storlet(self) -> StorletVersion:
        if self.version is None:
            raise InternalError("the storlet was not resolved")
        return self.version

    def release_slot(self) -> None:
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.release()
