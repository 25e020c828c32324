"""AES-256-GCM of the OpenSSL that Python itself has loaded; the sandbox needs no other library."""

from __future__ import annotations

import ctypes
import _hashlib
from ctypes import byref, c_char_p, c_int, c_void_p

TAG_BYTES = 16
_GET_TAG = 0x10

# The module is linked with libcrypto, whose functions are found through it.
_ssl = ctypes.CDLL(getattr(_hashlib, "__file__", None) or "libcrypto.so.3")
_new = _ssl.EVP_CIPHER_CTX_new
_new.restype, _new.argtypes = c_void_p, []
_cipher = _ssl.EVP_aes_256_gcm
_cipher.restype, _cipher.argtypes = c_void_p, []
_init = _ssl.EVP_EncryptInit_ex
_init.restype, _init.argtypes = c_int, [c_void_p, c_void_p, c_void_p, c_char_p, c_char_p]
_update = _ssl.EVP_EncryptUpdate
_update.restype, _update.argtypes = c_int, [c_void_p, c_void_p, c_void_p, c_char_p, c_int]
_final = _ssl.EVP_EncryptFinal_ex
_final.restype, _final.argtypes = c_int, [c_void_p, c_void_p, c_void_p]
_control = _ssl.EVP_CIPHER_CTX_ctrl
_control.restype, _control.argtypes = c_int, [c_void_p, c_int, c_int, c_void_p]
_free = _ssl.EVP_CIPHER_CTX_free
_free.restype, _free.argtypes = None, [c_void_p]


class Sealer:
    """Encrypts chunks with one key; a nonce must not be used twice."""

    def __init__(self, key: bytes) -> None:
        self._context = _new()
        if not self._context:
            raise MemoryError
        _require(_init(self._context, _cipher(), None, key, None))

    def __del__(self) -> None:
        if self._context:
            _free(self._context)  # which erases the key

    def seal(self, nonce: bytes, data: bytes) -> bytes:
        """The encrypted data with their tag."""
        out = ctypes.create_string_buffer(len(data) + TAG_BYTES)
        written, rest = c_int(), c_int()
        tag = ctypes.create_string_buffer(TAG_BYTES)
        _require(_init(self._context, None, None, None, nonce))
        if data:
            _require(_update(self._context, out, byref(written), data, len(data)))
        end = ctypes.addressof(out) + written.value
        _require(_final(self._context, end, byref(rest)))
        _require(_control(self._context, _GET_TAG, TAG_BYTES, tag))
        return out.raw[: len(data)] + tag.raw


def _require(result: int) -> None:
    if result != 1:
        raise RuntimeError("OpenSSL refuses to encrypt")
