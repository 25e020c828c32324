"""The plan of a run: a rule's requirements, and the facts of the source that the result may carry.

A run that a client requests has no plan.  With a plan, the storlets are the rule's: a signed URL
for the object runs them, and every answer names the rule.  A mandatory rule, or a rule with
``pass``, withholds metadata and headers of the source that it does not name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rules.model import Passes
from storlet_middleware import names

_METADATA: Final = names.OBJECT_META.lower()
_STORLETS_OWN: Final = names.STORLET_META.lower()
#: The content type of a result without one.
UNKNOWN_TYPE: Final = "application/octet-stream"


@dataclass(frozen=True)
class Plan:
    """Why and how storlets of a rule run on a request.

    :param rule: the rule's name, which every answer carries.
    :param passes: the facts of the source that the result carries; ``None``: none if the rule is
        mandatory, else the same as without a rule.
    :param explicit_count: the number of last steps that the client requested, with the checks of a
        client's own run.
    :param reverse: name of the rule whose ``reverse`` applies when the stored result is read; empty
        if none.
    :param is_reversing: the first steps reverse the storlets that ran when the object was stored.
    """

    rule: str
    is_mandatory: bool = False
    passes: Passes | None = None
    explicit_count: int = 0
    reverse: str = ""
    is_reversing: bool = False

    @property
    def withholds(self) -> bool:
        """Whether the plan limits the facts of the source that the result carries."""
        return self.is_mandatory or self.passes is not None

    def passes_header(self, header: str) -> bool:
        """Whether the result carries a header of the source, if the plan withholds."""
        passes, name = self.passes or _NOTHING, header.lower()
        if name.startswith(_METADATA):
            return not name.startswith(_STORLETS_OWN) and passes.allows_metadata(
                name.removeprefix(_METADATA)
            )
        return passes.allows_header(name)

    def passed_headers(self, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
        """The subset of the source's headers that the result carries."""
        return {key: value for key, value in headers if self.passes_header(key)}

    def content_type(self, headers: Mapping[str, str]) -> str:
        """The content type of a result whose storlets set none."""
        source_type = headers.get("Content-Type") or ""
        return source_type if source_type and self.passes_header("Content-Type") else UNKNOWN_TYPE


_NOTHING: Final = Passes()
