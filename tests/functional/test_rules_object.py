"""The rules object of an account: uploads, versions, permissions, and when a change takes effect on
each proxy."""

from __future__ import annotations

import configparser
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.wards import CONTENT, make_ward
from tests.support.accounts import prepare_account, unique
from tests.support.cluster import Cluster
from tests.support.http import Client, log_in, raw_connection
from tests.support.proxies import OtherProxy, other_memcached, other_proxy, proxy_with_options
from tests.support.storlets import declaration

RULES = "storlet_rules/rules.yaml"
ACCEPT = {"X-Storlet-Rules-Accept-Warnings": "true"}


def denying(message: str, more: str = "") -> bytes:
    return f'version: 1\nrules:\n- name: closed\n  when: {{container: c}}\n{more}  deny: "{message}"\n'.encode()


@pytest.fixture
def account(admin: Client) -> Client:
    """A fresh account with one object, and a container for rules; storlets are not enabled."""
    client = admin.on(f"AUTH_{unique('rules')}")
    for container in ("c", "storlet_rules"):
        assert client.put(container).status == 201
    assert client.put("c/o", b"data").status == 201
    return client


def message(client: Client) -> str | None:
    """The message of the rule in force; ``None`` without one."""
    answer = client.get("c/o")
    if answer.status == 200:
        assert answer.body == b"data"
        return None
    assert (answer.status, answer.error) == (403, "access.rule"), answer
    assert answer.headers["X-Storlet-Rule"] == "closed"
    return answer.text.strip().removeprefix("rule closed: ")


def versions(client: Client) -> list[str]:
    return [entry["name"] for entry in client.listing("storlet_rules", prefix="versions/")]


# --- uploads


def test_rules_are_in_force_when_their_upload_is_answered(account: Client) -> None:
    assert message(account) is None
    for number in range(3):
        answer = account.put(RULES, denying(f"no {number}"))
        assert answer.status == 201, answer
        assert message(account) == f"no {number}"
        assert answer.headers["X-Storlet-Rules-Version"] == versions(account)[-1]
    assert account.get(RULES).body == denying("no 2")
    assert len(versions(account)) == 3
    assert account.delete(RULES).status == 204
    assert message(account) is None
    assert account.get(RULES).status == 404


def test_rules_in_json_are_accepted(account: Client) -> None:
    text = (
        b'{"version": 1, "rules": [{"name": "closed", "when": {"container": "c"}, "deny": "no"}]}'
    )
    assert account.put(RULES, text, {"Content-Type": "application/json"}).status == 201
    assert message(account) == "no"
    assert account.head(RULES).headers["Content-Type"] == "application/json"


def test_rules_with_faults_are_refused_with_all_of_them(account: Client) -> None:
    assert account.put(RULES, denying("no")).status == 201
    answer = account.put(
        RULES, b"version: 1\nrules:\n- name: a b\n  when: {objects: c}\n  deny: 1\n- allow: yes\n"
    )
    assert (answer.status, answer.error) == (400, "rules.invalid")
    for part in (
        "rules.yaml:3:9: error",
        "'a b'",
        "did you mean 'object'",
        "rules.yaml:6:3: error",
        "help: ",
    ):
        assert part in answer.text, answer.text
    assert message(account) == "no"
    assert len(versions(account)) == 1


def test_rules_that_are_too_expensive_are_refused_with_the_rule_to_change(account: Client) -> None:
    assert account.put(RULES, denying("no")).status == 201
    tests = ", ".join(f"{{object: o{number}}}" for number in range(8_001))
    text = denying("no") + f"- {{name: long, when: {{any: [{tests}]}}, deny: x}}\n".encode()
    answer = account.put(RULES, text)
    assert (answer.status, answer.error) == (400, "rules.invalid")
    for part in ("rules.yaml:6:", "[size.cost]", "8,004 comparisons", "rule long costs the most"):
        assert part in answer.text, answer.text
    assert message(account) == "no"


def test_unreachable_rules_are_refused_with_an_example(account: Client) -> None:
    text = (
        denying("no")
        + b"- name: late\n  when: {container: c, object: {glob: '*.csv'}}\n  run: none.py\n"
    )
    answer = account.put(RULES, text, {"Accept": "application/json"})
    assert answer.status == 400
    assert '"rule.never-matches"' in answer.text
    assert "container=c" in answer.text


