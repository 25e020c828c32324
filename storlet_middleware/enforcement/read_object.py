"""The stored object that an operation reads, or the one that a POST or DELETE changes."""

from __future__ import annotations

import functools
from typing import Any, Protocol
from urllib.parse import quote

from storlet_middleware.enforcement import request_facts
from storlet_middleware.enforcement.request_facts import ObjectState, Parts
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.swift_paths import SwiftPath, version_of


class ShowsVersion(Protocol):
    """Whether the caller may see the facts of an object, or of its version."""

    def __call__(self, place: SwiftPath, parts: Parts, version_id: str = "") -> bool: ...


class ReadObject:
    """The subject of ``operation``, or the version of it that the query names: Swift gives those to
    owners.

    Swift refuses each POST to a version, and a rule's refusal would show the facts of the version.
    So a POST is decided by the facts of the object.
    """

    def __init__(
        self, app: Any, environ: dict[str, Any], operation: Operation, shows: ShowsVersion
    ) -> None:
        self._app = app
        self._environ = environ
        self._operation = operation
        self._subject = operation.subject
        self._shows = shows
        #: The result of :meth:`state`; ``None`` before its first call.
        self.known_state: ObjectState | None = None

    @property
    def path(self) -> SwiftPath:
        return version_of(self._subject, self._version_id)

    @property
    def _version_id(self) -> str:
        operation = self._operation
        return "" if operation.sent_method == "POST" else operation.version_id

    def state(self) -> ObjectState:
        """The object; looked up on the first call."""
        if self.known_state is None:
            self.known_state = self.look_up()
        return self.known_state

    def look_up(self) -> ObjectState:
        """The object as it is now."""
        subject, operation = self._subject, self._operation
        if subject.container is None or subject.name is None:
            raise AssertionError("only objects are looked up")
        is_post = operation.sent_method == "POST"
        version = None if is_post else operation.query.get("version-id")
        path = subject.path + (f"version-id={quote(version)}" if version else "")
        return request_facts.look_up_object(self._app, self._environ, path, self._shows)

    def is_shown(self, state: ObjectState) -> bool:
        """Whether the caller may see ``state``, that of the object."""
        if state.end is None:
            return self._shows(self._subject, state.parts, self._version_id)
        is_link_shown = self._shows(self._subject, Parts.NONE, self._version_id)
        return is_link_shown and self._shows(state.end, state.parts)

    @functools.cached_property
    def is_hidden(self) -> bool:
        """Whether the caller may not see the facts of the object.

        Then no rule about the target of a copy may depend on them: the caller may be its author.
        """
        return not self.is_shown(self.state())
