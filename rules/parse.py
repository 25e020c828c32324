"""Skeleton; filled in next."""

from __future__ import annotations

from rules.model import Finding, RuleSet


def parse(text: bytes | str) -> tuple[RuleSet | None, tuple[Finding, ...]]:
    raise NotImplementedError(text)