def test_storlets_and_limits_of_rules_are_checked_against_the_account(account: Client) -> None:
    prepare_account(account)

    def running(limit: str) -> bytes:
        run = f"{{storlet: up.py, limits: {{memory: {limit}}}}}"
        return f"version: 1\nrules:\n- name: r\n  when: {{method: GET, container: c}}\n  run: {run}\n".encode()

    answer = account.put(RULES, running("900G"))
    assert "storlet.missing" in answer.text
    assert "limit.bad" in answer.text
    assert (
        account.put("storlet/up.py", b"class Up: pass", declaration("python", "up.Up")).status
        == 201
    )
    answer = account.put(RULES, running("900G"))
    assert "storlet.missing" not in answer.text
    assert "limit.bad" in answer.text
    assert account.put(RULES, running("64M")).status == 201
    assert account.post("", {"X-Account-Meta-Storlet-Enabled": "false"}).status == 204
    assert "storlet.disabled" in account.put(RULES, running("64M")).text


def test_warnings_are_accepted_with_the_header(account: Client) -> None:
    text = b"version: 1\nrules:\n- name: some\n  when: {container: c, object: {prefix: x}}\n  allow: true\n"
    text += denying("no", "  mandatory: true\n").partition(b"rules:\n")[2]
    answer = account.put(RULES, text)
    assert (answer.status, answer.error) == (400, "rules.invalid")
    assert "mandatory.allowed-past" in answer.text
    assert message(account) is None
    answer = account.put(RULES, text, ACCEPT)
    assert answer.status == 201
    assert "mandatory.allowed-past" in answer.text
    assert message(account) == "no"


def test_rules_beyond_a_mebibyte_are_refused(account: Client) -> None:
    answer = account.put(RULES, (b"#" * 65536 for _ in range(17)))
    assert answer.status == 400
    assert "size.bytes" in answer.text


@pytest.mark.parametrize(
    "headers", [{"X-Symlink-Target": "c/o"}, {"X-Object-Manifest": "c/o"}, {"X-Delete-After": "60"}]
)
def test_rules_as_links_or_with_expiry_are_refused(
    account: Client, headers: dict[str, str]
) -> None:
    assert account.put(RULES, denying("no"), headers).status == 400
    assert account.put(RULES, denying("no")).status == 201
    assert account.post(RULES, headers).status == 400
    assert account.put(RULES, b"[]", query="multipart-manifest=put").status == 400
    assert message(account) == "no"


def test_the_etag_and_conditions_of_an_upload_apply(account: Client) -> None:
    assert account.put(RULES, denying("no"), {"Etag": "0" * 32}).status == 422
    assert account.put(RULES, denying("a"), {"If-None-Match": "*"}).status == 201
    assert account.put(RULES, denying("b"), {"If-None-Match": "*"}).status == 412
    assert message(account) == "a"
    assert len(versions(account)) == 1


# --- permissions


@pytest.fixture
def guest(account: Client, users: dict[str, Client]) -> Client:
    """A user of another account, on this account."""
    return users["test2:tester2"].on(account.account)


def test_write_access_to_the_container_permits_changes_of_rules(
    account: Client, guest: Client
) -> None:
    assert account.put(RULES, denying("no")).status == 201
    version = versions(account)[0]
    assert guest.put(RULES, denying("mine")).status == 403
    assert guest.delete(RULES).status == 403
    assert account.post("storlet_rules", {"X-Container-Write": "test2:tester2"}).status == 204
    assert guest.put(RULES, denying("mine")).status == 201
    assert message(account) == "mine"
    # Restoring a version needs permission to read it.
    assert guest.request("COPY", f"storlet_rules/{version}", {"Destination": RULES}).status == 403
    assert guest.delete(f"storlet_rules/{version}").status == 204
    assert guest.delete(RULES).status == 204
    assert message(account) is None


def test_anonymous_callers_and_signed_urls_change_nothing(
    account: Client, cluster: Cluster
) -> None:
    assert account.post("storlet_rules", {"X-Container-Write": ".r:*"}).status in (204, 400)
    assert Client(account.storage_url, "").put(RULES, denying("no")).status == 401
    assert message(account) is None


def test_changing_rules_needs_the_role_that_the_operator_sets(
    cluster: Cluster, users: dict[str, Client], account: Client
) -> None:
    options = {"rules": {"role": "test2", "container": "laws"}}
    writers = {"X-Container-Write": "test2:tester2,test5:tester5"}
    rules = denying("no").replace(b"container: c}", b"container: none}")
    with proxy_with_options(cluster, options) as proxy:
        there = proxy.client(account)
        assert there.put("laws", b"", writers).status == 201
        for user, status in (("test5:tester5", 403), ("test2:tester2", 201)):
            answer = proxy.client(users[user].on(account.account)).put("laws/rules.yaml", rules)
            assert (answer.status, answer.error) == (status, {403: "access.denied"}.get(status))
        assert there.put("laws/rules.yaml", rules).status == 201
        assert there.delete("laws/rules.yaml").status == 204


def test_no_storlet_writes_rules(account: Client) -> None:
    run = {"X-Run-Storlet": "any.py"}
    assert account.put(RULES, denying("no"), run).status == 400
    answer = account.request("COPY", "c/o", {**run, "Destination": RULES})
    assert (answer.status, answer.error) == (400, "bad_request")


