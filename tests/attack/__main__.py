"""``make attack``: run every attack of the table against a separate cluster under a neighbour's
load.

Prints a report; exit status 1 if an attack succeeded.

``--list`` shows the table, ``--only WORD,...`` runs the attacks whose names contain one of these
words, ``--html FILE`` also writes the report as a page.

The neighbour's latency under attack is compared with its latency without attack before and after,
in the same run. At the 99th percentile the ratio is at most 3 for a storlet and 1.5 for a plain
GET.  A short attack is repeated a few times a second until there are enough samples: the number of
requests of a tenant is limited by Swift's ``ratelimit``; this suite measures the effect of one
request on other tenants.

An attack that exceeds a ratio is repeated, and the samples of all its tries are judged together,
since single delays of the machine are noise.  Between two tries an ordinary tenant works without
pause (:mod:`tests.attack.ordinary`): two clients compute and one writes.  On a machine with two
cores that, too, delays the slowest requests of a neighbour. So the ratios are then those to the
windows with it, and the median is at most 1.5 times that of the windows with no tenant at work.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.attack import escape, leftovers
from tests.attack.arena import Arena, Attacker, arena_on
from tests.attack.attack import Attack
from tests.attack.neighbour import Neighbour, Window, load_of, median_ratio, ratio
from tests.attack.ordinary import Ordinary, as_a_client
from tests.attack.table import TABLE
from tests.support.cluster import Cluster
from tests.support.own_cluster import own_cluster

NEIGHBOUR: Final = "test2:tester2"
STORLET_RATIO: Final = 3.0
PLAIN_RATIO: Final = 1.5
#: The time without attack between two attacks, and the minimum length of an attack.
CALM_SECONDS: Final = 3.0
ATTACK_SECONDS: Final = 5.0
#: From the end of a short attack to its repetition.
PAUSE_SECONDS: Final = 0.2
TRIES: Final = 5
COLUMNS: Final = (
    "attack",
    "language",
    "expected",
    "seen",
    "verdict",
    "errors",
    "p99",
    "plain",
    "left",
)


@dataclass
class Row:
    """One line of the report."""

    attack: Attack
    language: str
    seen: str = ""
    faults: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    storlet_ratio: float = math.inf
    plain_ratio: float = math.inf
    plain_median_ratio: float = math.inf
    left: list[str] = field(default_factory=list)
    #: The neighbour's samples of all tries, those without attack before, between and after, and
    #: those beside the ordinary tenant.
    attacked: Window = field(default_factory=Window)
    calm: Window = field(default_factory=Window)
    ordinary: Window = field(default_factory=Window)

    def add(self, attacked: Window, calm: Window, ordinary: Window) -> None:
        """Judge all tries with the samples of one more."""
        self.attacked += attacked
        self.calm += calm
        self.ordinary += ordinary
        reference = self.ordinary if self.ordinary.samples else self.calm
        self.storlet_ratio = ratio(self.attacked, reference, "storlet")
        self.plain_ratio = ratio(self.attacked, reference, "plain")
        self.plain_median_ratio = median_ratio(self.attacked, self.calm, "plain")

    @property
    def is_judged(self) -> bool:
        """An attack that stops servers delays the neighbour, too: there only its responses are
        judged."""
        return not self.attack.alone and not self.attack.flood

    @property
    def is_slow(self) -> bool:
        by_median = not self.plain_median_ratio <= PLAIN_RATIO
        if self.attack.by_median:
            return by_median
        by_p99 = self.storlet_ratio > STORLET_RATIO or self.plain_ratio > PLAIN_RATIO
        return self.is_judged and (by_p99 or (bool(self.ordinary.samples) and by_median))

    @property
    def verdict(self) -> str:
        faults = [
            "GOT THROUGH" if self.faults else "", "NEIGHBOUR" if self.errors else "", "SLOW" if self.is_slow else "", "LEFT" if self.left else "",
        ]  # fmt: skip
        return " ".join(filter(None, faults)) or "ok"

    def cells(self) -> tuple[str, ...]:
        ratios = (
            f"{value:.2f}x" if math.isfinite(value) else "-"
            for value in (self.storlet_ratio, self.plain_ratio)
        )
        return (
            self.attack.name, self.language, self.attack.expected, self.seen, self.verdict, str(len(self.errors)), *ratios,
            str(len(self.left)),
        )  # fmt: skip

    def details(self) -> list[str]:
        kinds = (("got through", self.faults), ("neighbour", self.errors[:5]), ("left", self.left))
        ratios = (
            f"storlet {self.storlet_ratio:.2f}x, plain GET {self.plain_ratio:.2f}x,"
            f" median {self.plain_median_ratio:.2f}x"
        )
        lines = [f"{kind}: {text}" for kind, texts in kinds for text in texts]
        if self.is_slow:
            lines.append(f"slow: {ratios}")
        if self.ordinary.samples:
            alone = ratio(self.attacked, self.calm, "plain")
            lines.append(
                f"against an ordinary tenant's work: {ratios}; without it plain GET {alone:.2f}x"
            )
        return lines


class Battle:
    """Runs attacks, with windows without attack in between."""

    def __init__(self, arena: Arena, neighbour: Neighbour, ordinary: Ordinary) -> None:
        self._arena = arena
        self._neighbour = neighbour
        self._ordinary = ordinary
        #: The window after an attack is also the reference for the next attack.
        self._last_calm = Window()

    def fight(self, attack: Attack, language: str) -> Row:
        """Judge one attack in one language."""
        row = Row(attack, language)
        try:
            with self._arena.prepared(attack, language) as attacker:
                ordinary = Window()
                for _ in range(TRIES):
                    self._try(row, attacker, ordinary)
                    if row.faults or not row.is_slow:
                        break
                    ordinary = Window() if attack.by_median else self._ordinary_work()
        except AssertionError as error:
            row.faults.append(f"cannot begin: {error}")
        return row

    def _try(self, row: Row, attacker: Attacker, ordinary: Window) -> None:
        # Between two tries there is one window, which counts once.
        calm = Window() if row.calm.samples else self._reference()
        before = leftovers.take(self._arena.host)
        begin = time.monotonic()
        # An attack that stops servers starts them again: they must not get the client's priority.
        priority = contextlib.nullcontext() if row.attack.alone else as_a_client()
        try:
            with priority:
                row.seen = row.attack.run(attacker)
                while time.monotonic() < begin + ATTACK_SECONDS and not row.attack.alone:
                    time.sleep(PAUSE_SECONDS)
                    if not row.attack.once:
                        row.attack.run(attacker)
        except Exception as error:  # noqa: BLE001  every failure is a line of the report
            row.seen = row.seen or "see below"
            row.faults.append(f"{type(error).__name__}: {error}")
        end = time.monotonic()
        row.left += leftovers.left(self._arena.host, before)
        self._last_calm = self._calm()
        calm += self._last_calm
        attacked = self._neighbour.between(begin, end)
        # A killed proxy or Docker engine is not a failure of isolation; the attack itself judges
        # the responses.
        row.errors += [] if row.attack.alone else attacked.faults
        row.add(attacked, calm, ordinary)

    def _ordinary_work(self) -> Window:
        with self._ordinary.at_work():
            begin = time.monotonic()
            time.sleep(ATTACK_SECONDS)
            return self._neighbour.between(begin, time.monotonic() - 0.5)

    def _reference(self) -> Window:
        return self._last_calm if self._last_calm.samples else self._calm()

    def _calm(self) -> Window:
        begin = time.monotonic()
        time.sleep(CALM_SECONDS)
        return self._neighbour.between(begin, time.monotonic() - 0.5)


@contextlib.contextmanager
def cluster_of_its_own() -> Iterator[Cluster]:
    """Run a cluster for the duration of a block.

    ``STORLETS_TEST_HOME`` names a running cluster that is used instead and left running.
    """
    given = os.environ.get("STORLETS_TEST_HOME")
    if given:
        yield Cluster(Path(given), {**os.environ, "STORLETS_HOME": given})
        return
    with own_cluster("attack-") as cluster:
        yield cluster


def chosen(words: str) -> list[tuple[Attack, str]]:
    """The attacks in the table's order, one entry per language."""
    wanted = [word.strip().lower() for word in words.split(",") if word.strip()]
    return [
        (attack, language)
        for attack in TABLE
        if not wanted or any(word in attack.name.lower() for word in wanted)
        for language in attack.languages
    ]


