"""Calls and their URLs."""

from __future__ import annotations

from storlet_client.exchange import Call


def test_a_target_is_quoted_below_the_account() -> None:
    call = Call("GET", ("c d", "a/b?c#d\u00e9"), query=(("k", "a b"),))
    assert call.target("http://h/v1/A") == "http://h/v1/A/c%20d/a/b%3Fc%23d%C3%A9?k=a+b"


def test_a_url_outside_the_account_stays() -> None:
    assert Call("GET", url="http://h/info").target("http://h/v1/A") == "http://h/info"


def test_only_bytes_can_be_sent_again() -> None:
    assert Call("PUT", body=b"x").can_repeat
    assert Call("GET").can_repeat
    assert not Call("PUT", body=iter([b"x"])).can_repeat