# --- versions


def test_any_version_is_restored(account: Client) -> None:
    for text in ("first", "second", "third"):
        assert account.put(RULES, denying(text)).status == 201
    first, second, third = versions(account)
    answer = account.request("COPY", f"storlet_rules/{first}", {"Destination": RULES})
    assert answer.status == 201, answer
    assert message(account) == "first"
    assert account.get(RULES).body == denying("first")
    assert account.put(RULES, b"", {"X-Copy-From": f"/storlet_rules/{second}"}).status == 201
    assert message(account) == "second"
    assert account.delete(RULES).status == 204
    assert account.request("COPY", f"storlet_rules/{third}", {"Destination": RULES}).status == 201
    assert message(account) == "third"
    assert [account.get(f"storlet_rules/{name}").body for name in versions(account)[:3]] == [
        denying(text) for text in ("first", "second", "third")
    ]


def test_only_own_versions_are_restored(account: Client, owner: Client) -> None:
    assert account.put("c/rules", denying("no")).status == 201
    assert account.request("COPY", "c/rules", {"Destination": RULES}).status == 400
    assert account.put(RULES, b"", {"X-Copy-From": "/c/rules"}).status == 400
    assert (
        account.request("COPY", "storlet_rules/versions/none", {"Destination": RULES}).status == 404
    )
    there = {"Destination": RULES, "Destination-Account": owner.account}
    assert account.request("COPY", "storlet_rules/versions/none", there).status == 400


def test_versions_are_deleted_but_not_written(account: Client) -> None:
    for text in ("first", "second"):
        assert account.put(RULES, denying(text)).status == 201
    first, second = versions(account)
    assert account.put(f"storlet_rules/{first}", denying("other")).status == 403
    assert account.post(f"storlet_rules/{first}", {"X-Delete-After": "1"}).status == 400
    assert account.put("storlet_rules/versions/mine", b"x").status == 403
    assert account.request("COPY", RULES, {"Destination": f"storlet_rules/{second}"}).status == 403
    answer = account.delete(f"storlet_rules/{second}")
    assert (answer.status, answer.error) == (409, "rules.conflict")
    assert account.delete(f"storlet_rules/{first}").status == 204
    assert message(account) == "second"


# --- other proxies


def through(proxy: OtherProxy, cluster: Cluster, account: Client) -> Client:
    """The same user and account at another proxy."""
    client = log_in(proxy.auth_url, "admin:admin", cluster.description["users"]["admin:admin"])
    return client.on(account.account)


@pytest.fixture(scope="module")
def second(cluster: Cluster) -> Iterator[OtherProxy]:
    """Another proxy, with the same memcached."""
    with other_proxy(cluster) as proxy:
        yield proxy


def test_a_change_is_in_force_at_once_on_all_proxies_that_share_memcached(
    account: Client, cluster: Cluster, second: OtherProxy
) -> None:
    both = account, through(second, cluster, account)
    for number in range(4):
        writer, reader = both if number % 2 else both[::-1]
        assert message(reader) == (f"no {number - 1}" if number else None)
        assert writer.put(RULES, denying(f"no {number}")).status == 201
        assert message(reader) == f"no {number}"
    assert both[1].delete(RULES).status == 204
    assert message(account) is None


def test_without_memcached_a_change_is_in_force_at_once(account: Client, cluster: Cluster) -> None:
    # TempAuth keeps its tokens in memcached, so the reader there is anonymous.
    assert account.post("c", {"X-Container-Read": ".r:*"}).status == 204
    with other_proxy(cluster, {"filter:cache": {"memcache_servers": "127.0.0.1:9"}}) as proxy:
        there = Client(proxy.client(account).storage_url, "")
        for number in range(3):
            assert account.put(RULES, denying(f"no {number}")).status == 201
            assert message(there) == f"no {number}"
        assert account.delete(RULES).status == 204
        assert message(there) is None


def test_a_proxy_with_a_separate_memcached_follows_when_swifts_account_cache_expires(
    account: Client, cluster: Cluster
) -> None:
    seconds = 3
    with other_memcached() as address:
        changes = {
            "filter:cache": {"memcache_servers": address},
            "app:proxy-server": {"recheck_account_existence": str(seconds)},
        }
        with other_proxy(cluster, changes) as proxy:
            there = through(proxy, cluster, account)
            assert message(there) is None
            assert account.put(RULES, denying("no")).status == 201
            began = time.monotonic()
            while message(there) is None:
                assert time.monotonic() - began < seconds + 2
                time.sleep(0.1)


