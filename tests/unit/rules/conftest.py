"""Hypothesis with the same examples on every machine and in every run."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "rules",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("rules")