def table(rows: list[Row]) -> str:
    """The report as text; long cells are cut, the details below are complete."""
    widths = (44, 8, 38, 44, 11, 6, 7, 7, 4)
    lines = ["  ".join(name.ljust(width) for name, width in zip(COLUMNS, widths, strict=True))]
    lines.append("  ".join("-" * width for width in widths))
    for row in rows:
        lines.append(
            "  ".join(
                cell[:width].ljust(width) for cell, width in zip(row.cells(), widths, strict=True)
            )
        )
        lines += [f"    {detail[:1000]}" for detail in row.details()]
    return "\n".join(lines)


def page(rows: list[Row], summary: str) -> str:
    """The report as HTML. Everything in it that came from a sandbox is escaped."""
    head = "".join(f"<th>{name}" for name in COLUMNS)
    body = "".join(
        f"<tr class={'ok' if row.verdict == 'ok' else 'bad'}>" + "".join(f"<td>{html.escape(cell)}" for cell in row.cells())
        for row in rows
    )  # fmt: skip
    style = "body{font:14px sans-serif}td,th{border:1px solid #ccc;padding:3px;text-align:left}.bad{background:#fdd}"
    return (
        f"<!doctype html><meta charset=utf-8><title>attacks</title><style>{style}</style>"
        f"<p>{html.escape(summary)}<table><tr>{head}{body}</table>\n"
    )