def test_a_proxy_killed_during_an_upload_of_rules_keeps_the_old_ones(
    account: Client, cluster: Cluster
) -> None:
    assert account.put(RULES, denying("old")).status == 201
    many = "".join(
        f"- name: r{n}\n  when: {{object: {{glob: '*{n}*'}}, method: PUT}}\n  deny: 'no'\n"
        for n in range(600)
    )
    with other_proxy(cluster) as proxy:
        there = through(proxy, cluster, account)
        body = denying("new") + many.encode()
        with raw_connection(there) as upload:
            upload.send_head("PUT", RULES, {**ACCEPT, "Content-Length": str(len(body))})
            upload.send(body)
            time.sleep(0.3)
            proxy.kill()
    assert message(account) == "old"
    assert account.put(RULES, denying("new")).status == 201
    assert message(account) == "new"


# --- lost rules


@pytest.fixture(scope="module")
def bare(cluster: Cluster) -> Iterator[OtherProxy]:
    """A proxy without our filter."""
    config = configparser.RawConfigParser()
    config.read(Path(cluster.description["conf_dir"], "proxy-server.conf"))
    pipeline = [
        word for word in config.get("pipeline:main", "pipeline").split() if word != "storlets"
    ]
    with other_proxy(cluster, {"pipeline:main": {"pipeline": " ".join(pipeline)}}) as proxy:
        yield proxy


@pytest.mark.parametrize("is_mandatory", [True, False])
def test_rules_that_are_lost_close_an_account_only_if_some_are_mandatory(
    account: Client, cluster: Cluster, second: OtherProxy, bare: OtherProxy, *, is_mandatory: bool
) -> None:
    assert (
        account.put(RULES, denying("no", "  mandatory: true\n" if is_mandatory else "")).status
        == 201
    )
    name = versions(account)[0]
    outside, fresh = through(bare, cluster, account), through(second, cluster, account)
    assert outside.get("c/o").status == 200
    assert outside.delete(f"storlet_rules/{name}").status == 204
    # rules.yaml has the same.
    assert message(fresh) == "no"
    assert outside.delete(RULES).status == 204
    # A proxy that has cached the rules does not read them again; another proxy has no copy.
    assert message(account) == "no" or not is_mandatory
    with other_proxy(cluster) as third:
        answer = through(third, cluster, account).get("c/o")
        assert (answer.status, answer.error) == (
            (503, "rules.unavailable") if is_mandatory else (200, None)
        ), answer
        assert not is_mandatory or b"data" not in answer.body
        assert account.delete(RULES).status == 204
        assert through(third, cluster, account).get("c/o").status == 200


def test_a_caller_without_access_does_not_learn_which_objects_rules_match(
    users: dict[str, Client],
) -> None:
    ward = make_ward(users)
    assert ward.admin.put("private").status == 201
    for name, headers in (("a", {"X-Object-Meta-Class": "secret"}), ("b", {})):
        assert ward.admin.put(f"private/{name}", CONTENT, headers).status == 201
    when = "when: {method: [GET, POST], metadata: {class: secret}}"
    requests: list[tuple[str, dict[str, str]]] = [
        ("GET", {}), ("HEAD", {}), ("COPY", {"Destination": "open/x"}), ("POST", {}),
        ("GET", {"Range": "bytes=0-1"}), ("GET", {"If-Match": "x"}),
        ("GET", {"X-Run-Storlet": "mark.py"}), ("GET", {"X-Storlet-Explain": "true"}),
    ]  # fmt: skip
    assert (
        ward.admin.post("storlet_rules", {"X-Container-Read": ward.researcher.user}).status == 204
    )
    for action in ("mandatory: true\n  run: mask.py", "mandatory: true\n  deny: secret"):
        ward.rule(f"version: 1\nrules:\n- name: hide\n  {when}\n  {action}\n", accept=True)
        for method, headers in requests:
            told = []
            for name in ("a", "b"):
                answer = ward.researcher.request(method, f"private/{name}", headers)
                told.append((answer.status, sorted(answer.headers.keys()), answer.body))
            assert told[0] == told[1], (action, method, headers)
            assert told[0][0] == 403, (action, method, headers)


@pytest.mark.parametrize("explain", [{}, {"X-Storlet-Explain": "true"}], ids=["plain", "explain"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_caller_without_access_gets_swifts_answer_without_the_name_of_a_rule(
    account: Client, users: dict[str, Client], method: str, explain: dict[str, str]
) -> None:
    stranger = users["test2:tester2"].on(account.account)
    without = stranger.request(method, "c/o", explain)
    assert account.put(RULES, denying("closed", "  mandatory: true\n")).status in (200, 201)
    answer = stranger.request(method, "c/o", explain)
    assert (answer.status, answer.body) == (without.status, without.body)
    assert answer.status == 403
    assert "X-Storlet-Rule" not in answer.headers
