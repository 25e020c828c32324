"""AES-256-GCM of the OpenSSL that Python itself has loaded; the sandbox needs no other library."""

from __future__ import annotations

import ctypes
import _hashlib
from ctypes import byref, c_char_p, c_int, c_void_p
from typing import Any

TAG_BYTES = 16
_GET_TAG, _SET_TAG = 0x10, 0x11

# The module is linked with libcrypto, whose functions are found through it.
_ssl = ctypes.CDLL(getattr(_hashlib, "__file__", None) or "libcrypto.so.3")
_new = _ssl.EVP_CIPHER_CTX_new
_new.restype, _new.argtypes = c_void_p, []
_cipher = _ssl.EVP_aes_256_gcm
_cipher.restype, _cipher.argtypes = c_void_p, []
_init = _ssl.EVP_CipherInit_ex
_init.restype = c_int
_init.argtypes = [c_void_p, c_void_p, c_void_p, c_char_p, c_char_p, c_int]
_update = _ssl.EVP_CipherUpdate
_update.restype, _update.argtypes = c_int, [c_void_p, c_void_p, c_void_p, c_char_p, c_int]
_final = _ssl.EVP_CipherFinal_ex
_final.restype, _final.argtypes = c_int, [c_void_p, c_void_p, c_void_p]
_control = _ssl.EVP_CIPHER_CTX_ctrl
_control.restype, _control.argtypes = c_int, [c_void_p, c_int, c_int, c_void_p]
_free = _ssl.EVP_CIPHER_CTX_free
_free.restype, _free.argtypes = None, [c_void_p]


class _Cipher:
    """A context with a key."""

    _seals: int

    def __init__(self, key: bytes) -> None:
        self._context = _new()
        if not self._context:
            raise MemoryError
        _require(_init(self._context, _cipher(), None, key, None, self._seals))

    def __del__(self) -> None:
        if self._context:
            _free(self._context)  # which erases the key

    def _updated(self, nonce: bytes, data: bytes) -> tuple[Any, int]:
        """A buffer with the changed data, and the place of its end."""
        out = ctypes.create_string_buffer(len(data) + TAG_BYTES)
        written = c_int()
        _require(_init(self._context, None, None, None, nonce, self._seals))
        if data:
            _require(_update(self._context, out, byref(written), data, len(data)))
        return out, ctypes.addressof(out) + written.value


class Sealer(_Cipher):
    """Encrypts chunks with one key; a nonce must not be used twice."""

    _seals = 1

    def seal(self, nonce: bytes, data: bytes) -> bytes:
        """The encrypted data with their tag."""
        out, end = self._updated(nonce, data)
        tag = ctypes.create_string_buffer(TAG_BYTES)
        _require(_final(self._context, end, byref(c_int())))
        _require(_control(self._context, _GET_TAG, TAG_BYTES, tag))
        return bytes(out.raw[: len(data)] + tag.raw)


class Opener(_Cipher):
    """Decrypts chunks with one key."""

    _seals = 0

    def open(self, nonce: bytes, sealed: bytes) -> bytes | None:
        """The data, or ``None`` if they have another tag."""
        if len(sealed) < TAG_BYTES:
            return None
        data, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
        out, end = self._updated(nonce, data)
        _require(_control(self._context, _SET_TAG, TAG_BYTES, tag))
        if _final(self._context, end, byref(c_int())) != 1:
            return None
        return bytes(out.raw[: len(data)])


def _require(result: int) -> None:
    if result != 1:
        raise RuntimeError("OpenSSL refuses the operation")
