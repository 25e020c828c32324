"""Changing the rules of an account: an upload is checked, kept as a version, and comes into force at one moment.

::

    PUT rules.yaml --> may the client --> check --> version's object --> rules.yaml --> pointer --> 201
                                 |            |   '-- a failure from here on leaves the rules that were in force
                                403          400 rules.invalid: all that is wrong, or warnings that nobody has accepted

* ``COPY`` of a version onto ``rules.yaml`` (or ``PUT`` with ``X-Copy-From``) is an upload of what that version has.
* ``DELETE`` of ``rules.yaml`` removes the rules; their versions stay, and each can be deleted but the one in force.
* Nobody else writes into ``versions/``, and no storlet anywhere in the container.

Who may is decided by Swift's write ACL of the container and ``[rules] role``; a signed URL never may.  Of two who change an
account's rules at a time one is told to try again, where there is a memcached to notice it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import parse_qsl

from swift.common.exceptions import MemcacheConnectionError
from swift.common.swob import Request, Response
from swift.common.utils import cache_from_env, config_true_value, drain_and_close

from rules import parse
from rules.model import Finding, Place, Severity
from rules.text import MAX_BYTES
from storlet_middleware import names
from storlet_middleware.config import Config
from storlet_middleware.errors import (
    AccessDenied,
    BackendFailed,
    BadRequest,
    PreconditionFailed,
    RulesConflict,
    RulesInvalid,
)
from storlet_middleware.ruleset import upload_report
from storlet_middleware.ruleset.pointer import VERSIONS, Pointer, Pointers
from storlet_middleware.ruleset.validation import Checked, Checker
from storlet_middleware.ruleset.versions import RULES, Versions, is_ours
from storlet_middleware.wsgi import authorization, caller, delegation
from storlet_middleware.wsgi.bodies import ClientBody
from storlet_middleware.wsgi.storlet_request import (
    ObjectPath,
    account_of,
    parse_object_path,
    refuse_unknown,
    storlet_headers,
)
from storlet_middleware.wsgi.subrequest import SwiftRefusal

#: version, account, container, name; as text, ``None`` where the path has none.
Parts = tuple[str, str, str | None, str | None]
Handler = Callable[[dict[str, Any]], Any]

#: What would make rules.yaml something else than rules, or let it vanish while the rules stay in force.
_REFUSED: Final = ("X-Object-Manifest", "X-Symlink-Target", "X-Delete-At", "X-Delete-After")
#: Longer than a change takes that goes well.
_LOCK_SECONDS: Final = 60
_UNCERTAIN: Final = (
    "the rules could not be brought into force, and it is not certain which are: try again"
)


class Uploads:
    """Answers requests that change the rules of any account.

    :param app: the rest of the proxy's pipeline.
    :param client_seconds: how long a client may send nothing.
    """

    def __init__(
        self,
        app: Any,
        config: Config,
        logger: Any,
        pointers: Pointers,
        versions: Versions,
        client_seconds: float,
    ) -> None:
        self.app = app
        self.container = config.rules.container
        self.role = config.rules.role.lower()
        self.logger = logger
        self.pointers = pointers
        self.versions = versions
        self.client_seconds = client_seconds
        self.checker = Checker(app, config)

    def handler(self, environ: dict[str, Any], parts: Parts) -> Handler | None:
        """Who answers a request that would change rules; ``None`` for every other, decided without input or output."""
        found = self._changed(environ, parts)
        if found is None or config_true_value(environ.get(names.EXPLAIN_KEY, "false")):
            return None
        method = environ["REQUEST_METHOD"]
        name, source = found
        if "HTTP_X_RUN_STORLET" in environ and method in ("PUT", "COPY"):
            return self._refuse_storlet
        if not is_ours(name):
            return None
        change = _Change(self, environ, (parts[0], parts[1]), name, source)
        return {
            "PUT": change.upload,
            "COPY": change.upload,
            "POST": change.post,
            "DELETE": change.delete,
        }[method]

    def _changed(
        self, environ: dict[str, Any], parts: Parts
    ) -> tuple[str, ObjectPath | None] | None:
        """The object of the rules' container that the request would change, and the one in the path of a COPY."""
        _, _, container, name = parts
        method = environ["REQUEST_METHOD"]
        if container is None or name is None:
            return None
        if method == "COPY":
            target = _object_in(environ.get("HTTP_DESTINATION"))
            is_there = target is not None and target.container == self.container
            return (
                (target.name, ObjectPath(container, name))
                if target is not None and is_there
                else None
            )
        return (
            (name, None)
            if container == self.container and method in ("PUT", "POST", "DELETE")
            else None
        )

    def _refuse_storlet(self, environ: dict[str, Any]) -> Response:
        raise BadRequest(f"a storlet cannot write into the container {self.container}")


