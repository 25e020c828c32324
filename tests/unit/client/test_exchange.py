"""Calls and their URLs."""

from __future__ import annotations

import pytest

from storlet_client.exchange import Call, together


def test_a_target_is_quoted_below_the_account() -> None:
    call = Call("GET", ("c d", "a/b?c#d\u00e9"), query=(("k", "a b"),))
    assert call.target("http://h/v1/A") == "http://h/v1/A/c%20d/a/b%3Fc%23d%C3%A9?k=a+b"


def test_a_url_outside_the_account_stays() -> None:
    assert Call("GET", url="http://h/info").target("http://h/v1/A") == "http://h/info"


def test_only_bytes_can_be_sent_again() -> None:
    assert Call("PUT", body=b"x").can_repeat
    assert Call("GET").can_repeat
    assert not Call("PUT", body=iter([b"x"])).can_repeat


@pytest.mark.parametrize("url", ["", "http://h/v1/A/c/o"], ids=["of a flow", "of a session"])
def test_a_call_that_runs_streams_or_stores_may_take_long(url: str) -> None:
    path = ("c", "o")
    assert Call("GET", path, url=url).is_quick
    assert Call("POST", path, url=url, body=b"").is_quick
    assert not Call("GET", path, url=url, is_streamed=True).is_quick
    assert not Call("PUT", path, url=url, body=b"x").is_quick
    assert not Call("POST", (), {"X-Run-Storlet": "s.py"}, url=url).is_quick


def test_a_login_is_quick() -> None:
    assert Call("POST", url="http://h/v3/auth/tokens", body=b"{}").is_quick


def test_no_flows_need_no_step() -> None:
    with pytest.raises(StopIteration) as end:
        next(together([]))
    assert end.value.value == []
