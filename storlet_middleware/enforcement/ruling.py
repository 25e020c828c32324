"""An account's rules in front of everything else that a request may be.

::

    environ --> RuleStore.of --> no rules: as ever, under a guard that knows other accounts' rules
                     |
                  Ruling: rules decide --> refuse | run (Plan) | HEAD and listings without what is covered | as ever

The *subject* of a request is what its rules are asked about: the object that is read by GET, HEAD and COPY, the one that is
written by PUT, POST and DELETE, or the container or account itself.  A copy has two: the rules of the source's account are
asked about the reading (as COPY), those of the target's about the writing (as PUT).

Whatever is decided here, reads that Swift's other middlewares do for the same request (segments, links, versions) are asked
about one by one by the :class:`~storlet_middleware.enforcement.read_guard.Guard`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote

from swift.common.swob import HTTPForbidden, HTTPPreconditionFailed, Request, Response, reiterate
from swift.common.utils import close_if_possible, config_true_value, drain_and_close

from rules import template
from rules.conditions import METHODS
from rules.engine import Needs
from rules.facts import UNKNOWN, Facts
from rules.model import Allow, Deny, Explicit, Passes, Rule, Step
from rules.model import Run as RunAction
from rules.report import Planned, Report
from storlet_middleware import names
from storlet_middleware.config import Config
from storlet_middleware.enforcement import listing, read_guard, request_facts
from storlet_middleware.enforcement.request_facts import Asker, Stored
from storlet_middleware.engine import limits
from storlet_middleware.errors import BackendFailed, BadRequest, RuleRefused, StorletError
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.run import Proxy, Run
from storlet_middleware.ruleset import store
from storlet_middleware.ruleset.store import Loaded, RuleStore
from storlet_middleware.wsgi import authorization, caller, swift_paths
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest, parse, parse_object_path, text
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import Read

WSGIApp = Callable[..., Any]
Handler = Callable[[dict[str, Any]], Any]

#: Where the guard is of a request whose reads are looked at one by one: ``swift.authorize`` may be wrapped by others.
GUARD: Final = "storlets.guard"
_READS: Final = ("GET", "HEAD", "COPY")
#: In which header a copy says what it writes, or reads.
_OTHER_END: Final = {"COPY": "Destination", "PUT": "X-Copy-From"}
#: Queries that make Swift answer with a part of the object, or with how it is stored.
_QUERIES: Final = ("multipart-manifest", "symlink", "part-number")
#: Those that make it a manifest or a link itself.
_ITSELF: Final = frozenset({"multipart-manifest", "symlink"})
_PARTIAL: Final = ("HTTP_RANGE", "HTTP_X_STORLET_RANGE")
#: What a copy may say that Run does not do.
_COPY_OPTIONS: Final = ("HTTP_X_FRESH_METADATA",)
_LINKS: Final = ("HTTP_X_OBJECT_MANIFEST", "HTTP_X_SYMLINK_TARGET")
_OF_OBJECTS: Final = frozenset({"object", "content-type", "size", "metadata"})
_OF_CONTAINERS: Final = frozenset({"container", "container-metadata", "policy"})
#: Of an archived version its metadata is not listed, and its container is another than it was.
_ARCHIVED: Final = _OF_CONTAINERS | {"metadata"}


class Rules:
    """The rules of all accounts, as one proxy applies them."""

    def __init__(
        self, app: WSGIApp, config: Config, logger: Any, proxy: Proxy, require_enabled: Callable[[dict[str, Any]], None]
    ) -> None:
        self.app = app
        self.config = config
        self.proxy = proxy
        self.require_enabled = require_enabled
        self.store = RuleStore(app, config, logger, proxy.client_timeout_seconds)

    def handler(  # noqa: PLR0911 - a table
        self, environ: dict[str, Any], place: Read | None, default: Handler | None
    ) -> Handler | None:
        """Who answers a request about ``place`` that ``default`` (``None``: the rest of the pipeline) would answer without rules.

        Raises :class:`StorletError` when the rules cannot be known.
        """
        method = environ["REQUEST_METHOD"]
        if method not in METHODS:
            return default  # preflights tell nothing of objects, and Swift knows no others
        if place is None:
            return default or (None if _is_text(environ["PATH_INFO"]) else _refuse_path)
        if method == "HEAD" and place.name is None and caller.is_swifts_own(environ):
            return default  # what a container has of keys and settings Swift needs to know, whoever asks
        source, target = place, None
        if method not in ("GET", "HEAD"):
            writer = self.store.handler(environ, place)
            if writer is not None:
                return writer
            source, target = _subjects(environ, place)
        loaded = self.store.of(environ, source.version, source.account)
        self._install_guard(environ, source)
        if names.EXPLAIN_KEY in environ and config_true_value(environ[names.EXPLAIN_KEY]):
            return _Ruling(self, environ, (source, target), loaded, default).explain
        if loaded is None and (target is None or target.account == source.account):
            return default
        if loaded is None and self.store.of(environ, source.version, target.account) is None:  # type: ignore[union-attr]
            return default
        return _Ruling(self, environ, (source, target), loaded, default).answer

    @staticmethod
    def refusal_of(environ: Mapping[str, Any]) -> StorletError | None:
        """What the guard refused first, whatever Swift made of it."""
        guard: read_guard.Guard | None = environ.get(GUARD)
        return guard.refused[0] if guard is not None and guard.refused else None

    def passed(self, environ: dict[str, Any]) -> Answer:
        """The rest of the pipeline's answer; raises what the rules of whatever account have against it."""
        status, headers, chunks = Request(environ).call_application(self.app)
        return _checked(environ[GUARD], status, headers, chunks)

    def hand_on(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The same as WSGI: nearly all answers speak of nothing but what was asked for, and are not held."""
        guard: read_guard.Guard = environ[GUARD]
        held: tuple[str, list[tuple[str, str]]] | tuple[()] | None = None

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            nonlocal held
            # An application may start once more, with what went wrong: the last word counts.
            if not guard.has_to_see(headers):
                held = ()
                return start_response(status, headers, *more)
            held = status, headers
            return None  # in place of a function that writes, which nothing in Swift has ever called

        chunks: Iterable[bytes] = self.app(environ, start)
        if held is None:  # it has not started
            chunks = reiterate(chunks)
        if held:
            return _checked(guard, *held, chunks)(environ, start_response)
        if guard.refused:  # after the answer had begun
            close_if_possible(chunks)
            raise guard.refused[0]
        return chunks

    def asker(self, environ: dict[str, Any], place: Read, loaded: Loaded, query: str = "") -> Asker:
        """For the object, container or account at ``place``."""

        def look_up() -> Stored:
            if place.container is None or place.name is None:
                raise AssertionError("only objects are looked up")
            return request_facts.head(self.app, environ, place.path + query)

        where = (place.version, place.account, place.container)
        return Asker(self.app, environ, loaded.compiled, where, look_up)

    def _install_guard(self, environ: dict[str, Any], source: Read) -> None:
        if environ["REQUEST_METHOD"] == "DELETE":
            self._keep_rules(environ)
            return
        authorize = environ.get("swift.authorize")
        if isinstance(authorize, read_guard.Guard):
            # A middleware on the left has sent the same request once more.
            authorize = authorize.original
        # What Swift makes of it for reads of its own has no headers that a rule could look at.
        guard = read_guard.Guard(authorize, self._judge_of, source, dict(environ), self.app)
        environ["swift.authorize"] = environ[GUARD] = guard

    def _judge_of(self, environ: dict[str, Any], version: str) -> _Judge:
        return _Judge(self, environ, version)

    def _keep_rules(self, environ: dict[str, Any]) -> None:
        """Rules are deleted by a request of their own, which is looked at, and not as segments of a manifest elsewhere."""
        if "multipart-manifest" not in _query(environ):
            return
        original, kept = environ.get("swift.authorize"), self.config.rules.container

        def authorize(request: Any) -> Any:
            refusal = original(request) if original is not None else None
            read = swift_paths.of_path(request.environ["PATH_INFO"])
            if refusal is None and read is not None and read.name is not None and read.container == kept:
                return HTTPForbidden(request=request, body=f"what is in {kept} cannot be deleted as a segment\n")
            return refusal

        environ["swift.authorize"] = authorize


class _Judge:
    """The rules of whatever account, asked about reads of one client's request; a :class:`~storlet_middleware.wsgi.swift_paths.Judge`."""

    def __init__(self, rules: Rules, environ: dict[str, Any], version: str) -> None:
        self._rules = rules
        self._environ = environ
        self._version = version

    @property
    def _method(self) -> str:
        """What a read is to the rules: the part of a copy, of a HEAD, or of whatever else ends with data."""
        method: str = self._environ["REQUEST_METHOD"]
        is_copy = method == "COPY" or (method == "PUT" and self._environ.get("HTTP_X_COPY_FROM"))
        return "COPY" if is_copy else "HEAD" if method == "HEAD" else "GET"

    def covers(self, account: str, container: str, name: str) -> str | None:
        loaded = self._loaded(account, container)
        if loaded is None:
            return None
        facts = request_facts.of_request(self._environ, self._method, container, name)
        asker = self._rules.asker(self._environ, Read(self._version, account, container, name), loaded)
        # As if the client had asked for a storlet: an ordinary rule before a mandatory one runs on its own object only.
        rule = asker.decide(facts, explicit=True)[0].rule
        return rule.name if rule is not None and rule.is_mandatory else None

    def may_cover(self, account: str, container: str | None, name: str | None) -> str | None:
        loaded = self._loaded(account, container)
        if loaded is None:
            return None
        unknown = _OF_OBJECTS if name is None else _OF_OBJECTS - {"object"}
        facts = request_facts.of_request(self._environ, self._method, container or "", name or "")
        rule = loaded.compiled.may_cover(facts, unknown if container is not None else unknown | _OF_CONTAINERS)
        return rule.name if rule is not None else None

    def _loaded(self, account: str, container: str | None) -> Loaded | None:
        loaded = self._rules.store.of(self._environ, self._version, account)
        is_rules = container == self._rules.config.rules.container
        return loaded if loaded is not None and loaded.has_mandatory and not is_rules else None


def _checked(guard: read_guard.Guard, status: str, headers: list[tuple[str, str]], chunks: Iterable[bytes]) -> Answer:
    try:
        guard.check_answer(headers)
    except BaseException:
        close_if_possible(chunks)
        raise
    return Answer(status, headers, guard.whole(headers, chunks))


def _is_text(path: str) -> bool:
    try:
        text(path)
    except UnicodeDecodeError:
        return False
    return True


def _refuse_path(environ: dict[str, Any]) -> Response:
    """As Swift does it in the end: before that, it reads the sources of copies and the segments of manifests."""
    raise HTTPPreconditionFailed(body="Invalid UTF8 or contains NULL", request=Request(environ))


def _subjects(environ: Mapping[str, Any], place: Read) -> tuple[Read, Read | None]:
    """What is read (or written), and what is written by a copy; a copy that Swift will refuse is about its own path."""
    if place.name is None:
        return place, None
    method = environ["REQUEST_METHOD"]
    if method == "COPY":
        other, account = environ.get("HTTP_DESTINATION"), environ.get("HTTP_DESTINATION_ACCOUNT")
    elif method == "PUT" and "HTTP_X_COPY_FROM" in environ:
        other, account = environ["HTTP_X_COPY_FROM"], environ.get("HTTP_X_COPY_FROM_ACCOUNT")
    else:
        return place, None
    try:
        path = parse_object_path(other or "", needs_slash=False)
        account = unquote(text(account), errors="strict") if account else place.account
    except ValueError:
        return place, None
    there = Read(place.version, account, path.container, path.name)
    return (place, there) if method == "COPY" else (there, place)


class _Ruling:
    """One request, and what the rules make of it."""

    def __init__(
        self, rules: Rules, environ: dict[str, Any], subjects: tuple[Read, Read | None], loaded: Loaded | None,
        default: Handler | None,
    ) -> None:  # fmt: skip
        source, target = subjects
        self._rules = rules
        self._environ = environ
        self._source = source
        self._target = target
        self._loaded = loaded
        self._default = default
        self._method: str = "COPY" if target else environ["REQUEST_METHOD"]
        self._is_explicit = "HTTP_X_RUN_STORLET" in environ
        self._source_stored: Stored | None = None
        self._asker = rules.asker(environ, source, loaded, self._version_query()) if loaded else None

    def _version_query(self) -> str:
        """A copy's query is about its source."""
        version = _query(self._environ).get("version-id")
        return f"version-id={quote(version)}" if version else ""

    @functools.cached_property
    def _judge(self) -> _Judge:
        return _Judge(self._rules, self._environ, self._source.version)

    @property
    def _guard(self) -> read_guard.Guard:
        """Of a request that reads."""
        guard: read_guard.Guard = self._environ[GUARD]
        return guard

    # --- what is decided -----------------------------------------------------------------------------------------

    def answer(self, environ: dict[str, Any]) -> Any:
        """A response, a :class:`Run`, or a WSGI application; raises :class:`StorletError`."""
        self._require_other_end()
        rule, facts = self._decide()
        return self._pass() if self._is_let_through(rule) else self._done(environ, rule, facts)

    def _done(self, environ: dict[str, Any], rule: Rule | None, facts: Facts) -> Any:
        written, facts_written = self._decide_written(facts)
        first, second = self._allowed(rule, written)
        if self._source.name is None:
            return self._listing(environ) if self._method in ("GET", "HEAD") else self._pass()
        if self._method == "HEAD" and (first is not None and first.is_mandatory):
            return self._head(first)
        if self._method in ("POST", "DELETE"):
            return self._pass()
        self._refuse_archived(first)
        if self._method == "HEAD":
            return self._pass()
        reversed_rule, undone, facts = self._undone(facts)
        if first is None and second is None and not undone:
            return self._pass()
        requests = [self._request(step, facts, first) for step in (*undone, *_steps(first))]
        requests += [self._request(step, facts_written, second) for step in _steps(second)]
        return self._run(first, second, requests, reversed_rule)

    def _is_let_through(self, rule: Rule | None) -> bool:
        """Whether nothing is left to do but to read an object, as with most requests; raises what an archived one is refused with."""
        if self._method not in ("GET", "HEAD") or self._source.name is None:
            return False
        if (self._loaded is not None and self._loaded.compiled.has_reverse) or not _lets_pass(rule):
            return False
        self._refuse_archived(None)
        return True

    def _allowed(self, rule: Rule | None, written: Rule | None) -> tuple[Rule | None, Rule | None]:
        """Of the rules about what is read and what a copy writes, those that run something; raises what they refuse."""
        for each in (rule, written):
            if each is not None and isinstance(each.action, Deny):
                self._refuse(each, each.action.message)
        self._refuse_ways_around()
        first = rule if rule is not None and isinstance(rule.action, RunAction) else None
        second = written if written is not None and isinstance(written.action, RunAction) else None
        if first is not None and first.is_mandatory and self._method in _READS:
            self._require_whole(first)
        storing = first if self._method == "PUT" else second
        if storing is not None:
            self._require_bytes(storing)
        if self._method == "POST":
            self._require_no_links()
        return first, second

    def _require_other_end(self) -> None:
        """Refuse, as Swift does, a copy of which it cannot be told what it reads or writes."""
        header = _OTHER_END.get(self._method)
        if header is None or self._target is not None or self._source.name is None:
            return
        is_given = bool(self._environ.get("HTTP_" + header.upper().replace("-", "_")))
        if is_given or self._method == "COPY":
            form = "must be of the form <container name>/<object name>" if is_given else "required"
            raise HTTPPreconditionFailed(body=f"{header} header {form}", request=Request(self._environ))

    def _decide(self) -> tuple[Rule | None, Facts]:
        """About the subject: what is read, or written where nothing is read."""
        source = self._source
        facts = request_facts.of_request(self._environ, self._method, source.container, source.name)
        if self._asker is None or source.container == self._rules.config.rules.container:
            return None, facts
        if self._method == "PUT" and source.name is not None:
            facts = dataclasses.replace(facts, stored=request_facts.incoming(self._environ))
        decision, facts = self._asker.decide(facts, explicit=self._is_explicit)
        return decision.rule, facts

    def _decide_written(self, facts: Facts) -> tuple[Rule | None, Facts]:
        """About what a copy writes."""
        target = self._target
        if target is None:
            return None, facts
        loaded = self._rules.store.of(self._environ, target.version, target.account)
        if loaded is None or target.container == self._rules.config.rules.container:
            return None, facts

        def look_up() -> Stored:
            stored = self._stored_source()
            return dataclasses.replace(
                stored, facts=request_facts.copied(self._environ, stored.facts, target.name or "")
            )

        where = (target.version, target.account, target.container)
        asker = Asker(self._rules.app, self._environ, loaded.compiled, where, look_up)
        asked = request_facts.of_request(self._environ, "PUT", target.container, target.name)
        decision, asked = asker.decide(asked, explicit=self._is_explicit)
        return decision.rule, asked

    def _stored_source(self) -> Stored:
        if self._asker is not None:
            return self._asker.stored()
        self._source_stored = request_facts.head(
            self._rules.app, self._environ, self._source.path + self._version_query()
        )
        return self._source_stored

    @property
    def _looked_at(self) -> Stored | None:
        """What was looked up of the source, if anything was."""
        return self._asker.looked_at if self._asker is not None else self._source_stored

    def _undone(self, facts: Facts) -> tuple[str, tuple[Step, ...], Facts]:
        """What a rule did to the object when it was stored and has to be undone for this caller: the rule, and by what."""
        if self._asker is None or self._loaded is None or self._method not in ("GET", "COPY"):
            return "", (), facts
        compiled = self._loaded.compiled
        name = self._asker.stored().reverse if compiled.has_reverse else ""
        while name:
            reverse = compiled.reverse(name, facts)
            if isinstance(reverse, Needs):
                facts = self._asker.filled(facts, reverse)
                continue
            return (name, reverse.steps, facts) if reverse is not None else ("", (), facts)
        return "", (), facts

    # --- refusals ------------------------------------------------------------------------------------------------

    def _refuse(self, rule: Rule, message: str) -> None:
        """Swift's own refusal comes first: who may not ask anyway learns nothing of the rules."""
        self._require_right()
        raise RuleRefused(rule.name, message)

    def _require_right(self) -> None:
        method = "GET" if self._method in _READS else "PUT"
        self._require(method, self._source)

    def _require(self, method: str, place: Read) -> None:
        if place.container is None:
            # An account's own requests are its owner's, and of whom Swift lets in there.
            authorize = self._environ.get("swift.authorize")
            authorize = getattr(authorize, "original", authorize)
            refusal = authorize(Request(dict(self._environ))) if authorize is not None else None
            if refusal is not None:
                raise SwiftRefusal(refusal)
            return
        verdict = authorization.ask(self._environ, self._rules.app, method, place.path)
        if verdict.refusal is not None:
            raise SwiftRefusal(verdict.refusal)

    def _require_whole(self, rule: Rule) -> None:
        """Refuse what asks for a part of the object, for how it is stored, or for whether it is what the client guesses."""
        environ = self._environ
        if self._source.name is None:
            return
        if any(key in environ for key in _PARTIAL):
            self._refuse(rule, "the storlet works on whole objects, so no range of one can be had: ask without Range")
        if any(key.startswith("HTTP_IF_") for key in environ):
            self._refuse(rule, "conditions (If-*) would tell something of the object itself: ask without them")
        # Of a link as of its target, a HEAD tells that it is there; S3's DELETE asks so before.
        asked = set(_query(environ)) - ({"symlink"} if self._method == "HEAD" else set())
        queries = [name for name in _QUERIES if name in asked]
        if queries:
            self._refuse(rule, f"{', '.join(queries)} in the query asks for how the object is stored: ask without it")
        if self._target is not None:
            if self._target.account != self._source.account:
                self._refuse(rule, "the object cannot be copied to or from another account")
            if any(config_true_value(environ.get(key, "false")) for key in _COPY_OPTIONS):
                self._refuse(rule, "the object cannot be copied with X-Fresh-Metadata")

    def _require_bytes(self, rule: Rule) -> None:
        """Refuse to store what has its bytes elsewhere: a storlet would work on what stands for them."""
        query = _query(self._environ)
        is_restored = self._method == "PUT" and "version-id" in query
        if is_restored or any(key in self._environ for key in _LINKS) or "multipart-manifest" in query:
            self._refuse(rule, "an object that consists of others cannot be stored here, because the rule's storlet"
                         " would not see their bytes: upload the bytes themselves")  # fmt: skip

    def _require_no_links(self) -> None:
        """A POST makes a large object of any: to its bytes that is a PUT."""
        source = self._source
        if source.name is None or self._asker is None or not any(self._environ.get(key) for key in _LINKS):
            return
        facts = request_facts.of_request(self._environ, "PUT", source.container, source.name)
        facts = dataclasses.replace(facts, stored=request_facts.incoming(self._environ))
        rule = self._asker.decide(facts, explicit=True)[0].rule
        if rule is not None and isinstance(rule.action, Deny):
            self._refuse(rule, rule.action.message)
        if rule is not None and rule.is_mandatory:
            self._require_bytes(rule)

    def _refuse_archived(self, rule: Rule | None) -> None:
        """Refuse to read what may be an old version of a covered object, under a name that says nothing of its container."""
        source = self._source
        if self._method not in _READS or (rule is not None and rule.is_mandatory):
            return
        archived = swift_paths.archived_name(source.name or "")
        if archived is None or source.container == self._rules.config.rules.container:
            return
        covering = self._judge.may_cover(source.account, None, archived)
        if covering is not None:
            self._require_right()
            raise RuleRefused(covering, "this may be an old version of an object that the rule keeps from you")

    def _refuse_ways_around(self) -> None:
        """Settings of a container that let Swift move its objects to where no rule sees them."""
        source, loaded = self._source, self._loaded
        if loaded is None or source.container is None or source.name is not None:
            return
        setting = read_guard.moves_bytes(self._environ)
        if not setting or not loaded.has_mandatory:
            return
        # An archive is shared by containers, and what DELETE brings back from it may have been another's.
        rule = self._judge.may_cover(source.account, None, None)
        if rule is not None:
            self._require_right()
            raise RuleRefused(rule, f"{setting} would let objects of the account leave without the rule")

    # --- what is done --------------------------------------------------------------------------------------------

    def _pass(self) -> Any:
        """As if there were no rules."""
        if self._default is not None:
            if self._target is not None and self._looked_at is not None and not self._is_explicit:
                self._pin(self._looked_at)
            answer = self._default(self._environ)
            return self._of_what_was_looked_at(answer) if isinstance(answer, Run) else answer
        if self._target is not None and self._looked_at is not None:
            return self._copy(self._looked_at)
        if self._looked_at is None or self._method not in ("GET", "HEAD") or self._source.name is None:
            return self._rules.app
        return self._read(self._looked_at)

    def _of_what_was_looked_at(self, run: Run) -> Run:
        """A run that reads the object that the rules were asked about, and no later one."""
        if self._looked_at is not None and self._method in ("GET", "COPY"):
            run.source_stamp = self._looked_at.stamp
        return run

    def _copy(self, source: Stored) -> Answer:
        """Swift's copy of the bytes that the rules were asked about: it reads them by itself, with the client's conditions."""
        environ = self._environ
        if not source.is_plain and not _ITSELF.isdisjoint(_query(environ)):
            return self._rules.passed(environ)
        wanted = environ.get("HTTP_IF_MATCH")
        self._pin(source)
        answer = self._rules.passed(environ)
        if wanted is None and "HTTP_IF_NONE_MATCH" not in environ and answer.status.startswith("412"):
            close_if_possible(answer.chunks)
            raise BackendFailed("the object was changed while its rules were asked; ask again", retry_after=1)
        return answer

    def _pin(self, source: Stored) -> None:
        """A copy reads these bytes or none."""
        environ = self._environ
        if "HTTP_IF_MATCH" not in environ or source.etag in Request(environ).if_match:
            environ["HTTP_IF_MATCH"] = f'"{source.etag or "none"}"'

    def _read(self, looked_at: Stored) -> Answer:
        """The object's answer, when it is about what the rules were asked about."""
        answer = self._rules.passed(self._environ)
        is_other = looked_at.stamp != answer.header("x-timestamp")
        # Who asks for a link itself gets nothing of what it leads to, which is what was asked about.
        is_link = bool(answer.header("x-symlink-target"))
        if is_other and not is_link and answer.status.startswith("2"):
            close_if_possible(answer.chunks)
            raise BackendFailed("the object was changed while its rules were asked; ask again", retry_after=1)
        return answer

    def _listing(self, environ: dict[str, Any]) -> Any:
        """Names and dates of what a mandatory rule covers, and no sums of what is."""
        app = self._default(environ) if self._default is not None else self._rules.app
        account, container, loaded = self._source.account, self._source.container, self._loaded
        if loaded is None or not loaded.has_mandatory or self._judge.may_cover(account, None, None) is None:
            return app
        if container is None:
            answer = listing.without_sums(app, environ)
            return listing.containers_without_sums(answer) if self._method == "GET" else answer
        if self._judge.may_cover(account, container, None) is not None:
            app = listing.without_sums(app, environ)
        return self._with_hidden_entries(app, environ, loaded, container) if self._method == "GET" else app

    def _with_hidden_entries(self, app: WSGIApp, environ: dict[str, Any], loaded: Loaded, container: str) -> Any:
        if self._asker is None:
            raise AssertionError("where there are rules, they are asked")
        asked = dataclasses.replace(
            request_facts.of_request(environ, "GET", container, ""), holder=self._asker.holder()
        )
        compiled = loaded.compiled.narrowed(asked, _OF_OBJECTS)
        anywhere = loaded.compiled.narrowed(dataclasses.replace(asked, holder=UNKNOWN), _OF_OBJECTS | {"container"})

        def hides(entry: listing.Entry) -> bool:
            stored = request_facts.listed(entry.content_type, entry.size_bytes)
            facts = dataclasses.replace(asked, object=entry.name, stored=stored)
            rules = anywhere if "container" in entry.unknown else compiled
            if rules.may_cover(facts, entry.unknown) is not None:
                return True
            archived = swift_paths.archived_name(entry.name)
            if archived is not None and anywhere.may_cover(dataclasses.replace(facts, object=archived), _ARCHIVED):
                return True
            # What these tell is of other objects: segments, and the end of a chain of links.
            return entry.is_large or entry.leads_to is not None

        return listing.filtered(app, environ, hides)

    def _head(self, rule: Rule) -> Response:
        answer = Request(self._environ).get_response(self._rules.app)
        drain_and_close(answer)
        if answer.status_int in (401, 403):
            raise SwiftRefusal(answer)
        if self._guard.refused:
            raise self._guard.refused[0]
        response = Response(status=answer.status_int, request=Request(self._environ))
        response.headers.clear()
        response.headers[names.RULE] = rule.name
        if answer.status_int // 100 == 2:
            passes = rule.passes or Passes()
            prefix = names.OBJECT_META.lower()
            for key, value in answer.headers.items():
                plain = key.lower().removeprefix(prefix)
                is_metadata = key.lower().startswith(prefix)
                if passes.allows_metadata(plain) if is_metadata else passes.allows_header(key):
                    response.headers[key] = value
        return response

    def _run(self, first: Rule | None, second: Rule | None, requests: list[StorletRequest], reversed_rule: str) -> Run:
        """The storlets: what undoes an earlier rule, the source's rule's, the target's rule's, and the client's own."""
        explicit = self._explicit_request(first, second)
        if explicit is not None:
            requests.append(explicit)
        rules = [rule for rule in (first, second) if rule is not None]
        what = rules[0].name if rules else reversed_rule
        self._require_enabled(what)
        if self._target is not None and self._target.account != self._source.account:
            self._require_right()
            raise RuleRefused(what, "storlets cannot run on a copy between accounts")
        mandatory = next((rule for rule in rules if rule.is_mandatory), None)
        decisive = mandatory or first or second
        written = self._target or (self._source if self._method == "PUT" else None)
        if written is not None and written.container in self._rules.proxy.catalog.containers:
            self._require_right()
            raise RuleRefused(
                decisive.name if decisive is not None else reversed_rule,
                f"what a storlet makes is not written into the container {written.container}",
            )
        storing = second or (first if self._method == "PUT" else None)
        plan = Plan(
            rule=decisive.name if decisive is not None else reversed_rule,
            is_mandatory=mandatory is not None,
            passes=_passing(rules),
            further=tuple(requests[1:]),
            explicit_last=explicit is not None,
            reverse=storing.name if storing is not None and _is_reversible(storing) else "",
            is_reversing=bool(reversed_rule),
        )
        self._guard.under = mandatory.name if mandatory is not None else None
        return self._of_what_was_looked_at(Run(self._rules.proxy, self._environ, requests[0], plan))

    def _require_enabled(self, rule: str) -> None:
        try:
            self._rules.require_enabled(self._environ)
        except BadRequest as error:
            self._require_right()
            raise RuleRefused(rule, f"it runs storlets: {error}") from None

    def _explicit_request(self, first: Rule | None, second: Rule | None) -> StorletRequest | None:
        if not self._is_explicit:
            return None
        # Ordinary rules give way to the client's storlet, so these are mandatory.
        for rule in (first, second):
            if rule is not None and rule.explicit is not Explicit.AFTER:
                self._refuse(rule, f"{names.RUN_STORLET} is not allowed on objects that the rule is about")
        place = swift_paths.of_path(self._environ["PATH_INFO"])
        if place is None or place.container is None or place.name is None:
            raise BadRequest("want the path of an object")
        path = (place.version, place.account, place.container, place.name)
        request = parse(self._environ, path, self._rules.config)
        if request.extra or request.ranges:
            raise BadRequest(
                f"{names.EXTRA_RESOURCES} and {names.RANGE} cannot be had where a rule's storlet runs first"
            )
        return request

    def _request(self, step: Step, facts: Facts, rule: Rule | None) -> StorletRequest:
        source, target = self._source, self._target
        given = {names.LIMIT_PREFIX + name: value for name, value in step.limits}
        wanted, faults = limits.requested(given)
        if faults:
            raise BadRequest("; ".join(faults))
        try:
            parameters = {name: template.render(value, facts) for name, value in step.parameters}
        except template.MissingValue as missing:
            self._require_right()
            raise RuleRefused(rule.name if rule else "", f"the rule speaks of {missing}") from None
        here = ObjectPath(source.container or "", source.name or "")
        there = ObjectPath(target.container or "", target.name or "") if target is not None else None
        return StorletRequest(
            method=self._method,
            version=source.version,
            account=source.account,
            storlet=step.storlet,
            source=None if self._method == "PUT" else here,
            target=here if self._method == "PUT" else there,
            parameters=parameters,
            run_on_proxy=step.on == "proxy",
            run_on_object=step.on == "object",
            limits=wanted,
        )

    # --- explain -------------------------------------------------------------------------------------------------

    def explain(self, environ: dict[str, Any]) -> Response:
        """What would be done and why, for whoever may read the rules; nothing is done, and nothing of the object is told."""
        _, facts = self._decide()
        asked = [("", self._source, self._loaded, facts)]
        if self._target is not None:
            loaded = self._rules.store.of(environ, self._target.version, self._target.account)
            asked.append(("what is written: ", self._target, loaded, self._decide_written(facts)[1]))
        texts: list[str] = []
        mappings: list[dict[str, Any]] = []
        for prefix, place, loaded, facts in asked:
            self._require("GET", Read(place.version, place.account, self._rules.config.rules.container, store.RULES))
            if loaded is None or place.container == self._rules.config.rules.container:
                why = "no rules are in force" if loaded is None else "no rules are asked about the rules' own container"
                texts.append(f"{prefix}{why}")
                mappings.append({"version": None})
                continue
            report = self._report(loaded, facts)
            texts += [f"{prefix}rules of version {loaded.version[:12]}", *(prefix + line for line in report.lines())]
            mappings.append({"version": loaded.version, **report.mapping()})
        response = Response(status=200, request=Request(environ))
        if "application/json" in environ.get("HTTP_ACCEPT", ""):
            response.content_type, response.body = "application/json", f"{json.dumps(mappings)}\n".encode()
        else:
            response.content_type, response.body = "text/plain; charset=utf-8", ("\n".join(texts) + "\n").encode()
        return response

    def _report(self, loaded: Loaded, facts: Facts) -> Report:
        # What the object's metadata says is told to whom Swift and the rules tell it; a copy is told of its source's.
        source = self._source
        may_read = source.name is None or (
            authorization.ask(self._environ, self._rules.app, "GET", source.path).refusal is None
            and self._judge.covers(source.account, source.container or "", source.name) is None
        )
        report = Report.for_caller(loaded.compiled, facts, self._rules.config.placement.run_on, may_read=may_read)
        return dataclasses.replace(report, steps=tuple(map(self._with_limits, report.steps)))

    def _with_limits(self, step: Planned) -> Planned:
        """With all limits that would hold: the rule's, the storlet's own, and those of its trust class."""
        source, config = self._source, self._rules.config
        try:
            storlet = self._rules.proxy.catalog.resolve(self._environ, source.version, source.account, step.storlet)
        except StorletError:
            return step  # there is none that could run
        wanted, _ = limits.requested({names.LIMIT_PREFIX + name: value for name, value in step.limits.items()})
        trust_class = config.class_of(source.account, step.storlet)
        return dataclasses.replace(step, limits=limits.in_force(trust_class, storlet.limits, wanted))


def _query(environ: Mapping[str, Any]) -> dict[str, str]:
    query = environ.get("QUERY_STRING")
    return dict(parse_qsl(query, keep_blank_values=True)) if query else {}


def _lets_pass(rule: Rule | None) -> bool:
    return rule is None or isinstance(rule.action, Allow)


def _steps(rule: Rule | None) -> tuple[Step, ...]:
    return rule.action.steps if rule is not None and isinstance(rule.action, RunAction) else ()


def _passing(rules: list[Rule]) -> Passes | None:
    """What leaves under all of the rules; ``None`` where each leaves that open."""
    limits = [rule.passes or Passes() for rule in rules if rule.is_mandatory or rule.passes is not None]
    if not limits:
        return None
    first, *others = limits
    for other in others:
        # Of two patterns of which one fits the other, the narrower is what they have in common.
        first = Passes(
            metadata=tuple({n for n in first.metadata if other.allows_metadata(n)})
            + tuple({n for n in other.metadata if first.allows_metadata(n)}),
            headers=tuple({n for n in first.headers if other.allows_header(n)})
            + tuple({n for n in other.headers if first.allows_header(n)}),
        )
    return first


def _is_reversible(rule: Rule) -> bool:
    return isinstance(rule.action, RunAction) and rule.action.reverse is not None
