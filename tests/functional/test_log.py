"""X-Storlet-Generate-Log: the complete log of an invocation becomes an object, even if the storlet
fails."""

from __future__ import annotations

import pytest

from tests.support.accounts import unique
from tests.support.http import Answer, Client
from tests.support.storlets import Tool
from tests.support.waiting import retry_until

WANTED = {"X-Storlet-Generate-Log": "True"}


def log_of(owner: Client, tool: Tool, answer: Answer) -> str:
    path = f"storletlog/{tool.storlet}/{answer.headers['X-Storlet-Invocation']}.log"
    found = retry_until(lambda: (got := owner.get(path)).status == 200 and got)
    assert found, (
        f"no {path}; there are {[e['name'] for e in owner.listing('storletlog', prefix=tool.storlet)]}"
    )
    return str(found.text)


def test_a_get_stores_its_log(tool: Tool, owner: Client, plain: str, content: bytes) -> None:
    word = unique("word")
    answer = tool.get(plain, headers=WANTED, log=f"said {word}")
    assert (answer.status, answer.body) == (200, content)
    assert f"said {word}" in log_of(owner, tool, answer)


@pytest.mark.parametrize("after", ["0", "3000000"])
def test_the_log_of_a_failure_has_the_traceback(
    tool: Tool, owner: Client, plain: str, after: str
) -> None:
    word = unique("word")
    answer = tool.get(
        plain, "fail", WANTED, log="before it failed", word=word, after=after, pause="0.5"
    )
    text = log_of(owner, tool, answer)
    assert "before it failed" in text
    assert f"fails on purpose: {word}" in text


def test_a_put_and_a_copy_store_their_logs(
    either: Tool, owner: Client, plain: str, container: str
) -> None:
    put = either.put(f"{container}/o", b"x", "upper", WANTED, log="of a put")
    copy = either.copy(plain, f"/{container}/o2", "upper", WANTED, log="of a copy")
    assert (put.status, copy.status) == (201, 201)
    assert "of a put" in log_of(owner, either, put)
    assert "of a copy" in log_of(owner, either, copy)


def test_a_failed_put_stores_its_log(either: Tool, owner: Client, container: str) -> None:
    answer = either.put(f"{container}/o", b"x", "fail", WANTED, log="of a failed put")
    assert answer.status == 422
    assert "of a failed put" in log_of(owner, either, answer)


def test_a_log_is_complete_up_to_its_limit_and_marks_the_cut(
    anywhere: Tool, owner: Client, plain: str
) -> None:
    long = "y" * 5000
    answer = anywhere.client.get(
        plain,
        anywhere.headers(WANTED | {"X-Storlet-Parameter-1": f"log:{long}"}),
        query="do=identity",
    )
    assert answer.status == 200
    assert long in log_of(owner, anywhere, answer)


def test_a_log_is_truncated_at_its_limit_and_the_storlet_continues(
    anywhere: Tool, owner: Client, plain: str, content: bytes
) -> None:
    answer = anywhere.get(plain, headers=WANTED, log="z" * 1000, times="3000")
    assert (answer.status, answer.body) == (200, content)
    text = log_of(owner, anywhere, answer)
    assert 900_000 < len(text) <= 1_048_576 + 200
    assert "log truncated at 1048576 bytes" in text[-200:]


def test_no_log_without_the_header(any_tool: Tool, owner: Client, plain: str) -> None:
    answer = any_tool.get(plain, log="unwanted")
    name = f"{any_tool.storlet}/{answer.headers['X-Storlet-Invocation']}.log"
    assert owner.get(f"storletlog/{name}").status == 404


def test_the_log_is_complete_when_the_answer_has_ended(
    tool: Tool, owner: Client, plain: str
) -> None:
    """OpenStack Storlets uploads the log before the storlet ends; here it must include the last
    lines."""
    answer = tool.get(plain, "identity", WANTED, log="first", late="said after the output")
    text = log_of(owner, tool, answer)
    assert "first" in text
    assert "said after the output" in text


def test_a_value_that_is_neither_true_nor_false_is_refused(any_tool: Tool, plain: str) -> None:
    assert any_tool.get(plain, headers={"X-Storlet-Generate-Log": "perhaps"}).status == 400
