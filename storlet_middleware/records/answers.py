"""``GET /v1/ACCOUNT?storlet-runs``: the records of an account's runs.

::

    ?storlet-runs&storlet=NAME&outcome=OUTCOME&since=TIME&until=TIME&limit=NUMBER&marker=MARKER
    ?storlet-runs&id=ID
    ?storlet-runs&follow&storlet=NAME&outcome=OUTCOME
    ?storlet-runs&follow&lines&storlet=NAME      log lines of running storlets, too: owners only
    ?storlet-runs=jsonl...                       a line for each record

Swift's own authorization of a GET of the account decides.  Its owner gets all records; a caller
with rights of ``X-Account-Access-Control`` gets those of its own runs.
"""

from __future__ import annotations

import json
from typing import Any

from swift.common.swob import Request, Response

from storlet_middleware import errors, names
from storlet_middleware.concurrency import Pace
from storlet_middleware.config import Config
from storlet_middleware.errors import AccessDenied, StorletError
from storlet_middleware.records import query
from storlet_middleware.records.follow import Follow, Followers, Stores
from storlet_middleware.records.query import Query
from storlet_middleware.records.reader import Page, RecordReader
from storlet_middleware.records.record import Viewer
from storlet_middleware.wsgi import authorization, delegation
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.bodies import ClosingIterator
from storlet_middleware.wsgi.caller import identity_of
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import AccountPath


class RunRecords:
    """The records of all accounts.

    :param app: the rest of the pipeline.
    """

    def __init__(self, app: Any, config: Config) -> None:
        self._app = app
        self._stores = Stores(app, config)
        self._followers = Followers()

    def answer(self, context: RequestContext) -> Response | Answer:
        """The answer to one request."""
        operation, environ = context.require_operation(), context.environ
        viewer = viewer_of(environ)
        asked = query.parse(operation.query, environ.get("HTTP_ACCEPT", ""))
        account_path = AccountPath(operation.path.version, operation.path.account)
        if asked.follows:
            return self._stream(environ, asked, account_path, viewer)
        reader = RecordReader(self._stores.records, environ, account_path, viewer)
        if asked.id:
            return _of_one(environ, asked, reader.find(asked))
        return _of_page(environ, asked, reader.page(asked))

    def _stream(
        self, environ: dict[str, Any], asked: Query, account_path: AccountPath, viewer: Viewer
    ) -> Answer:
        """The records from now on."""
        if asked.lines and not viewer.is_owner:
            raise AccessDenied("only owners of the account read logs of its runs: leave out lines")
        release = self._followers.acquire(account_path)
        # Small pieces are sent immediately.
        environ["eventlet.minimum_write_chunk_size"] = 0
        lines = Follow(self._stores, environ, account_path, viewer).lines(asked)
        headers = [
            ("Content-Type", f"{query.LINES}; charset=utf-8"), ("Cache-Control", "no-store"),
        ]  # fmt: skip
        return Answer("200 OK", headers, ClosingIterator(lines, release))


def viewer_of(environ: dict[str, Any]) -> Viewer:
    """The caller; raises Swift's refusal of callers that may not read the account."""
    if delegation.is_signed(environ):
        raise AccessDenied("a signed request cannot read records of runs")
    caller, caller_id = identity_of(environ)
    verdict = authorization.authorize_account(environ)
    if verdict.refusal is not None:
        raise SwiftRefusal(verdict.refusal)
    return Viewer(verdict.is_owner, caller, caller_id)


def _of_one(environ: dict[str, Any], asked: Query, page: Page) -> Response:
    if page.records:
        return _response(environ, asked, json.dumps(page.records[0]) + "\n", page)
    if page.next is None:
        raise StorletError(f"no record of a run {asked.id}", code=errors.RUN_NOT_FOUND)
    raise StorletError(
        f"no record of a run {asked.id} so far: search on with marker={page.next.text}",
        code=errors.RUN_NOT_FOUND,
    )


def _of_page(environ: dict[str, Any], asked: Query, page: Page) -> Response:
    pace, rows = Pace(), []
    for record in page.records:
        rows.append(json.dumps(record))
        pace.pause()
    if asked.media_type == query.LINES:
        text = "".join(f"{row}\n" for row in rows)
    else:
        text = f"[{', '.join(rows)}]\n"
    return _response(environ, asked, text, page)


def _response(environ: dict[str, Any], asked: Query, text: str, page: Page) -> Response:
    # Swift's listing_formats would take the answer for a listing.
    environ["swift.format_listing"] = False
    response = Response(status=200, request=Request(environ), body=text.encode())
    response.headers["Content-Type"] = f"{asked.media_type}; charset=utf-8"
    response.headers["Cache-Control"] = "no-store"
    if page.next is not None:
        response.headers[names.RUNS_NEXT] = page.next.text
    return response
