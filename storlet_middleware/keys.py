"""Short keys of accounts and sandboxes: hashes of the whole names, so prefixes cannot collide."""

from __future__ import annotations

import hashlib


def tenant_key(account: str) -> str:
    """32 hexadecimal digits: the name of an account's code directory."""
    return _digest("tenant", account)[:32]


def sandbox_key(account: str, trust_class: str, image: str) -> str:
    """16 hexadecimal digits: the name of a sandbox on every node."""
    return _digest("sandbox", account, trust_class, image)[:16]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
