"""The plans of the sandboxes of self-tests: like those of tenants, except for smaller limits."""

from __future__ import annotations

import dataclasses
from typing import Final

from storlet_middleware.config import USER_CLASS, Config, LimitsSection
from storlet_middleware.keys import sandbox_key
from storlet_middleware.sandboxd.plan import (
    SELF_TEST_ACCOUNT,
    Demand,
    Plan,
    Planner,
    in_directories_of,
)

#: Small, so that the self-test reaches the limits quickly.
_LIMITS: Final = {
    "memory_bytes": 128 << 20,
    "pids": 64,
    "open_files": 256,
    "scratch_bytes": 8 << 20,
}


class SelfTestPlans:
    """Makes them; :meth:`plan` and the methods after it may block on Docker or the disk."""

    def __init__(self, config: Config, planner: Planner) -> None:
        self._config = config
        self._planner = planner

    def demand(self, trust_class: str) -> Demand:
        """The sandbox for the self-test of a class."""
        return Demand(SELF_TEST_ACCOUNT, trust_class, self._config.sandbox.image)

    def limits(self, trust_class: str) -> LimitsSection:
        """The limits of that sandbox."""
        limits = self._config.classes[trust_class].limits
        small = {name: min(getattr(limits, name), most) for name, most in _LIMITS.items()}
        return dataclasses.replace(limits, **small)

    def plan(self, trust_class: str) -> Plan:
        """The plan for it."""
        return self._planner.plan(self.demand(trust_class), self.limits(trust_class))

    def spare_plan(self) -> Plan:
        """The plan for a pre-warmed one; its name is constant, so that the next test removes it."""
        key = sandbox_key(SELF_TEST_ACCOUNT, "spare", self._config.sandbox.image)
        return self._planner.spare_plan(key, self.limits(USER_CLASS))

    def assigned_plan(self, spare: Plan) -> Plan:
        """The plan of that sandbox once it is assigned."""
        return in_directories_of(spare, self.plan(USER_CLASS))
