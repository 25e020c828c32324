"""What a rule wants of a run: the plan, and what of the source may leave with the result.

A run that a client asks for has no plan.  With a plan the storlets are the rule's: a signed URL for the object runs them, every answer
names the rule, and under a mandatory rule (or one with ``pass``) metadata and headers of the source are withheld unless they are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rules.model import Passes
from storlet_middleware import names
from storlet_middleware.wsgi.storlet_request import StorletRequest

_METADATA: Final = names.OBJECT_META.lower()
_STORLETS_OWN: Final = names.STORLET_META.lower()
#: The content type of a result without one.
UNKNOWN_TYPE: Final = "application/octet-stream"


@dataclass(frozen=True)
class Plan:
    """Why and how a rule has storlets run on a request.

    :param rule: the rule's name, which every answer carries.
    :param passes: what of the source leaves; ``None``: nothing when the rule is mandatory, else what an unruled run passes on.
    :param further: steps after the first: each reads the output of the one before.
    :param explicit_last: the client asked for the last step, which needs what a client's own run needs.
    :param reverse: name of the rule that says how to undo on reading what is stored; empty: nothing has to be undone.
    :param is_reversing: the first steps undo what a rule did when the object was stored.
    """

    rule: str
    is_mandatory: bool = False
    passes: Passes | None = None
    further: tuple[StorletRequest, ...] = ()
    explicit_last: bool = False
    reverse: str = ""
    is_reversing: bool = False

    @property
    def withholds(self) -> bool:
        """Whether the plan names what of the source may leave."""
        return self.is_mandatory or self.passes is not None

    def passes_header(self, header: str) -> bool:
        """Whether a header of the source leaves with the result of a plan that withholds."""
        passes, name = self.passes or _NOTHING, header.lower()
        if name.startswith(_METADATA):
            return not name.startswith(_STORLETS_OWN) and passes.allows_metadata(
                name.removeprefix(_METADATA)
            )
        return passes.allows_header(name)

    def passed_headers(self, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
        """The subset of the source's headers that may leave."""
        return {key: value for key, value in headers if self.passes_header(key)}

    def content_type(self, headers: Mapping[str, str]) -> str:
        """The content type of a result whose storlets set none."""
        source_type = headers.get("Content-Type") or ""
        return source_type if source_type and self.passes_header("Content-Type") else UNKNOWN_TYPE


_NOTHING: Final = Passes()
