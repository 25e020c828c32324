"""Encrypts the values of secrets: AES-256-GCM, each value bound to its account and name.

The key of a value comes from

1. Swift's keymaster, if the pipeline has one: its key of the object that holds the secret; or
2. the first key of ``[secrets] key_file``.

A sealed value names its key, so values that were sealed before a keymaster was added, or before a
new key became the first one, can be opened.  Without either there is no encryption and no secret:
:data:`~storlet_middleware.errors.SECRETS_OFF`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from swift.common.exceptions import EncryptionException

from storlet_middleware import errors
from storlet_middleware.config import ConfigError
from storlet_middleware.errors import StorletError

#: Swift's ``swift.callback.fetch_crypto_keys``.
FetchKeys = Callable[..., Mapping[str, Any]]

_VERSION: Final = 1
_NONCE_BYTES: Final = 12
_LEAST_KEY_BYTES: Final = 32
#: Keys of the keymaster also encrypt objects, so a secret has a key derived from one.
_PURPOSE: Final = b"swift-storlets/secrets/1"
_ID_PURPOSE: Final = b"swift-storlets/secrets/1/id"
_OFF: Final = (
    "this cluster has no key for secrets: its operator sets [secrets] key_file, or adds Swift's"
    " keymaster to the pipeline of the proxy servers"
)


class Sealing:
    """Seals and opens values.

    :param keys: of ``[secrets] key_file``; the first one seals.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {_id_of(key): _derived(key) for key in keys}

    def seal(self, place: str, value: bytes, fetch: FetchKeys | None) -> bytes:
        """The sealed ``value``, as JSON.

        :param place: of the secret; only there the result can be opened.
        :param fetch: of Swift's keymaster; ``None`` without one.
        :raises StorletError: the cluster has no key, or the keymaster fails.
        """
        used, key = self._key_to_seal(fetch)
        nonce = os.urandom(_NONCE_BYTES)
        sealed = AESGCM(key).encrypt(nonce, value, _bound(place))
        fields = {"version": _VERSION, "key": used, "nonce": _text(nonce), "sealed": _text(sealed)}
        return json.dumps(fields).encode()

    def open(self, place: str, data: bytes, fetch: FetchKeys | None) -> bytes:
        """The value in ``data``, which :meth:`seal` has made for ``place``.

        :raises StorletError: the key is missing, or ``data`` were changed.
        """
        try:
            fields = json.loads(data)
            key = self._key_to_open(fields, fetch)
            nonce, sealed = _bytes(fields["nonce"]), _bytes(fields["sealed"])
            return AESGCM(key).decrypt(nonce, sealed, _bound(place))
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            RecursionError,
            InvalidTag,
        ) as error:
            raise _unreadable(f"the stored value is damaged ({type(error).__name__})") from error

    def _key_to_seal(self, fetch: FetchKeys | None) -> tuple[dict[str, Any], bytes]:
        if fetch is not None:
            key_id, key = _fetched(fetch)
            return {"keymaster": key_id}, _derived(key)
        if not self._keys:
            raise StorletError(_OFF, code=errors.SECRETS_OFF)
        known, key = next(iter(self._keys.items()))
        return {"file": known}, key

    def _key_to_open(self, fields: Mapping[str, Any], fetch: FetchKeys | None) -> bytes:
        if fields["version"] != _VERSION:
            raise _unreadable("another release has stored it")
        used = fields["key"]
        if "file" in used:
            key = self._keys.get(str(used["file"]))
            if key is None:
                raise _unreadable("its key is not in [secrets] key_file")
            return key
        if fetch is None:
            raise _unreadable("the pipeline of this proxy server has no keymaster")
        return _derived(_fetched(fetch, used["keymaster"])[1])


def read_keys(path: str) -> list[bytes]:
    """The keys of ``[secrets] key_file``: one a line, in base64; none if ``path`` is empty.

    :raises ConfigError: the file cannot be used; no key is in the text.
    """
    if not path:
        return []
    where = f"[secrets] key_file = {path}"
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            lines = file.read().splitlines()
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror}") from None
    if mode & stat.S_IRWXO:
        raise ConfigError(f"{where}: other users may read or write it: chmod o-rwx")
    keys = [_key(where, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not keys:
        raise ConfigError(f"{where}: there is no key in it: want one a line, in base64")
    return keys


def _key(where: str, number: int, line: bytes) -> bytes:
    try:
        key = base64.b64decode(line.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) < _LEAST_KEY_BYTES:
        wanted = f"want at least {_LEAST_KEY_BYTES} random bytes in base64"
        raise ConfigError(f"{where}: line {number}: {wanted}, as by 'openssl rand -base64 32'")
    return key


def _fetched(fetch: FetchKeys, key_id: Any = None) -> tuple[Any, bytes]:
    """The keymaster's key of the object that holds the secret, with its id."""
    try:
        keys = fetch() if key_id is None else fetch(key_id)
        return keys["id"], bytes(keys["object"])
    except (EncryptionException, KeyError, ValueError) as error:
        raise _unreadable(f"the keymaster has no key ({type(error).__name__})") from error


def _unreadable(why: str) -> StorletError:
    return StorletError(f"the secret cannot be decrypted: {why}", code=errors.SECRETS_UNREADABLE)


def _derived(key: bytes) -> bytes:
    return hmac.digest(key, _PURPOSE, hashlib.sha256)


def _id_of(key: bytes) -> str:
    return hmac.digest(key, _ID_PURPOSE, hashlib.sha256).hex()[:16]


def _bound(place: str) -> bytes:
    return _PURPOSE + b"\0" + place.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
