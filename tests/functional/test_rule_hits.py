"""The proxies' log of the operations that each rule decided."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.functional.wards import RULES, Ward, make_ward
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.proxies import OtherProxy, proxy_with_options

_SECONDS = 0.2


@pytest.fixture(scope="module")
def counting(cluster: Cluster) -> Iterator[OtherProxy]:
    """A proxy that logs hits every ``_SECONDS``."""
    with proxy_with_options(cluster, {"rules": {"hits_seconds": _SECONDS}}) as proxy:
        yield proxy


def test_the_hits_of_each_rule_are_in_the_log(
    counting: OtherProxy, users: dict[str, Client]
) -> None:
    ward = make_ward(users)
    ward.rule(
        RULES + "  - name: shut\n    when: {method: DELETE, container: patients}\n    deny: kept\n"
    )
    there = _behind(counting, ward)
    for _ in range(3):
        assert there.researcher.get("patients/a.csv").status == 200
    assert there.admin.delete("patients/a.csv").status == 403
    assert there.physician.get("open/a.csv").status == 200
    time.sleep(_SECONDS)
    # The first operation that a rule decides after the interval logs the counts.
    assert there.researcher.get("patients/a.csv").status == 200
    words = _hits(counting, there)
    assert _sum(words, "hide") == 3
    assert _sum(words, "shut") == 1


def _behind(proxy: OtherProxy, ward: Ward) -> Ward:
    callers = ward.admin, ward.researcher, ward.physician
    return Ward(*(proxy.client(caller) for caller in callers))


def _hits(proxy: OtherProxy, ward: Ward) -> list[str]:
    """Words of the lines about the account in the proxy's log."""
    text = proxy.log.read_text(encoding="utf-8", errors="replace")
    account = f"account={ward.admin.version_url.path.rpartition('/')[2]}"
    lines = [line.split() for line in text.splitlines() if "rules hits" in line]
    return [word for line in lines if account in line for word in line]


def _sum(words: list[str], rule: str) -> int:
    return sum(int(word.partition("=")[2]) for word in words if word.startswith(f"{rule}="))


AUDITED = """
  - name: shut
    when: {{container: patients}}
    mandatory: true
    mode: {mode}
    deny: closed
"""


def test_an_audited_rule_is_counted_and_changes_no_answer(
    counting: OtherProxy, users: dict[str, Client]
) -> None:
    ward = make_ward(users)
    rules = "version: 1\nrules:" + AUDITED
    refused = ward.admin.put("storlet_rules/rules.yaml", rules.format(mode="audit").encode())
    assert (refused.status, "rule.audited" in refused.text) == (400, True), refused.text
    there = _behind(counting, ward)
    before = [_answer(there.researcher, *call) for call in CALLS]
    ward.rule(rules.format(mode="audit"), accept=True)
    assert [_answer(there.researcher, *call) for call in CALLS] == before
    explained = there.admin.get("patients/a.csv", {"X-Storlet-Explain": "true"}).text
    assert "audited mandatory rule shut would deny: closed" in explained
    time.sleep(_SECONDS)
    there.researcher.get("patients/a.csv")
    assert _sum(_hits(counting, there), "shut(audit)") == len(CALLS)
    ward.rule(rules.format(mode="enforce"))
    assert {_answer(there.researcher, *call)[0] for call in CALLS} == {403}


CALLS = [
    ("GET", "patients/a.csv", {}),
    ("GET", "patients/a.csv", {"Range": "bytes=0-3"}),
    ("GET", "patients/a.csv", {"X-Run-Storlet": "mask.py"}),
    ("HEAD", "patients/a.csv", {}),
    ("GET", "patients", {}),
    ("PUT", "patients/b.csv", {}),
    ("POST", "patients/b.csv", {"X-Object-Meta-A": "b"}),
    ("COPY", "patients/b.csv", {"Destination": "open/b.csv"}),
    ("DELETE", "patients/b.csv", {}),
]


def _answer(client: Client, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    answer = client.request(method, path, headers=headers)
    return answer.status, answer.text
