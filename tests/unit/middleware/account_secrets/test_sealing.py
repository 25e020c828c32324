"""Values are encrypted with a key of the cluster, and bound to their account and name."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swift.common.exceptions import UnknownSecretIdError

from storlet_middleware.account_secrets.sealing import Sealing, read_keys
from storlet_middleware.config import ConfigError
from storlet_middleware.errors import StorletError

PLACE, VALUE = "AUTH_a/name", b"the value of a secret"
ONE, OTHER = b"1" * 32, b"2" * 40


class Keymaster:
    """Swift's callback, with a key for each id of a root secret."""

    def __init__(self, current: str = "a") -> None:
        self.current = current

    def __call__(self, key_id: Any = None) -> Mapping[str, Any]:
        secret = (key_id or {"secret_id": self.current})["secret_id"]
        if secret not in "abc":
            raise UnknownSecretIdError(secret)
        return {"id": {"v": "2", "secret_id": secret}, "object": secret.encode() * 32}


def failure(sealing: Sealing, data: bytes, place: str = PLACE, fetch: Any = None) -> StorletError:
    with pytest.raises(StorletError) as caught:
        sealing.open(place, data, fetch)
    assert VALUE.decode() not in str(caught.value)
    return caught.value


@given(value=st.binary(max_size=5000))
def test_a_sealed_value_is_opened_and_not_legible(value: bytes) -> None:
    sealing = Sealing([ONE])
    sealed = sealing.seal(PLACE, value, None)
    assert sealing.open(PLACE, sealed, None) == value
    assert len(value) < 4 or value not in sealed
    assert sealing.seal(PLACE, value, None) != sealed


def test_a_sealed_value_of_another_place_cannot_be_opened() -> None:
    sealing = Sealing([ONE])
    sealed = sealing.seal(PLACE, VALUE, None)
    for place in ("AUTH_a/other", "AUTH_b/name"):
        error = failure(sealing, sealed, place)
        assert (error.code, error.status) == ("secrets.unreadable", 503)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_an_error(at: int, change: int) -> None:
    sealing = Sealing([ONE])
    sealed = bytearray(sealing.seal(PLACE, VALUE, None))
    sealed[at % len(sealed)] ^= change
    try:
        opened = sealing.open(PLACE, bytes(sealed), None)
    except StorletError as error:
        opened, code = VALUE, error.code
    else:
        code = "secrets.unreadable"  # a byte without a meaning, such as white space of the JSON
    assert (opened, code) == (VALUE, "secrets.unreadable")


def test_the_first_key_seals_and_all_open() -> None:
    sealed = Sealing([ONE]).seal(PLACE, VALUE, None)
    assert Sealing([OTHER, ONE]).open(PLACE, sealed, None) == VALUE
    newer = Sealing([OTHER, ONE]).seal(PLACE, VALUE, None)
    assert "not in [secrets] key_file" in str(failure(Sealing([ONE]), newer))


def test_a_keymaster_comes_first_and_values_of_the_file_stay_readable() -> None:
    old = Sealing([ONE]).seal(PLACE, VALUE, None)
    sealing, keymaster = Sealing([ONE]), Keymaster()
    sealed = sealing.seal(PLACE, VALUE, keymaster)
    assert json.loads(sealed)["key"] == {"keymaster": {"v": "2", "secret_id": "a"}}
    assert sealing.open(PLACE, old, keymaster) == VALUE
    assert "has no keymaster" in str(failure(sealing, sealed))


def test_a_value_is_opened_after_the_root_secret_was_rotated() -> None:
    sealed = Sealing([]).seal(PLACE, VALUE, Keymaster("a"))
    assert Sealing([]).open(PLACE, sealed, Keymaster("b")) == VALUE
    lost = sealed.replace(b'"secret_id": "a"', b'"secret_id": "z"')
    assert "UnknownSecretIdError" in str(failure(Sealing([]), lost, fetch=Keymaster()))


def test_without_any_key_nothing_is_sealed() -> None:
    with pytest.raises(StorletError, match="key_file") as caught:
        Sealing([]).seal(PLACE, VALUE, None)
    assert (caught.value.code, caught.value.status) == ("secrets.off", 501)


DAMAGED = [
    b"",
    b"[]",
    b"{}",
    b'{"version": 2}',
    b"\xff",
    b"[" * 100_000,
    b'{"version": 1, "key": "file"}',
    b'{"version": 1, "key": {"keymaster": "text"}}',
]


@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
def test_data_of_another_form_are_an_error(data: bytes) -> None:
    for fetch in (None, Keymaster()):
        assert failure(Sealing([ONE]), data, fetch=fetch).code == "secrets.unreadable"


# --- the file -------------------------------------------------------------------------------------


def key_file(folder: Path, text: bytes, mode: int = 0o640) -> str:
    path = folder / "keys"
    path.write_bytes(text)
    path.chmod(mode)
    return str(path)


def test_the_file_has_a_key_on_each_line(tmp_path: Path) -> None:
    lines = b"\n".join(base64.b64encode(key) for key in (ONE, OTHER))
    assert read_keys(key_file(tmp_path, lines + b"\n\n")) == [ONE, OTHER]
    assert read_keys("") == []


@pytest.mark.parametrize(
    ("text", "mode", "expected"),
    [
        (b"", 0o600, "there is no key in it"),
        (base64.b64encode(b"short"), 0o600, "line 1: want at least 32 random bytes in base64"),
        (b"\nnot*base64" * 9, 0o600, "line 2: want at least 32"),
        (base64.b64encode(ONE), 0o644, "other users may read or write it: chmod o-rwx"),
    ],
)
def test_a_wrong_file_is_a_fault_that_does_not_show_it(
    tmp_path: Path, text: bytes, mode: int, expected: str
) -> None:
    path = key_file(tmp_path, text, mode)
    with pytest.raises(ConfigError) as caught:
        read_keys(path)
    assert str(caught.value).startswith(f"[secrets] key_file = {path}: ")
    assert expected in str(caught.value)
    assert not text or text.decode().strip() not in str(caught.value)


def test_a_missing_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_keys(str(tmp_path / "none"))
