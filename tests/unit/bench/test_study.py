"""Figures of IBM's study from given measurements, and its clients and neighbour."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.bench.background import RATE, Background
from tests.bench.clients import Clients, divided, together
from tests.bench.crowd import Crowded
from tests.bench.http import Address, make_request
from tests.bench.plan import FULL, QUICK
from tests.bench.site import Account
from tests.bench.study import (
    BACKGROUND,
    BARE,
    CLIENT,
    CONDITIONS,
    HAVE_BACKGROUND,
    TREATMENTS,
    Seen,
    Study,
    figures,
    size_text,
)


class _Handler(BaseHTTPRequestHandler):
    """``/slow`` takes its time."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b"x" * 5000
        if "slow" in self.path:
            time.sleep(0.3)
        self.send_response(404 if "nothing" in self.path else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the one above
        pass


class _Server(ThreadingHTTPServer):
    #: All clients connect at once; with a full queue some would retry after seconds.
    request_queue_size = 64


@pytest.fixture
def server() -> Iterator[Address]:
    with _Server(("127.0.0.1", 0), _Handler) as listening:
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield "127.0.0.1", listening.server_port
        listening.shutdown()
        thread.join()


def everything(rounds: int = 2) -> Study:
    """Every point of the quick plan; the n-th round took n times as long."""
    seen = [
        Seen(BACKGROUND, 0, 0, one.key, 1.0, [], {"GET": [2.0], "PUT": [5.0]})
        for one in (CLIENT, BARE)
    ]
    for turn in range(1, rounds + 1):
        for size, counts in QUICK.study_points:
            for condition in CONDITIONS:
                beside = {"GET": [4.0], "PUT": [15.0]} if condition in HAVE_BACKGROUND else {}
                seen += [
                    Seen(condition, size, clients, one.key, 2.0, [10.0 * turn * number] * 4, beside)
                    for clients in counts
                    for number, one in enumerate(TREATMENTS, 1)
                ]
    return Study(seen)


@pytest.mark.parametrize(
    ("clients", "processes", "shares"),
    [(1, 2, [1]), (5, 2, [3, 2]), (200, 2, [100, 100]), (3, 4, [1, 1, 1])],
)
def test_clients_are_divided_among_processes_that_have_at_least_one(
    clients: int, processes: int, shares: list[int]
) -> None:
    assert divided(clients, processes) == shares


def test_the_parts_of_a_load_are_combined() -> None:
    whole = together([Crowded(1.0, 2, [], [0.1, 0.2]), Crowded(1.5, 1, ["late"], [0.3])])
    assert whole == Crowded(1.5, 3, ["late"], [0.1, 0.2, 0.3])


@pytest.mark.parametrize("hashes", [False, True])
def test_clients_send_requests_until_their_time_ends(server: Address, hashes: bool) -> None:
    with Clients() as clients:
        seen = clients.run(server, make_request("GET", "/x", {}), 6, 0.2, hashes=hashes)
        assert seen.errors == []
        assert seen.answers == len(seen.latencies) >= 6
        assert seen.seconds >= 0.2
        refused = clients.run(server, make_request("GET", "/nothing", {}), 2, 0.0, hashes=hashes)
    assert refused.errors == ["GET /nothing: 404"] * 2


@dataclass
class Timed:
    """The number of requests in a period, and its length: until the stop request, and until the
    end."""

    latencies: dict[str, list[float]]
    least_seconds: float
    most_seconds: float

    @property
    def is_steady(self) -> bool:
        count = sum(map(len, self.latencies.values()))
        return self.least_seconds * RATE - 4 <= count <= self.most_seconds * RATE + 4


def timed(server: Address, path: str) -> Timed:
    began = time.perf_counter()
    with Background(Account(server, path, "t")) as background:
        entered = time.perf_counter()
        time.sleep(0.6)
        least = time.perf_counter() - entered
    assert background.errors == []
    return Timed(background.latencies, least, time.perf_counter() - began)


def test_the_neighbour_sends_requests_at_a_steady_rate(server: Address) -> None:
    seen = timed(server, "/v1/AUTH_n")
    assert seen.is_steady, seen
    assert all(seen.latencies.values())


def test_the_neighbour_keeps_its_rate_while_responses_are_slow(server: Address) -> None:
    seen = timed(server, "/slow")
    assert seen.is_steady, seen
    assert min(seen.latencies["GET"] + seen.latencies["PUT"]) >= 0.3


def test_a_size_is_shown_in_thousands() -> None:
    assert [size_text(size) for size in (1_000, 100_000, 5_000_000)] == ["1 KB", "100 KB", "5 MB"]


def test_figures_compare_a_storlet_with_the_client_and_the_filter_with_none() -> None:
    found = {figure.key: figure for figure in figures(everything())}
    assert found["study.quiet.10.200.object"].treated == [10.0, 20.0]
    assert found["study.quiet.10.200.object"].plain == [30.0, 60.0]
    assert found["study.delay.20000.20.proxy"].value().at == pytest.approx(2 / 3)
    assert found["study.filter.small"].treated == pytest.approx([0.75] * 4)
    assert found["study.errors"].value().at == 0


def test_a_neighbour_is_compared_with_itself_without_load() -> None:
    found = {figure.key: figure for figure in figures(everything())}
    assert found["study.background.10.200.object.get"].value().at == 2.0
    assert found["study.background.20000.20.bare.put"].value().at == 3.0


def test_a_study_is_the_same_when_it_is_read_again() -> None:
    study = everything()
    assert [Seen.from_json(one.to_json()) for one in study.seen] == study.seen


def test_the_full_plan_has_the_sizes_and_the_numbers_of_clients_of_the_study() -> None:
    sizes = [size for size, _ in FULL.study_points]
    assert (min(sizes), max(sizes)) == (1_000, 100_000_000)
    assert {(size < 1_000_000, max(counts)) for size, counts in FULL.study_points} == {
        (True, 200),
        (False, 20),
    }
    assert FULL.study_rounds >= 3
