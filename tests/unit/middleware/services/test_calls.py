"""Calls of a storlet by another: the request to the filter, its result and its failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from swift.common.header_key_dict import HeaderKeyDict

from storlet_daemon.protocol.messages import CallStorlet, Described, Facts, Span
from storlet_middleware.errors import BackendFailed, Unprocessable
from storlet_middleware.services.calls import CalledResult
from storlet_middleware.services.creations import Creations
from storlet_middleware.services.operations import Operations, Stream
from storlet_middleware.services.requests import StoreAnswer, StoreRefusal
from tests.unit.middleware.services.asking import NoMemory

#: No test creates objects.
NONE = Creations(None, frozenset(), None, 0)  # type: ignore[arg-type]


class Store:
    """Gives an answer for each method, and keeps the requests."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    def send(self, method: str, path: str, headers: Any = None, query: Any = None) -> StoreAnswer:
        self.asked.append((method, path, dict(headers or {})))
        return self._answer(method)

    def send_data(self, path: str, headers: Any, data: Any) -> StoreAnswer:
        self.asked.append(("PUT", path, dict(headers)))
        return self._answer("PUT")

    def _answer(self, method: str) -> StoreAnswer:
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, StoreAnswer)
        return answer


class Data:
    """The input of a called storlet."""

    refusal: StoreRefusal | None = None
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def answer(body: Any = (), **headers: str) -> StoreAnswer:
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    return StoreAnswer(200, HeaderKeyDict(given), body, {})


def perform(store: Store, request: CallStorlet) -> Any:
    return Operations(store, frozenset({"storlet"}), NONE, NoMemory()).perform(request)  # type: ignore[arg-type]


def test_a_call_is_a_request_of_a_client_for_the_storlet() -> None:
    store = Store(GET=answer([b"hel", b"lo"], X_Storlet_Ran_On="object", X_Object_Meta_K="v"))
    spans = (Span(0, 9), Span(20))
    request = CallStorlet(1, "größe.py", "/c/ö", {"a:b": "c d"}, spans)
    reply = perform(store, request)
    assert isinstance(reply, Stream)
    assert b"".join(reply.body) == b"hello"
    assert reply.facts == Facts({"K": "v"})
    ((method, path, headers),) = store.asked
    assert (method, path) == ("GET", "/c/ö")
    assert headers == {
        "X-Run-Storlet": "größe.py".encode().decode("latin-1"),
        "X-Storlet-Parameter-0": "a%3Ab:c%20d",
        "X-Storlet-Range": "bytes=0-9,20-",
    }


def test_a_result_is_stored_by_a_copy() -> None:
    store = Store(
        COPY=answer([b"x"], Etag="e"), HEAD=answer(Etag='"e"', Content_Length="5"), GET=answer()
    )
    reply = perform(store, CallStorlet(1, "a.py", "/c/o", output="/d/ö?"))
    assert reply == Described(1, Facts(size=5, etag="e"))
    assert store.asked[0][2]["Destination"] == "/d/%C3%B6%3F"
    assert [each[:2] for each in store.asked] == [("COPY", "/c/o"), ("HEAD", "/d/ö?")]


@pytest.mark.parametrize(
    "head", [StoreRefusal("access.denied", 403, "no"), answer(Etag="other", Content_Length="7")]
)
def test_of_a_stored_result_that_is_not_read_the_etag_is_known(head: Any) -> None:
    store = Store(COPY=answer(Etag="e"), HEAD=head)
    reply = perform(store, CallStorlet(1, "a.py", "/c/o", output="/d/p"))
    assert reply == Described(1, Facts(etag="e"))


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (CallStorlet(1, "a.py", "c/o"), "bad_request"),
        (CallStorlet(1, " std:distributed ", "/c/o"), "bad_request"),
        (CallStorlet(1, "a.py", "/c/o", output="/d"), "bad_request"),
        (CallStorlet(1, "a.py", "/c/o", output="/storlet/b.py"), "access.denied"),
    ],
)
def test_a_call_that_cannot_be_is_not_sent(request_: CallStorlet, code: str) -> None:
    store = Store()
    with pytest.raises(StoreRefusal) as caught:
        perform(store, request_)
    assert (caught.value.code, caught.value.storlet) == (code, "")
    assert not store.asked


