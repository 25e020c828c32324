"""PUTs whose end is withheld: their start, pieces during a pause, and their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from swift.common.exceptions import ChunkReadError, ChunkReadTimeout
from swift.common.storage_policy import ECStoragePolicy, StoragePolicy, StoragePolicyCollection
from swift.common.swob import Request, Response

from storlet_middleware import errors
from storlet_middleware.concurrency import sleep, spawn
from storlet_middleware.errors import InternalError, StorletError, Unprocessable
from storlet_middleware.proxy import withheld_put
from storlet_middleware.proxy.buffers import Buffers
from storlet_middleware.proxy.withheld_put import (
    PutRefused,
    Reserve,
    WithheldPut,
    commit,
    reserve_for,
)
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import ACCOUNT, FakeSwift, wait_until

#: Pieces of 10 bytes, four of which are kept.
SMALL = Reserve(10, 40, 30.0)
#: The same with pauses that a test can wait for.
QUICK = Reserve(10, 40, 0.02)


PLENTY = Buffers(1 << 30, 1 << 30)


class Store:
    """A Swift that stores one object at the end of its body, and keeps the sizes of its reads."""

    def __init__(self, read_bytes: int = 10) -> None:
        self.read_bytes = read_bytes
        self.is_asked = False
        self.pieces: list[bytes] = []
        self.stored: bytes | None = None
        self.is_broken = False

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        self.is_asked = True
        return self.respond(Request(environ))(environ, start_response)

    def respond(self, request: Request) -> Response:
        try:
            while piece := request.environ["wsgi.input"].read(self.read_bytes):
                self.pieces.append(piece)
        except ChunkReadError:
            self.is_broken = True
            return Response(status=499, request=request)
        self.stored = b"".join(self.pieces)
        return Response(status=201, request=request)


class Refusing(Store):
    """Answers with ``status`` before the body has ended."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status

    def respond(self, request: Request) -> Response:
        return Response(status=self.status, request=request)


Make = Callable[..., WithheldPut]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[WithheldPut] = []

    def put(store: Store, reserve: Reserve = SMALL, buffers: Buffers = PLENTY) -> WithheldPut:
        request = Request.blank(f"/v1/{ACCOUNT}/c/o", method="PUT")
        made.append(WithheldPut(store, request, reserve, buffers.share(ACCOUNT), Logger()))
        return made[-1]

    yield put
    for each in made:
        each.close()
    assert not PLENTY._used


def settle() -> None:
    for _ in range(20):
        sleep(0)


def test_a_put_begins_when_there_are_more_bytes_than_the_reserve(make: Make) -> None:
    store = Store()
    put = make(store)
    put.write(b"x" * 40)
    settle()
    assert not store.is_asked
    put.write(b"x")
    settle()
    assert store.is_asked
    assert not store.pieces


def test_an_account_with_many_bytes_keeps_one_piece_back(make: Make) -> None:
    buffers = Buffers(100, 1000)
    store, other = Store(), Store()
    put, first = make(store, buffers=buffers), make(other, buffers=buffers)
    first.write(b"y" * 40)
    put.write(b"x" * 30)  # more than half of the account's bytes now, and of a whole reserve
    settle()
    assert store.is_asked
    assert [len(piece) for piece in store.pieces] == [10, 10]
    for each in (put, first):
        each.flush()
        each.wait_flushed()
        each.release()
        assert each.answer().status_int == 201
    assert (store.stored, other.stored) == (b"x" * 30, b"y" * 40)
    assert not buffers._used


@pytest.mark.parametrize(
    ("limits", "code"), [((50, 1000), "tenant.busy"), ((1000, 50), "node.busy")]
)
def test_bytes_above_the_limit_fail_the_run_and_are_given_back(
    make: Make, limits: tuple[int, int], code: str
) -> None:
    buffers = Buffers(*limits)
    stores = [Store() for _ in range(3)]
    puts = [make(store, buffers=buffers) for store in stores]
    puts[0].write(b"a" * 25)
    puts[1].write(b"b" * 25)
    with pytest.raises(StorletError, match="buffer_bytes") as caught:
        puts[2].write(b"c")
    assert caught.value.code == code
    puts[0].close()
    puts[2].write(b"c" * 20)
    for put in puts:
        put.close()
    assert all(store.stored is None for store in stores)
    assert (buffers._used, buffers._sum) == ({}, 0)


def test_swift_gets_full_pieces_and_not_the_reserve(make: Make) -> None:
    store = Store()
    put = make(store)
    for _ in range(33):
        put.write(b"abc")
        settle()
    assert [len(piece) for piece in store.pieces] == [10] * 5
    put.flush()
    put.wait_flushed()
    settle()
    assert [len(piece) for piece in store.pieces] == [10] * 9 + [9]
    assert store.stored is None
    put.release()
    assert put.answer().status_int == 201
    assert store.stored == b"abc" * 33


