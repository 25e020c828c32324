"""The attack suite's own arithmetic, and that its table and its storlets fit together."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attack import __main__ as attack_main
from tests.attack import neighbour, syscalls
from tests.attack.arena import STORLETS, Attacker
from tests.attack.attack import BOTH, NATIVE, Attack
from tests.attack.leftovers import ESCAPES
from tests.attack.neighbour import Sample, Window, median_ratio, p99, ratio
from tests.attack.table import TABLE


def window(*seconds: float, kind: str = "plain", fault: str = "") -> Window:
    return Window([Sample(kind, 0, 0.0, one, fault) for one in seconds])


def nothing(_: Attacker) -> str:
    return ""


RATIOS = ("storlet_ratio", "plain_ratio", "plain_median_ratio")


def row(**figures: float) -> attack_main.Row:
    return attack_main.Row(
        Attack("x", "y", nothing), "python", **dict.fromkeys(RATIOS, 1.0) | figures
    )


def test_names_of_attacks_are_unique() -> None:
    names = [attack.name for attack in TABLE]
    assert len(names) == len(set(names))


def test_attacks_that_stop_servers_come_last() -> None:
    alone = [attack.alone for attack in TABLE]
    assert alone == sorted(alone)


def test_every_attack_has_an_expected_outcome_and_languages() -> None:
    for attack in TABLE:
        assert attack.expected
        assert attack.languages
        assert set(attack.languages) <= {*BOTH, *NATIVE}


def test_every_way_to_attack_is_used() -> None:
    """A method of the hostile storlet without a row is an attack that never runs."""
    source = (STORLETS / "hostile.py").read_text(encoding="utf-8")
    folder = Path(attack_main.__file__).parent
    rows = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    ways = re.findall(r"^    def ([a-z]\w*)\(self\) -> None:", source, re.MULTILINE)
    assert ways
    assert [way for way in ways if f'"{way}"' not in rows] == []


def add_sample(file: Path, kind: str, thread: int, due: float, fault: str = "") -> None:
    with file.open("a") as lines:
        lines.write(json.dumps([kind, thread, due, 0.1, fault]) + "\n")


def test_a_neighbour_is_served_when_each_of_its_threads_has_had_a_right_response(
    tmp_path: Path,
) -> None:
    file = tmp_path / "samples"
    for kind in (*neighbour.KINDS, *neighbour.TRAFFIC):
        for thread in range(neighbour.THREADS):
            add_sample(file, kind, thread, 1.0, "503" if (kind, thread) == ("read", 1) else "")
    load = neighbour.Neighbour(file)
    assert not load.is_served()
    add_sample(file, "read", 0, 2.0)
    assert not load.is_served()
    add_sample(file, "read", 1, 2.0)
    assert load.is_served()


def test_an_attack_is_judged_with_a_request_of_each_kind_that_began_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "samples"

    def ended(kind: str, due: float, fault: str = "") -> None:
        add_sample(file, kind, 0, due, fault)

    def waited(is_over: Callable[[], bool], _seconds: float, _what: str) -> None:
        assert not is_over()
        ended("write", 6.0, "503")
        assert not is_over()
        ended("plain", 5.0)
        assert is_over()

    ended("plain", 4.9, "an earlier fault")
    ended("storlet", 5.1)
    monkeypatch.setattr(neighbour, "wait_for", waited)
    found = neighbour.Neighbour(file).since(5.0)
    assert [one.kind for one in found.samples] == ["storlet", "write", "plain"]
    assert found.faults == ["write: 503"]


def test_p99_is_not_decided_by_one_outlier() -> None:
    assert p99([0.01] * 98 + [0.02, 9.0]) == pytest.approx(0.02)
    assert p99([0.01] * 40 + [9.0]) == pytest.approx(0.01)
    assert p99([0.01] * 900 + [0.5] * 100) == pytest.approx(0.5)
    assert math.isnan(p99([]))


def test_ratio_compares_one_kind_with_itself() -> None:
    attacked = window(*[0.03] * 50) + window(*[9.0] * 50, kind="storlet")
    assert ratio(attacked, window(*[0.01] * 50), "plain") == pytest.approx(3)


def test_without_samples_no_ratio_is_small_enough() -> None:
    assert math.isinf(ratio(window(), window(0.1), "plain"))
    assert math.isinf(median_ratio(window(0.1), window(), "plain"))


def test_all_tries_of_an_attack_are_judged_together() -> None:
    """Otherwise a lucky try would hide a slow attack, and three unlucky ones invent one."""
    slow = row()
    calm, storlet = window(*[0.01] * 100), window(*[0.01] * 100, kind="storlet")
    nothing_ordinary = Window()
    slow.add(window(*[0.01] * 90, *[0.03] * 10) + storlet, calm + storlet, nothing_ordinary)
    slow.add(window(*[0.01] * 100), calm, nothing_ordinary)
    assert slow.plain_ratio == pytest.approx(3)
    assert slow.verdict == "SLOW"
    noisy = row()
    noisy.add(window(*[0.01] * 98, 0.03, 0.03) + storlet, calm + storlet, nothing_ordinary)
    assert noisy.verdict == "SLOW"
    for _ in range(3):
        noisy.add(window(*[0.01] * 100), calm, nothing_ordinary)
    assert noisy.verdict == "ok"


def test_an_attack_that_delays_no_more_than_an_ordinary_tenant_is_not_slow() -> None:
    busy = row()
    storlet = window(*[0.01] * 100, kind="storlet")
    calm, slower = window(*[0.01] * 100) + storlet, window(*[0.01] * 90, *[0.03] * 10) + storlet
    busy.add(slower, calm, Window())
    assert busy.verdict == "SLOW"
    busy.add(slower, calm, slower)
    assert (busy.verdict, busy.plain_ratio) == ("ok", pytest.approx(1))
    (detail,) = busy.details()
    assert detail.startswith("against an ordinary tenant's work: storlet 1.00x, plain GET 1.00x")
    assert detail.endswith("median 1.00x; without it plain GET 3.00x")


def test_an_attack_that_raises_the_median_is_slow_beside_any_ordinary_tenant() -> None:
    starving = row()
    storlet = window(*[0.01] * 100, kind="storlet")
    slower = window(*[0.03] * 100) + storlet
    starving.add(slower, window(*[0.01] * 100) + storlet, slower)
    assert starving.plain_ratio == pytest.approx(1)
    assert starving.verdict == "SLOW"


def test_faults_of_a_window_name_the_kind_of_request() -> None:
    assert (window(0.1) + window(0.1, kind="storlet", fault="503")).faults == ["storlet: 503"]


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [({}, "ok"), ({"storlet_ratio": 3.1}, "SLOW"), ({"plain_ratio": 1.6}, "SLOW"), ({"storlet_ratio": 2.9, "plain_ratio": 1.4}, "ok")],
)  # fmt: skip
def test_verdict_of_ratios(figures: dict[str, float], verdict: str) -> None:
    assert row(**figures).verdict == verdict


def test_verdict_names_everything_that_went_wrong() -> None:
    bad = row(storlet_ratio=9.0)
    bad.faults, bad.errors, bad.left = ["f"], ["e"], ["l"]
    assert bad.verdict == "GOT THROUGH NEIGHBOUR SLOW LEFT"
    assert bad.details() == [
        "got through: f",
        "neighbour: e",
        "left: l",
        "slow: storlet 9.00x, plain GET 1.00x, median 1.00x",
    ]


def test_text_of_a_sandbox_is_escaped_in_the_report() -> None:
    bad = row()
    bad.seen = "<script>"
    assert "<script>" not in attack_main.page([bad], "s")


def test_only_chooses_by_name() -> None:
    chosen = attack_main.chosen("Fork bomb,zip")
    assert {attack.name for attack, _ in chosen} >= {"fork bomb", "zip bomb, parsed in memory"}
    assert attack_main.chosen("no such attack") == []


@pytest.mark.parametrize("line", [b"\x1b[2J", b"a\x07", b"\xc2\x9b31m", b"a\x00b"])
def test_escapes_are_seen(line: bytes) -> None:
    assert ESCAPES.search(line)


def test_plain_text_of_any_language_is_no_escape() -> None:
    assert not ESCAPES.search("sandbox started account=\u4e2d\u6587\t\u00e9".encode())


def test_the_golden_file_refuses_the_calls_of_the_checklist() -> None:
    by_name = dict(syscalls.read().values())
    for name in (
        "ptrace", "process_vm_readv", "process_vm_writev", "userfaultfd", "bpf", "io_uring_setup", "keyctl", "add_key", "perf_event_open",
        "unshare", "setns", "mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "open_by_handle_at",
        "kexec_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "pidfd_getfd", "kcmp",
    ):  # fmt: skip
        assert by_name[name] == "refused", name