class _Change:
    """One request.

    :param name: of the object that it would change.
    :param copied: the object in its path, when it is a COPY.
    """

    def __init__(
        self,
        uploads: Uploads,
        environ: dict[str, Any],
        place: tuple[str, str],
        name: str,
        copied: ObjectPath | None,
    ) -> None:
        self._uploads = uploads
        self._environ = environ
        self._place = place
        self._name = name
        self._copied = copied
        self._query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))

    # --- the three kinds -----------------------------------------------------------------------------------------

    def upload(self, environ: dict[str, Any]) -> Response:
        """PUT and COPY."""
        if not self._require_right():
            raise self._refusal(404)
        self._refuse_others()
        if self._name != RULES:
            raise AccessDenied(f"only an upload of {RULES} makes a version of the rules")
        source = self._source()
        rules = self._body() if source is None else self._version(source)
        if rules is None:
            said = f"the rules are longer than {MAX_BYTES:,} bytes"
            findings = (
                Finding(
                    Severity.ERROR, "size.bytes", Place(1, 1), said, "use globs, prefixes and lists"
                ),
            )
            checked = Checked(findings, is_mandatory=False)
        else:
            checked = self._uploads.checker.check(environ, self._place, rules)
        if rules is None or checked.errors:
            return upload_report.refusal(
                environ,
                RulesInvalid(f"{_count(checked)}: the rules in force stay"),
                checked.findings,
            )
        if checked.warnings and not config_true_value(
            self._header(names.RULES_ACCEPT_WARNINGS) or "false"
        ):
            said = f"{_count(checked)}: the rules in force stay; accept with {names.RULES_ACCEPT_WARNINGS}: true"
            return upload_report.refusal(environ, RulesInvalid(said), checked.findings)
        pointer, headers = self._bring_into_force(rules, is_mandatory=checked.is_mandatory)
        said = "the rules are in force" + (f"; {_count(checked)}" if checked.warnings else "")
        answer = upload_report.acceptance(environ, said, checked.findings)
        answer.headers.update(headers)
        answer.headers[names.RULES_VERSION] = pointer.name
        if source is not None:
            answer.headers["X-Copied-From"] = f"{self._uploads.container}/{source}"
        return answer

    def post(self, environ: dict[str, Any]) -> Any:
        """User metadata of ``rules.yaml`` means nothing to us."""
        self._require_right()
        self._refuse_others()
        if self._name != RULES:
            raise AccessDenied("versions of the rules are not changed")
        return self._uploads.app

    def delete(self, environ: dict[str, Any]) -> Any:
        """Of ``rules.yaml`` and so of the rules, or of a version."""
        self._require_right()
        self._refuse_others()
        with self._alone():
            before = self._uploads.pointers.fresh(environ, *self._place)
            if self._name != RULES:
                if before is not None and before.name == self._name:
                    raise RulesConflict(
                        "this version of the rules is in force: upload other rules, or delete them, first"
                    )
                return Request(environ).get_response(self._uploads.app)
            # Where Swift keeps versions of its own, one of those says nothing of what is in force.
            had_rules = (
                before is not None and bool(before.version) and "version-id" not in self._query
            )
            if had_rules:
                self._set(Pointer.to_none(after=before), before)
                self._log("removed", before)
            answer = Request(environ).get_response(self._uploads.app)
            if had_rules and answer.status_int == 404:
                # The object was gone already, and now the rules are: that was asked for.
                drain_and_close(answer)
                return Response(status=204, request=Request(environ))
            return answer

    # --- who may, and what ---------------------------------------------------------------------------------------

    def _require_right(self) -> bool:
        """Raise unless the client may change rules; whether there is a container for them at all."""
        path = self._uploads.versions.path(self._place, self._name)
        verdict = authorization.ask(self._environ, self._uploads.app, "PUT", path)
        if verdict.refusal is not None:
            raise SwiftRefusal(verdict.refusal)
        if delegation.is_signed(self._environ):
            raise AccessDenied("a signed URL does not change rules")
        role = self._uploads.role
        roles = {each.lower() for each in caller.caller_of(self._environ).roles}
        if role and not verdict.is_owner and role not in roles:
            raise AccessDenied(
                f"who does not own the account needs the role {role} to change its rules"
            )
        return verdict.container_status != 404

    def _refuse_others(self) -> None:
        """All that is wrong with the request itself."""
        environ = self._environ
        faults = refuse_unknown(
            storlet_headers(environ), (names.RULES_ACCEPT_WARNINGS,), "unknown header"
        )
        if environ["REQUEST_METHOD"] != "DELETE":
            faults += [f"{name}: rules are an object of their own, and stay until they are deleted"
                       for name in _REFUSED if self._header(name)]  # fmt: skip
        if "multipart-manifest" in self._query:
            faults.append("multipart-manifest: rules are one object and no manifest")
        if "version-id" in self._query and environ["REQUEST_METHOD"] != "DELETE":
            faults.append(f"version-id: copy one of {VERSIONS}... to {RULES} to restore it")
        if faults:
            raise BadRequest("; ".join(faults))

    def _refusal(self, status: int) -> SwiftRefusal:
        """What Swift said to a request of ours, as an answer to the client's."""
        return SwiftRefusal(Response(status=status, request=Request(self._environ)))

    def _header(self, name: str) -> str | None:
        value = self._environ.get("HTTP_" + name.upper().replace("-", "_"))
        return None if value is None else str(value)

    # --- what is uploaded ----------------------------------------------------------------------------------------

    def _source(self) -> str | None:
        """The name of the version that is copied; ``None`` when the client sends rules."""
        source, account = self._copied, self._header("Destination-Account")
        if source is None:
            copied = self._header("X-Copy-From")
            if copied is None:
                return None
            source, account = _object_in(copied), self._header("X-Copy-From-Account")
            if source is None:
                raise PreconditionFailed(
                    "X-Copy-From header must be of the form <container name>/<object name>"
                )
            if (
                self._environ.get("CONTENT_LENGTH") not in (None, "", "0")
                or "HTTP_TRANSFER_ENCODING" in self._environ
            ):
                raise BadRequest("Copy requests require a zero byte body")
        is_here = account is None or account_of(account) == self._place[1]
        if (
            not is_here
            or source.container != self._uploads.container
            or not source.name.startswith(VERSIONS)
        ):
            # Findings quote what is uploaded; another object's reader need not be allowed to see that.
            raise BadRequest(
                f"only an own version, {self._uploads.container}/{VERSIONS}..., can be copied to {RULES}"
            )
        return source.name

    def _version(self, name: str) -> bytes:
        verdict = authorization.ask(
            self._environ, self._uploads.app, "GET", self._uploads.versions.path(self._place, name)
        )
        if verdict.refusal is not None:
            raise SwiftRefusal(verdict.refusal)
        rules, status = self._uploads.versions.read(self._environ, self._place, name)
        if rules is None:
            raise self._refusal(status)
        return rules

    def _body(self) -> bytes | None:
        """What the client sends; ``None`` when that is too much."""
        body = ClientBody(self._environ, self._uploads.client_seconds)
        length = self._environ.get("CONTENT_LENGTH") or "0"
        chunks, size = [], 0
        if length.isdecimal() and int(length) > MAX_BYTES:
            body.abandon()
            return None
        for chunk in body:
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES:
                body.abandon()
                return None
        return b"".join(chunks)

    # --- steps ---------------------------------------------------------------------------------------------------

    def _bring_into_force(
        self, rules: bytes, *, is_mandatory: bool
    ) -> tuple[Pointer, dict[str, str]]:
        """In an order in which whatever ends the work leaves one of both rules in force, and whole."""
        environ, place, versions = self._environ, self._place, self._uploads.versions
        with self._alone():
            before = self._uploads.pointers.fresh(environ, *place)
            pointer = Pointer.to(parse.version_of(rules), is_mandatory=is_mandatory, after=before)
            answer = versions.write(environ, place, pointer.name, rules, {})
            if answer.status_int // 100 != 2:
                raise self._refusal(answer.status_int)
            answer = versions.write(environ, place, RULES, rules, self._stored_headers())
            if answer.status_int // 100 != 2:
                versions.remove(environ, place, pointer.name)
                raise self._refusal(answer.status_int)
            try:
                self._set(pointer, before)
            except BackendFailed:
                self._put_back(before)
                raise
            self._log("in force", pointer)
            return pointer, {
                name: answer.headers[name]
                for name in ("Etag", "Last-Modified")
                if name in answer.headers
            }

    def _stored_headers(self) -> dict[str, str]:
        environ = self._environ
        headers = {
            key[5:].replace("_", "-").title(): str(value)
            for key, value in environ.items()
            if key.startswith("HTTP_X_OBJECT_META_") or key == "HTTP_IF_NONE_MATCH"
        }
        if environ.get("CONTENT_TYPE"):
            headers["Content-Type"] = environ["CONTENT_TYPE"]
        return headers

    def _set(self, pointer: Pointer, before: Pointer | None) -> None:
        """The moment of the change.  When Swift does not say that it was made, some replica may have it: it is undone."""
        environ, pointers = self._environ, self._uploads.pointers
        status = pointers.set(environ, *self._place, pointer)
        if status // 100 == 2:
            return
        undo = before.again(after=pointer) if before is not None else Pointer.to_none(after=pointer)
        if pointers.set(environ, *self._place, undo) // 100 != 2:
            raise BackendFailed(_UNCERTAIN)
        raise BackendFailed(
            f"the rules could not be brought into force: Swift answered {status}; those before stay"
        )

    def _put_back(self, before: Pointer | None) -> None:
        """Let ``rules.yaml`` have what is in force; if that fails, only what it shows is wrong."""
        versions = self._uploads.versions
        if before is None or not before.version:
            versions.remove(self._environ, self._place, RULES)
            return
        with contextlib.suppress(BackendFailed):
            rules = versions.text_of(self._environ, self._place, before)
            versions.write(self._environ, self._place, RULES, rules, {})

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Raise :class:`RulesConflict` while another request changes the same account's rules."""
        memcache, key = cache_from_env(self._environ), f"storlets-rules-change/{self._place[1]}"
        try:
            count = memcache.incr(key, time=_LOCK_SECONDS) if memcache else 1
        except MemcacheConnectionError:
            memcache, count = None, 1
        if count > 1:
            raise RulesConflict(
                "somebody else is changing the rules of this account: try again", retry_after=1
            )
        try:
            yield
        finally:
            if memcache:
                memcache.delete(key)

    def _log(self, what: str, pointer: Pointer | None) -> None:
        name = pointer.name if pointer is not None else ""
        self._uploads.logger.info("rules %s account=%s version=%s", what, self._place[1], name)


def _object_in(header: str | None) -> ObjectPath | None:
    """A copy's other end; ``None`` for what Swift will refuse."""
    try:
        return parse_object_path(header or "", needs_slash=False)
    except ValueError:
        return None


def _count(checked: Checked) -> str:
    counts = ((checked.errors, "error"), (checked.warnings, "warning"))
    return " and ".join(
        f"{count} {what}{'s' if count > 1 else ''}" for count, what in counts if count
    )
