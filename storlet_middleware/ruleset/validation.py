"""Checks uploaded rules against their account.

A separate process checks the text (:mod:`storlet_middleware.ruleset.check_process`), and waits
while this module looks up the account's storlets: their existence, the callers that may run them,
and the limits, parameters and content types that they declare.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from swift.common.utils import config_true_value
from swift.proxy.controllers.base import get_account_info, get_container_info

from rules.model import Finding, Place, Severity
from storlet_middleware import child, names
from storlet_middleware.bundle import manifest
from storlet_middleware.catalog.bundle_store import facts_of
from storlet_middleware.catalog.library import library_of
from storlet_middleware.catalog.manifests import ContentTypes, read_types
from storlet_middleware.check_slots import CheckSlots, NoSlot
from storlet_middleware.concurrency import ProcessEnded, WaitExpired, spawn
from storlet_middleware.config import Config
from storlet_middleware.engine import limits
from storlet_middleware.errors import BackendFailed, InternalError, NodeBusy, StorletNotFound
from storlet_middleware.ruleset import check_process
from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.storlet_request import split_parameters
from storlet_middleware.wsgi.strings import wsgi
from storlet_middleware.wsgi.swift_paths import AccountPath, object_path
from storlet_middleware.wsgi.user_metadata import user_metadata

#: Concurrent checks in a proxy process, at most one of an account, and how long others wait.
_CHECKS: Final = 4
_WAIT_SECONDS: Final = 30.0
#: Concurrent lookups of storlets.
_LOOKED_UP: Final = 8


@dataclass(frozen=True)
class Checked:
    """The findings; ``is_mandatory`` (some rule is mandatory) is valid only without errors."""

    findings: tuple[Finding, ...]
    is_mandatory: bool

    @property
    def errors(self) -> int:
        return self._count(Severity.ERROR)

    @property
    def warnings(self) -> int:
        return self._count(Severity.WARNING)

    @property
    def notes(self) -> int:
        return self._count(Severity.NOTE)

    def _count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


@dataclass(frozen=True)
class _Storlet:
    exists: bool
    declared: Mapping[str, float]
    types: ContentTypes
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Checker:
    """Checks rules; one instance in a proxy process.

    :param app: the rest of the proxy's pipeline.
    """

    def __init__(self, app: Any, config: Config) -> None:
        self._app = app
        self._config = config
        self._library = library_of(config)
        self._slots = CheckSlots(_CHECKS)

    def check(self, environ: dict[str, Any], account_path: AccountPath, text: bytes) -> Checked:
        """Check ``text`` as the rules of an account (``account_path``: API version and account)."""
        seconds = math.ceil(self._config.rules.check_seconds)
        try:
            with (
                self._slots.held(account_path.account, _WAIT_SECONDS),
                child.answers(check_process.__name__, seconds) as ask,
            ):
                return self._checked(environ, account_path, text, ask)
        except NoSlot:
            raise NodeBusy("too many concurrent checks of rules", retry_after=5) from None
        except WaitExpired:
            raise NodeBusy("the check of the rules exceeded its deadline") from None
        except ProcessEnded as ended:
            if ended.status in child.TOO_MUCH:
                return Checked((_limits_exceeded(seconds),), is_mandatory=False)
            raise InternalError(f"the check of rules ended with {ended.status}") from None

    def _checked(
        self,
        environ: dict[str, Any],
        account_path: AccountPath,
        text: bytes,
        ask: Callable[[bytes], bytes],
    ) -> Checked:
        """The result, by a process that answers ``ask``."""
        parsed = json.loads(ask(json.dumps({"text": text.decode("latin-1")}).encode()))
        findings = [check_process.from_data(each) for each in parsed["findings"]]
        steps = parsed["steps"]
        if not findings:
            storlets = self._look_up(
                environ, account_path, sorted({step["storlet"] for step in steps})
            )
            has_own = not all(map(names.is_library, storlets))
            readers = self._readers(environ, account_path) if has_own else None
            known = {
                name: {
                    "exists": storlet.exists,
                    "readers": check_process.READERS_ALL if names.is_library(name) else readers,
                    "input_types": storlet.types.inputs,
                    "output_type": storlet.types.output,
                }
                for name, storlet in storlets.items()
            }
            checked = json.loads(ask(json.dumps({"storlets": known}).encode()))
            findings = [check_process.from_data(each) for each in checked["findings"]]
            findings += self._limits(account_path.account, steps, storlets)
            findings += _parameters(steps, storlets)
            findings += self._disabled(environ, account_path, steps)
            findings.sort(key=lambda finding: (finding.place.line, finding.place.column))
        return Checked(tuple(findings), bool(parsed["is_mandatory"]))

    # --- the account's storlets -------------------------------------------------------------------

    def _look_up(
        self, environ: dict[str, Any], account_path: AccountPath, wanted: list[str]
    ) -> dict[str, _Storlet]:
        found = {name: self._of_library(name) for name in wanted if names.is_library(name)}
        wanted = [name for name in wanted if name not in found]
        for first in range(0, len(wanted), _LOOKED_UP):
            some = wanted[first : first + _LOOKED_UP]
            tasks = [spawn(self._head, environ, account_path, name) for name in some]
            answers = [task.wait() for task in tasks]
            found |= {
                name: _storlet(name, answer) for name, answer in zip(some, answers, strict=True)
            }
        return found

    def _of_library(self, name: str) -> _Storlet:
        try:
            member = self._library.member(name)
        except StorletNotFound:
            return _Storlet(exists=False, declared={}, types=ContentTypes())
        return _Storlet(
            exists=True,
            declared=member.facts["limits"],
            types=member.types,
            parameters=member.document["parameters"],
        )

    def _head(self, environ: dict[str, Any], account_path: AccountPath, name: str) -> Any:
        path = object_path(
            *account_path, self._config.storlet.storlet_container, names.object_of(name)
        )
        return own_requests.exchange(self._app, environ, "HEAD", path, own_requests.NEWEST)

    def _readers(self, environ: dict[str, Any], account_path: AccountPath) -> str | None:
        """The callers that may run the account's storlets, if independent of the authentication.

        ``None`` if the ACL has elements that authentication middlewares interpret differently.
        """
        path = wsgi(f"/{'/'.join(account_path)}/{self._config.storlet.storlet_container}")
        info = get_container_info(
            {**environ, "PATH_INFO": path}, self._app, swift_source=names.SWIFT_SOURCE
        )
        acl = [entry.strip() for entry in (info["read_acl"] or "").split(",")]
        referrers = [entry for entry in acl if entry.startswith(".r:")]
        if not referrers:
            return check_process.READERS_NAMED
        return check_process.READERS_ALL if referrers == [".r:*"] else None

    # --- checks that need the server's configuration ----------------------------------------------

    def _limits(
        self, account: str, steps: Iterable[Mapping[str, Any]], storlets: Mapping[str, _Storlet]
    ) -> Iterator[Finding]:
        for step in steps:
            given = {names.LIMIT_PREFIX + name: value for name, value in step["limits"].items()}
            values, faults = limits.requested(given)
            trust_class = self._config.class_of(account, step["storlet"])
            faults += limits.above_maximum(
                values, names.LIMIT_PREFIX, trust_class, storlets[step["storlet"]].declared
            )
            for message in limits.of_rule(step["rule"], faults):
                yield _error(step, "limit.bad", message, "write an allowed value, or remove it")

    def _disabled(
        self, environ: dict[str, Any], account_path: AccountPath, steps: list[Mapping[str, Any]]
    ) -> Iterator[Finding]:
        path = wsgi(f"/{'/'.join(account_path)}")
        info = get_account_info(
            {**environ, "PATH_INFO": path}, self._app, swift_source=names.SWIFT_SOURCE
        )
        if steps and not config_true_value(
            info.get("meta", {}).get(names.ACCOUNT_ENABLED, "false")
        ):
            message = (
                "the account is not enabled for storlets: every request for which a rule runs a"
                " storlet would be refused"
            )
            help_ = "set X-Account-Meta-Storlet-Enabled: true first"
            yield _error(steps[0], "storlet.disabled", message, help_)


def _storlet(name: str, answer: Any) -> _Storlet:
    if answer.status_int == 404:
        return _Storlet(exists=False, declared={}, types=ContentTypes())
    if answer.status_int // 100 != 2:
        raise BackendFailed(
            f"storlet {name} cannot be looked up: Swift returned {answer.status_int}"
        )
    meta = user_metadata(answer.headers)
    return _Storlet(
        exists=True,
        declared=limits.declared(meta)[0],
        types=read_types(meta)[0],
        parameters=facts_of(answer.headers).get("parameters", {}),
    )


def _parameters(
    steps: Iterable[Mapping[str, Any]], storlets: Mapping[str, _Storlet]
) -> Iterator[Finding]:
    """Parameters that the storlets' manifests refuse, so that each request would be refused."""
    for step in steps:
        declared = storlets[step["storlet"]].parameters
        own, _ = split_parameters(step["parameters"], declared)
        for fault in manifest.parameter_faults(declared, own):
            message = f"rule {step['rule']}: storlet {step['storlet']}: {fault}"
            yield _error(step, "parameter.bad", message, "write one that the storlet accepts")


def _error(step: Mapping[str, Any], code: str, message: str, help_: str) -> Finding:
    return Finding(Severity.ERROR, code, Place(step["line"], step["column"]), message, help_)


def _limits_exceeded(seconds: int) -> Finding:
    message = f"the check of the rules exceeded its limit of {seconds} s of CPU time, or of memory"
    help_ = "use shorter lists, fewer `any` and `not` in one condition, and globs with fewer stars"
    return Finding(Severity.ERROR, "check.too-much", Place(1, 1), message, help_)
