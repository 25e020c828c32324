"""Decides which facts of the source, the run and the error a caller sees; no other module does.

====================== ============================= =================== ==========================
caller                 metadata and headers of the   usage, placement    text of the tenant's
                       source                                            errors
====================== ============================= =================== ==========================
owner of the storlets  user metadata, CORS headers   yes                 yes
other caller           user metadata, CORS headers   yes                 no
reads by a grant only  none but the content type     yes                 no
under a mandatory rule items in the rule's ``pass``  PUT, or to owners   owners only; no input
                                                                         errors
====================== ============================= =================== ==========================

Storlets and flows always see the placement of the runs that they request: it marks the answer as
a result.  They pass it on to no client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from storlet_middleware.errors import StorletError, row_of
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.wsgi.user_metadata import user_metadata_wsgi

_CORS: Final = "access-control-"


class Disclosure:
    """The decisions for one run.

    :param plan: a rule's requirements of the run; ``None`` if the client requested the run.
    :param used_grants: those of the :class:`~.wsgi.context.RequestContext`; not empty if a grant
        allowed to read the source.
    :param reads_source: whether the run reads an object (GET, COPY).
    :param is_inner: whether a storlet or a flow requests the run.
    """

    def __init__(
        self,
        plan: Plan | None,
        used_grants: Sequence[str],
        *,
        reads_source: bool,
        is_inner: bool = False,
    ) -> None:
        self._plan = plan
        self._used_grants = used_grants
        self._reads_source = reads_source
        self._is_inner = is_inner
        #: Whether the caller owns all storlets of the run; set after the permission checks.
        self.is_owner = False

    @property
    def is_mandatory(self) -> bool:
        """Whether a mandatory rule requires the run."""
        return self._plan is not None and self._plan.is_mandatory

    @property
    def withholds(self) -> bool:
        """Whether a rule limits the facts of the source that the caller sees."""
        return self._plan is not None and self._plan.withholds

    @property
    def shows_usage(self) -> bool:
        """Whether the caller sees the usage: bytes read, and the memory of a storlet that gathers
        its input, reveal the length of the source.
        """
        return not (self.is_mandatory and self._reads_source and not self.is_owner)

    @property
    def shows_placement(self) -> bool:
        """Whether the caller sees where the storlets ran.

        A node runs them only on a whole, plain object.  So the placement reveals that an object is
        large, encrypted or erasure-coded.
        """
        return self._is_inner or self.shows_usage

    def hides_source_answer(self, status: int) -> bool:
        """Whether Swift's answer for the source is reduced to its status; 401 and 403 reveal
        nothing about the object.
        """
        return bool(self._used_grants) or (self.is_mandatory and status not in (401, 403))

    def answer_headers(self, source: Any) -> dict[str, str]:
        """Headers of the source that an answer to the client carries."""
        if self._used_grants:
            return {}
        if self._plan is not None and self._plan.withholds:
            return self._plan.passed_headers(source.items())
        cors = {key: value for key, value in source.items() if key.lower().startswith(_CORS)}
        return user_metadata_wsgi(source) | cors

    def inherited_metadata(self, source: Any) -> dict[str, str]:
        """User metadata of the source that a stored result, or the next step's input, inherits."""
        if self._used_grants:
            return {}
        metadata = user_metadata_wsgi(source)
        return (
            self._plan.passed_headers(metadata.items())
            if self._plan is not None and self.withholds
            else metadata
        )

    def content_type(self, source: Mapping[str, str], default: str) -> str:
        """The content type if the storlets set none; ``default`` if the source has none either."""
        if self._plan is not None and self._plan.withholds:
            return self._plan.content_type(source)
        return source.get("Content-Type") or default

    def shows_header(self, name: str) -> bool:
        """Whether the caller may see a header of the source."""
        if self._used_grants:
            return False
        return self._plan is None or not self._plan.withholds or self._plan.passes_header(name)

    def error(
        self, error: StorletError, failed: int | None = None, storlets: Sequence[str] = ()
    ) -> StorletError:
        """``error`` as the caller may see it; only owners see which storlet of a pipeline failed.

        :param failed: index of the failed step of a pipeline; ``None`` if none failed.
        :param storlets: names of the storlets of the run.
        """
        if not self.is_owner:
            error = error.without_tenant_text()
            if self.is_mandatory and row_of(error.code).has_source_text:
                error.args = ("the storlet's input could not be read",)
        if failed is not None:
            name = f" ({storlets[failed]})" if self.is_owner else ""
            error.args = (f"step {failed + 1} of {len(storlets)}{name}: {error}",)
        return error
