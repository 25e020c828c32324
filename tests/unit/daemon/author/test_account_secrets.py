"""The author's view of the account's secrets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storlet_daemon.author import account_secrets


@pytest.fixture(autouse=True)
def no_run() -> Iterator[None]:
    yield
    account_secrets.end()


def test_a_run_has_its_secrets_from_its_start_to_its_end() -> None:
    account_secrets.begin({"b": b"\xff value", "a": b"another"})
    assert account_secrets.get("b") == b"\xff value"
    assert account_secrets.names() == ["a", "b"]
    account_secrets.end()
    assert account_secrets.names() == []
    with pytest.raises(account_secrets.SecretError, match="declares: none"):
        account_secrets.get("b")


def test_an_unknown_name_is_an_error_with_the_known_names_and_without_values() -> None:
    account_secrets.begin({"export-key": b"a value"})
    with pytest.raises(LookupError) as caught:
        account_secrets.get("exportkey")
    assert str(caught.value) == (
        "this run has no secret 'exportkey'; the storlet declares: export-key"
        " (X-Object-Meta-Storlet-Secrets)"
    )
