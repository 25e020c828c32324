"""What is wrong with rules that somebody wants to bring into force, given the account that they are for.

The text is judged by a process of its own (:mod:`storlet_middleware.ruleset.check_process`), the account's storlets are looked up here:
whether they exist, who may run them, and what limits they take.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from swift.common.utils import config_true_value, drain_and_close
from swift.common.wsgi import make_pre_authed_request
from swift.proxy.controllers.base import get_account_info, get_container_info

from rules.model import Finding, Place, Severity
from storlet_middleware import names
from storlet_middleware.concurrency import WaitExpired, run_process, semaphore, spawn
from storlet_middleware.config import Config
from storlet_middleware.engine import limits
from storlet_middleware.errors import BackendFailed, InternalError, NodeBusy
from storlet_middleware.ruleset import check_process
from storlet_middleware.wsgi.strings import wsgi
from storlet_middleware.wsgi.swift_paths import object_path
from storlet_middleware.wsgi.user_metadata import user_metadata

#: Checks at a time in a proxy process, and how long another one waits.
_CHECKS: Final = 2
_WAIT_SECONDS: Final = 30.0
#: A check may wait for the CPU longer than it uses it.
_PATIENCE: Final = 3
#: Storlets that are looked up at a time.
_LOOKED_UP: Final = 8
_LIMITS: Final = "limits: "


@dataclass(frozen=True)
class Checked:
    """``is_mandatory``: some rule is; said of rules without errors only."""

    findings: tuple[Finding, ...]
    is_mandatory: bool

    @property
    def errors(self) -> int:
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    @property
    def warnings(self) -> int:
        return len(self.findings) - self.errors


@dataclass(frozen=True)
class _Storlet:
    exists: bool
    declared: Mapping[str, float]


class Checker:
    """Judges rules; one for a proxy process.

    :param app: the rest of the proxy's pipeline.
    """

    def __init__(self, app: Any, config: Config) -> None:
        self._app = app
        self._config = config
        self._room = semaphore(_CHECKS)

    def check(self, environ: dict[str, Any], place: tuple[str, str], text: bytes) -> Checked:
        """Everything that is wrong with ``text`` as the rules of an account (``place``: version and account)."""
        parsed = self._ask(text, None)
        findings = [check_process.from_data(each) for each in parsed["findings"]]
        steps = parsed["steps"]
        if not findings:
            storlets = self._look_up(environ, place, sorted({step["storlet"] for step in steps}))
            readers = self._readers(environ, place) if storlets else None
            known = {
                name: {"exists": storlet.exists, "readers": readers}
                for name, storlet in storlets.items()
            }
            findings = [
                check_process.from_data(each) for each in self._ask(text, known)["findings"]
            ]
            findings += self._limits(place[1], steps, storlets)
            findings += self._disabled(environ, place, steps)
            findings.sort(key=lambda finding: (finding.place.line, finding.place.column))
        return Checked(tuple(findings), bool(parsed["is_mandatory"]))

    def _ask(self, text: bytes, storlets: Mapping[str, Any] | None) -> dict[str, Any]:
        seconds = math.ceil(self._config.rules.check_seconds)
        command = (sys.executable, "-P", "-m", check_process.__name__, str(seconds))
        # Where a server finds its modules is not always where the interpreter alone would.
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(Path(each).absolute()) for each in sys.path),
        }
        asked = json.dumps({"text": text.decode("latin-1"), "storlets": storlets}).encode()
        if not self._room.acquire(timeout=_WAIT_SECONDS):
            raise NodeBusy("other rules are being checked", retry_after=5)
        try:
            status, said = run_process(command, asked, environment, _PATIENCE * seconds)
        except WaitExpired:
            raise NodeBusy("the rules could not be checked in time") from None
        finally:
            self._room.release()
        if status in check_process.TOO_MUCH:
            return _too_much(seconds)
        if status:
            raise InternalError(f"the check of rules ended with {status}")
        answer: dict[str, Any] = json.loads(said)
        return answer

    # --- the account's storlets --------------------------------------------------------------------------------------

    def _look_up(
        self, environ: dict[str, Any], place: tuple[str, str], wanted: list[str]
    ) -> dict[str, _Storlet]:
        found: dict[str, _Storlet] = {}
        for first in range(0, len(wanted), _LOOKED_UP):
            some = wanted[first : first + _LOOKED_UP]
            tasks = [spawn(self._head, environ, place, name) for name in some]
            answers = [task.wait() for task in tasks]
            found |= {
                name: _storlet(name, answer) for name, answer in zip(some, answers, strict=True)
            }
        return found

    def _head(self, environ: dict[str, Any], place: tuple[str, str], name: str) -> Any:
        path = object_path(*place, self._config.storlet.storlet_container, name)
        request = make_pre_authed_request(
            environ,
            method="HEAD",
            path=path,
            headers={"X-Newest": "true"},
            swift_source=names.SWIFT_SOURCE,
        )
        answer = request.get_response(self._app)
        drain_and_close(answer)
        return answer

    def _readers(self, environ: dict[str, Any], place: tuple[str, str]) -> str | None:
        """Who may run the account's storlets, as far as every authentication middleware would say the same."""
        path = wsgi(f"/{'/'.join(place)}/{self._config.storlet.storlet_container}")
        info = get_container_info(
            {**environ, "PATH_INFO": path}, self._app, swift_source=names.SWIFT_SOURCE
        )
        acl = [entry.strip() for entry in (info["read_acl"] or "").split(",")]
        referrers = [entry for entry in acl if entry.startswith(".r:")]
        if not referrers:
            return check_process.READERS_NAMED
        return check_process.READERS_ALL if referrers == [".r:*"] else None

    # --- what only the server knows ----------------------------------------------------------------------------------

    def _limits(
        self, account: str, steps: Iterable[Mapping[str, Any]], storlets: Mapping[str, _Storlet]
    ) -> Iterator[Finding]:
        for step in steps:
            given = {names.LIMIT_PREFIX + name: value for name, value in step["limits"].items()}
            values, faults = limits.requested(given)
            trust_class = self._config.class_of(account, step["storlet"])
            faults += limits.too_much(
                values, names.LIMIT_PREFIX, trust_class, storlets[step["storlet"]].declared
            )
            for fault in faults:
                said = fault.replace(names.LIMIT_PREFIX, _LIMITS)
                yield _error(
                    step,
                    "limit.bad",
                    f"rule {step['rule']}: {said}",
                    "write one that is allowed, or leave it away",
                )

    def _disabled(
        self, environ: dict[str, Any], place: tuple[str, str], steps: list[Mapping[str, Any]]
    ) -> Iterator[Finding]:
        path = wsgi(f"/{'/'.join(place)}")
        info = get_account_info(
            {**environ, "PATH_INFO": path}, self._app, swift_source=names.SWIFT_SOURCE
        )
        if steps and not config_true_value(
            info.get("meta", {}).get(names.ACCOUNT_ENABLED, "false")
        ):
            said = "the account is not enabled for storlets: every request for which a rule runs one would be refused"
            yield _error(
                steps[0], "storlet.disabled", said, "set X-Account-Meta-Storlet-Enabled: true first"
            )


def _storlet(name: str, answer: Any) -> _Storlet:
    if answer.status_int == 404:
        return _Storlet(exists=False, declared={})
    if answer.status_int // 100 != 2:
        raise BackendFailed(
            f"storlet {name} cannot be looked up now: Swift answered {answer.status_int}"
        )
    return _Storlet(exists=True, declared=limits.declared(user_metadata(answer.headers))[0])


def _error(step: Mapping[str, Any], code: str, said: str, help_: str) -> Finding:
    return Finding(Severity.ERROR, code, Place(step["line"], step["column"]), said, help_)


def _too_much(seconds: int) -> dict[str, Any]:
    said = f"the rules cannot be checked within {seconds} s of a CPU and the memory that a check may use"
    help_ = "shorter lists, fewer `any` and `not` in one condition, and globs with fewer stars are easier to check"
    finding = Finding(Severity.ERROR, "check.too-much", Place(1, 1), said, help_)
    return {"findings": [check_process.as_data(finding)], "is_mandatory": False, "steps": []}