def test_an_empty_object_is_stored_at_its_release(make: Make) -> None:
    store = Store()
    put = make(store)
    put.flush()
    put.wait_flushed()
    assert store.stored is None
    put.release()
    assert (put.answer().status_int, store.stored) == (201, b"")


def test_the_reserve_of_a_writer_of_single_bytes_has_few_chunks(make: Make) -> None:
    store = Store(read_bytes=1000)
    put = make(store, Reserve(1000, 20_000, 30.0))
    data = bytes(number % 251 for number in range(22_000))
    for number in range(len(data)):
        put.write(data[number : number + 1])
        if not number % 1000:
            settle()
    assert len(put._body._views) <= 2 * 20_000 // 4096 + 1
    assert commit([put])[0].status_int == 201
    assert store.stored == data


def test_a_writer_waits_for_swift(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(withheld_put, "_WINDOW_BYTES", 20)

    class Slow(Store):
        def respond(self, request: Request) -> Response:
            while self.read_bytes:
                sleep(0)
            self.read_bytes = 10
            return super().respond(request)

    store = Slow()
    put = make(store)
    written: list[int] = []

    def write() -> None:
        for number in range(20):
            put.write(b"x" * 10)
            written.append(number)

    writer = spawn(write)
    settle()
    assert len(written) == 6  # the reserve and the window
    store.read_bytes = 0
    settle()
    assert len(written) == 20
    writer.wait()


@pytest.mark.parametrize("status", [401, 404, 413, 422, 503])
def test_an_early_refusal_reaches_the_writer(make: Make, status: int) -> None:
    put = make(Refusing(status))
    with pytest.raises(PutRefused) as refused:  # noqa: PT012 - the refusal comes while it writes
        for _ in range(100):
            put.write(b"x" * 10)
            settle()
    assert refused.value.answer.status_int == status


def test_an_early_success_is_an_error_of_ours(make: Make) -> None:
    put = make(Refusing(201))
    with pytest.raises(InternalError, match="committed before"):
        commit([put])


def test_none_is_stored_where_swift_refuses_one(make: Make) -> None:
    stores = [Store(), Refusing(413), Store()]
    puts = [make(store) for store in stores]
    for put in puts:
        put.write(b"x" * 100) if put is not puts[1] else put.write(b"x")
    with pytest.raises(PutRefused):
        commit(puts)
    for put in puts:
        put.close()
    assert [store.stored for store in stores] == [None] * 3
    assert [store.is_broken for store in stores] == [True, False, True]


def test_no_end_is_released_before_all_bytes_of_all_are_taken(make: Make) -> None:
    gates = [False]

    class Slow(Store):
        def respond(self, request: Request) -> Response:
            while not gates[0]:
                sleep(0)
            return super().respond(request)

    fast, slow = Store(), Slow()
    task = spawn(commit, [make(fast), make(slow)])
    settle()
    assert fast.is_asked
    assert fast.stored is None
    gates[0] = True
    assert [answer.status_int for answer in task.wait()] == [201, 201]
    assert (fast.stored, slow.stored) == (b"", b"")


@pytest.mark.parametrize("status", [408, 503])
def test_none_is_stored_where_one_fails_while_another_is_waited_for(
    make: Make, status: int
) -> None:
    is_failing, is_going = [False], [False]

    class Failing(Store):
        def respond(self, request: Request) -> Response:
            while request.environ["wsgi.input"]._size:
                request.environ["wsgi.input"].read(10)
            try:
                with ChunkReadTimeout(0.01):
                    request.environ["wsgi.input"].read(10)
            except ChunkReadTimeout:
                pass
            is_failing[0] = True
            return Response(status=status, request=request)

    class Slow(Store):
        def respond(self, request: Request) -> Response:
            while not is_going[0]:
                sleep(0)
            return super().respond(request)

    failing, slow = Failing(), Slow()
    puts = [make(failing), make(slow)]
    task = spawn(commit, puts)
    assert wait_until(lambda: is_failing[0])
    is_going[0] = True
    with pytest.raises((PutRefused, StorletError)):
        task.wait()
    for put in puts:
        put.close()
    assert (slow.is_broken, slow.stored) == (True, None)


def test_reads_larger_than_the_window_do_not_wait_for_a_pause(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    # client_chunk_size = 1 MiB with erasure coding.
    monkeypatch.setattr(withheld_put, "_WINDOW_BYTES", 20)
    store = Store(read_bytes=100)
    put = make(store, Reserve(100, 400, 30.0))
    put.feed(iter([b"x" * 10] * 200))
    assert wait_until(lambda: put._has_fed)
    assert commit([put])[0].status_int == 201
    assert store.stored == b"x" * 2000


def test_a_put_that_is_closed_is_broken_and_stores_nothing(make: Make) -> None:
    store = Store()
    put = make(store)
    put.write(b"x" * 100)
    settle()
    put.close()
    assert (store.is_broken, store.stored) == (True, None)


def test_a_put_that_was_released_is_stored_after_its_owner_has_left(make: Make) -> None:
    store = Store()
    put = make(store)
    put.write(b"done")
    put.flush()
    put.wait_flushed()
    put.release()
    put.close()
    settle()
    assert store.stored == b"done"


def test_during_a_pause_swift_gets_pieces_of_the_reserve(make: Make) -> None:
    store = Store()
    put = make(store, QUICK)
    put.write(b"x" * 42)
    sleep(0.05)
    assert 1 <= len(store.pieces) <= 3
    put.write(b"y" * 30)
    put.flush()
    put.wait_flushed()
    assert {len(piece) for piece in store.pieces[:-1]} == {10}
    put.release()
    assert put.answer().status_int == 201
    assert store.stored == b"x" * 42 + b"y" * 30


def test_a_pause_that_uses_up_the_reserve_breaks_the_put(make: Make) -> None:
    store = Store()
    put = make(store, QUICK)
    put.write(b"x" * 42)
    with pytest.raises(StorletError, match="an output paused for too long") as stalled:
        put.wait_fed()
    assert stalled.value.code == errors.TIMEOUT_IDLE
    settle()
    assert (store.is_broken, store.stored) == (True, None)
    assert len(store.pieces) == 4


def test_a_slow_writer_is_measured_by_pieces_and_not_by_reads(make: Make) -> None:
    # As with erasure coding: Swift reads less than a server waits for.
    store = Store(read_bytes=2)
    put = make(store, Reserve(10, 40, 0.04))
    put.write(b"x" * 42)
    for _ in range(10):
        put.write(b"y" * 2)
        sleep(0.02)
    # Without the reserve, Swift would have had 22 bytes.
    assert sum(map(len, store.pieces)) > 30
    assert commit([put])[0].status_int == 201


def test_swifts_own_timeout_is_a_stall_of_the_writer(make: Make) -> None:
    class Impatient(Store):
        def respond(self, request: Request) -> Response:
            try:
                with ChunkReadTimeout(0.02):
                    return super().respond(request)
            except ChunkReadTimeout:
                return Response(status=408, request=request)

    put = make(Impatient())
    put.write(b"x" * 50)
    with pytest.raises(StorletError, match=r"no output for 0\.02"):
        put.wait_fed()


@pytest.mark.parametrize("is_released", [True, False])
def test_a_swift_that_raises_is_an_error(make: Make, *, is_released: bool) -> None:
    class Failing(Store):
        def respond(self, request: Request) -> Response:
            if is_released:
                super().respond(request)
            raise ZeroDivisionError

    put = make(Failing())
    if is_released:
        assert commit([put])[0].status_int == 500
    else:
        with pytest.raises(ZeroDivisionError):
            commit([put])


def test_a_source_is_fed_to_its_end(make: Make) -> None:
    store = Store()
    put = make(store)
    put.feed(iter([b"a" * 70, b"", b"b"]))
    put.wait_fed()
    assert store.stored is None
    assert commit([put])[0].status_int == 201
    assert store.stored == b"a" * 70 + b"b"


def test_a_source_that_fails_breaks_the_put(make: Make) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x" * 100
        raise Unprocessable("no")

    store = Store()
    put = make(store)
    put.feed(chunks())
    with pytest.raises(Unprocessable, match="no"):
        put.wait_fed()
    put.close()
    assert (store.is_broken, store.stored) == (True, None)


def test_a_fed_put_that_swift_refuses_ends_its_source(make: Make) -> None:
    ends: list[bool] = []

    def chunks() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 30
                sleep(0)
        finally:
            ends.append(True)

    put = make(Refusing(413))
    put.feed(chunks())
    with pytest.raises(PutRefused):
        put.wait_fed()
    put.close()
    assert ends


def test_a_reader_of_the_whole_body_gets_it_at_the_release(make: Make) -> None:
    store = Store(read_bytes=-1)
    put = make(store)
    put.write(b"x" * 100)
    settle()
    assert not store.pieces
    assert commit([put])[0].status_int == 201
    assert store.stored == b"x" * 100


def test_the_reserve_is_made_for_the_containers_policy(
    swift: FakeSwift, monkeypatch: pytest.MonkeyPatch
) -> None:
    coded = ECStoragePolicy(
        1, name="coded", ec_type="liberasurecode_rs_vand", ec_ndata=2, ec_nparity=1
    )
    policies = StoragePolicyCollection([StoragePolicy(0, name="plain", is_default=True), coded])
    monkeypatch.setattr(withheld_put, "POLICIES", policies)
    swift.put("c", "o")
    path = f"/v1/{ACCOUNT}/c/o"

    def reserve_of(policy: int) -> Reserve:
        environ: dict[str, Any] = Request.blank(path).environ
        key = f"container/{ACCOUNT}/c"
        environ["swift.infocache"] = {key: {"status": 204, "storage_policy": policy}}
        return reserve_for(environ, swift, path, 60)

    assert reserve_of(0) == Reserve(64 << 10, 1 << 20, 30)
    assert reserve_of(1) == Reserve(1 << 20, 8 << 20, 30)
