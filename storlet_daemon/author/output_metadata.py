"""Metadata that no output can have: a cluster and a run without a sandbox refuse the same."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Characters of a header's name in HTTP, and UTF-8 as in Swift.  Swift's clients cannot send
#: others; a ':' or a space would break the connections to object servers, and Swift would blame
#: those servers.
_KEY = re.compile(r"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]|[^\x00-\xa0\s])+")


def fault_of(metadata: Mapping[str, str]) -> str:
    """Why an output cannot have this metadata; empty if it can."""
    for key, value in metadata.items():
        if any(ord(char) < 32 or ord(char) == 127 for char in key + value):
            return "the storlet's metadata has a control character"
        if not _KEY.fullmatch(key):
            return f"the storlet's metadata has a key that no header can have: {key!r}"
    return ""
