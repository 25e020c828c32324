from __future__ import annotations

import pytest

from storlet_middleware import trial_host


@pytest.mark.parametrize(
    ("lacks", "capabilities", "accepted"),
    [
        ([], 1 << 24, ()),
        (["SwapLimit", "MemoryLimit"], 1 << 24, ("limit-memory",)),
        (["PidsLimit"], 0, ("limit-processes", "limit-oom-score-kept")),
    ],
)
def test_missing_features_of_the_machine_are_accepted_by_name(
    lacks: list[str], capabilities: int, accepted: object
) -> None:
    host = {fact: fact not in lacks for fact, _ in trial_host.NEEDS}

    assert trial_host.acceptable(host, capabilities) == accepted


def test_the_capabilities_of_this_process_are_a_set_of_bits() -> None:
    assert trial_host.own_capabilities() >= 0