def run(pairs: list[tuple[Attack, str]], folder: Path) -> tuple[list[Row], list[str]]:
    """Run the chosen attacks; return the rows and the objects that the auditor found damaged."""
    rows = []
    with cluster_of_its_own() as cluster, arena_on(cluster) as arena:
        user = arena.users[NEIGHBOUR]
        with load_of(user.storage_url, user.token, folder / "neighbour") as neighbour:
            battle = Battle(arena, neighbour, Ordinary(arena.users["admin:admin"]))
            time.sleep(CALM_SECONDS)
            for number, (attack, language) in enumerate(pairs, 1):
                print(
                    f"[{number}/{len(pairs)}] {attack.name} ({language}) ... ", end="", flush=True
                )
                began = time.monotonic()
                rows.append(battle.fight(attack, language))
                print(
                    f"{rows[-1].verdict} {time.monotonic() - began:.1f} s: {rows[-1].seen[:100]}",
                    flush=True,
                )
                # Printed at once, so that an interrupted run has shown its findings.
                for detail in rows[-1].details():
                    print(f"    {detail[:1000]}", flush=True)
        damaged = escape.audit(arena.attacker("python"))
    return rows, damaged


def main() -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="tests.attack", description=__doc__.split("\n\n", maxsplit=1)[0]
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="WORD,...",
        help="only attacks whose names contain one of these words",
    )
    parser.add_argument("--list", action="store_true", help="print the table and exit")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write the report as a page")
    options = parser.parse_args()
    pairs = chosen(options.only)
    if not pairs:
        parser.error(f"no attack name contains {options.only!r}; see --list")
    if options.list:
        for attack, language in pairs:
            print(f"{attack.name:<56} {language:<7} {attack.expected}")
        return 0
    with tempfile.TemporaryDirectory(prefix="storlets-attack-") as folder:
        rows, damaged = run(pairs, Path(folder))
    bad = [row for row in rows if row.verdict != "ok"]
    summary = f"{len(rows)} attacks, {len(bad)} not stopped as promised; objects that Swift's auditor found damaged: {len(damaged)}"
    print(f"\n{table(rows)}\n\n{summary}")
    if options.html:
        options.html.write_text(page(rows, summary), encoding="utf-8")
    return 1 if bad or damaged else 0


if __name__ == "__main__":
    sys.exit(main())