@pytest.mark.parametrize(
    ("code", "storlet"),
    [("storlet.failed", "a.py"), ("storlet.timeout.total", "a.py"), ("storlet.limit.services", "a.py"),
     ("storlet.not_found", ""), ("access.rule", ""), ("tenant.busy", "")],
)  # fmt: skip
def test_a_failure_of_the_storlet_is_marked_as_its_own(code: str, storlet: str) -> None:
    store = Store(GET=StoreRefusal(code, 422, "/c/o: why"))
    with pytest.raises(StoreRefusal) as caught:
        perform(store, CallStorlet(1, "a.py", "/c/o"))
    refusal = caught.value
    assert (refusal.code, refusal.status, refusal.storlet) == (code, 422, storlet)
    assert str(refusal) == "call of a.py: /c/o: why"


@pytest.mark.parametrize(
    ("error", "code", "storlet"),
    [
        (Unprocessable("raised", code="storlet.failed"), "storlet.failed", "a.py"),
        (ConnectionError("gone"), "backend.failed", ""),
    ],
)
def test_a_result_that_breaks_off_has_no_end(error: Exception, code: str, storlet: str) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise error

    result = iter(CalledResult(answer(broken()), "a.py"))
    assert next(result) == b"half"
    with pytest.raises(StoreRefusal, match=r"call of a\.py") as caught:
        next(result)
    assert (caught.value.code, caught.value.storlet) == (code, storlet)


def test_a_long_answer_of_a_copy_is_a_failure() -> None:
    with pytest.raises(BackendFailed):
        perform(Store(COPY=answer([b"x" * 70_000])), CallStorlet(1, "a.py", "/c/o", output="/d/p"))


def call_on(store: Store, data: Data, **more: Any) -> Any:
    operations = Operations(store, frozenset({"storlet"}), NONE, NoMemory())  # type: ignore[arg-type]
    return operations.call_on(CallStorlet(1, "a.py", **more), data)  # type: ignore[arg-type]


def test_a_call_on_data_is_a_put_whose_result_is_the_answer() -> None:
    store, data = Store(PUT=answer([b"hello"], X_Storlet_Ran_On="proxy")), Data()
    reply = call_on(store, data, parameters={"a": "b"})
    headers = {"X-Run-Storlet": "a.py", "X-Storlet-Parameter-0": "a:b"}
    assert store.asked == [("PUT", "", headers)]
    assert b"".join(reply.body) == b"hello"
    # The storlet may still read.
    assert not data.is_closed
    reply.body.close()
    assert data.is_closed


def test_a_call_on_data_stores_its_result() -> None:
    store, data = Store(PUT=answer(Etag="e"), HEAD=answer(Etag="e", Content_Length="5")), Data()
    assert call_on(store, data, output="/d/p") == Described(1, Facts(size=5, etag="e"))
    assert [each[:2] for each in store.asked] == [("PUT", "/d/p"), ("HEAD", "/d/p")]
    assert data.is_closed


def test_a_call_on_data_that_fails_closes_it() -> None:
    data = Data()
    with pytest.raises(StoreRefusal):
        call_on(Store(PUT=StoreRefusal("storlet.failed", 422, "why")), data)
    assert data.is_closed
    with pytest.raises(StoreRefusal, match="ranges"):
        call_on(Store(), Data(), ranges=(Span(),))


def test_a_limit_that_the_data_exceeds_is_the_reason() -> None:
    data = Data()
    data.refusal = StoreRefusal("storlet.limit.services", 422, "too much")
    with pytest.raises(StoreRefusal, match="too much") as caught:
        call_on(Store(PUT=StoreRefusal("input.incomplete", 499, "why")), data)
    assert not caught.value.storlet
