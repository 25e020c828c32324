"""Cost of rules for requests without a storlet: a plain GET of 1 KiB whose account has 0 to 1,000
rules, the last of which allows it.

Each request is sent alternately with and without the evaluation of rules, by one process
(:mod:`tests.bench.own_proxy`).
"""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rules import engine, parse
from rules.facts import Caller, Facts
from tests.bench.bench import WARM_UP, Bench
from tests.bench.figures import Figure
from tests.bench.site import SMALL, Account
from tests.support.cluster import CHECKOUT

_COUNTS: Final = (1, 10, 100, 1000)
#: The subject of this row.
_TO_BE_SEEN: Final = 0.01
#: The promise without rules is one percent, which needs more samples than five percent.
_TIMES_NONE: Final = 10
_CALLS: Final = 200


def text(count: int, last: str) -> str:
    """``count`` rules in YAML: only the condition ``last`` may hold for the request, earlier ones
    do not.

    The index can exclude none of them, as it would rules about another method or container; each
    tests something else.
    """
    kinds = (
        "object: {{prefix: archive-{0}/}}",
        'object: {{glob: "*/part-{0}-*.csv"}}',
        "roles: [group-{0}]",
        "header: {{x-purpose: purpose-{0}}}",
        "user: someone-{0}",
    )
    whens = [kinds[number % len(kinds)].format(number) for number in range(count - 1)] + [last]
    rules = [
        f"  - name: r{number}\n    when: {{{when}}}\n    allow: true\n"
        for number, when in enumerate(whens)
    ]
    return "version: 1\nrules:\n" + "".join(rules)


_MATCHES: Final = "method: GET, object: {prefix: sm}"
_NEVER: Final = "method: GET, object: {prefix: other}"
#: Needs facts of the object, and so a HEAD.
_LOOKS: Final = "method: GET, object: {prefix: sm}, content-type: application/octet-stream"


@dataclass(frozen=True)
class _Case:
    key: str
    title: str
    rules: str = ""

    def figures(self) -> tuple[Figure, Figure]:
        """Figures of latency, and of the proxy's CPU time, which resolves less than one percent but
        excludes waits for memcached."""
        return (
            Figure(f"rules.{self.key}", f"GET 1 KiB, {self.title}", "ms"),
            Figure(f"rules.{self.key}.cpu", "the same, CPU time of the proxy", "ms"),
        )


_CASES: Final = (
    _Case("none", "account without rules"),
    *(
        _Case(str(count), f"{count} rules, the last matches", text(count, _MATCHES))
        for count in _COUNTS
    ),
    _Case("unmatched", "100 rules, none matches", text(100, _NEVER)),
    _Case("looked_up", "a rule that looks at the object", text(1, _LOOKS)),
)


def measure(bench: Bench) -> Iterator[Figure]:
    """First the evaluation alone, then whole requests."""
    yield from _evaluation(bench)
    yield from _requests(bench)


# --- evaluation alone -----------------------------------------------------------------------------


def _evaluation(bench: Bench) -> Iterator[Figure]:
    """Microseconds of a decision, to compare the cost per rule of 1,000 rules and of 100."""
    facts = Facts(
        method="GET", container="bench", object="small", caller=Caller(user="ada", project="p", roles=frozenset({"p", "ada"})),
        headers={"x-purpose": "none", "user-agent": "bench"},
    )  # fmt: skip
    compiled = {count: _compiled(text(count, _MATCHES)) for count in _COUNTS}
    samples: dict[int, list[float]] = {count: [] for count in _COUNTS}
    for _ in range(bench.plan.small // 2):
        for count in _COUNTS:
            calls = max(1, _CALLS // count)
            began = time.perf_counter()
            for _ in range(calls):
                compiled[count].decide(facts)
            samples[count].append((time.perf_counter() - began) / calls * 1e6)
    for count in _COUNTS:
        yield Figure(
            f"rules.evaluation.{count}", f"evaluation alone, {count} rules", "us", samples[count]
        )
    shares = {count: [value / count for value in samples[count]] for count in (100, 1000)}
    yield Figure(
        "rules.growth", "a rule of 1,000 against one of 100", "us", shares[1000], shares[100]
    )


def _compiled(source: str) -> engine.Compiled:
    rules, findings = parse.parse(source)
    if rules is None:
        raise RuntimeError("; ".join(map(str, findings)))
    return engine.Compiled(rules)


# --- whole requests -------------------------------------------------------------------------------


def _requests(bench: Bench) -> Iterator[Figure]:
    accounts = {case.key: _account(bench, case) for case in _CASES}
    figures = {case.key: case.figures() for case in _CASES}
    with _OwnProxy.of(bench) as proxy:
        for account in accounts.values():
            for number in range(WARM_UP):
                proxy.get(account, asks=bool(number % 2))
        rounds = max(1, bench.plan.small // 2)
        for number in range(rounds):
            for case in _CASES:
                for pair in range(_TIMES_NONE if case.key == "none" else 1):
                    _pair(
                        proxy,
                        accounts[case.key],
                        figures[case.key],
                        is_first=(number + pair) % 2 == 0,
                    )
            bench.progress.step(number + 1, rounds)
    for latency, cpu in figures.values():
        value = latency.value()
        if value.high - value.low > 2 * _TO_BE_SEEN:
            latency.notes.append(f"the spread is too wide to tell {_TO_BE_SEEN:.0%}")
        yield latency
        yield cpu


def _account(bench: Bench, case: _Case) -> Account:
    account = bench.site.new_account(f"rules-{case.key}-{secrets.token_hex(3)}")
    account.get_ready()
    if case.rules:
        account.send("PUT", "storlet_rules")
        headers = {"X-Storlet-Rules-Accept-Warnings": "true"}
        account.send("PUT", "storlet_rules/rules.yaml", headers, case.rules.encode())
    return account


class _OwnProxy:
    """The process of :mod:`tests.bench.own_proxy`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    @contextmanager
    def of(cls, bench: Bench) -> Iterator[_OwnProxy]:
        cluster = bench.site.cluster
        # The cluster's Python finds the filter by the name that its configuration says.
        command = [
            str(cluster.venv / "bin/python"),
            "-m",
            "tests.bench.own_proxy",
            str(cluster.description["conf_dir"]),
        ]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(
            command, cwd=CHECKOUT, text=True, stdin=pipe, stdout=pipe, stderr=nowhere
        ) as process:
            try:
                proxy = cls(process)
                if proxy._line() != "ready":
                    raise RuntimeError("no proxy of the benchmark's own")
                yield proxy
            finally:
                process.terminate()

    def get(self, account: Account, *, asks: bool) -> list[float]:
        """Milliseconds of wall time and of CPU time."""
        wanted = {
            "path": account.path_of(SMALL),
            "headers": {"X-Auth-Token": account.token},
            "asks": asks,
        }
        if self._process.stdin is None:
            raise RuntimeError("no pipe to the proxy")
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        return [float(word) for word in self._line().split()]

    def _line(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the proxy of the benchmark's own has ended")
        return line.strip()


def _pair(
    proxy: _OwnProxy, account: Account, figures: tuple[Figure, Figure], *, is_first: bool
) -> None:
    for asks in (is_first, not is_first):
        for figure, sample in zip(figures, proxy.get(account, asks=asks), strict=True):
            (figure.treated if asks else figure.plain).append(sample)
