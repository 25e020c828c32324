"""Objects of Parquet that the engine of the tests cannot write, made by another writer."""

from __future__ import annotations

import base64
import zlib

#: A column ``id``, and a column ``d`` of the type DECIMAL(60, 2) with the value 1.5.
WIDE_DECIMAL = zlib.decompress(
    base64.b64decode(
        "eNoLcAwyFGUQFREV0RFlAjLYRNlkGBgYmECYkRFIAsUcRB2wSDLgAtNEWSRtTBkk2IqTM1JzE0VZGESZVJkkmDJTGE"
        "T5RE1EmSQYU1S5RFlEK3RiQCRQixiTpIykjhqDjCiTpCobgyRIsShQVMxKzEqNw1NGFOQMJgYbTTZJNbD1IKV8EKWM"
        "EJVpYmlqTlhUii1gFGNS4wBSDBoKBYlFhaWpJbrJBQW6iUVF+eUKZalFxZn5eQpGZnoGeoaSOkD/gbx4GIgDgEEDAC"
        "+cI8I="
    )
)
#: A timestamp ``t`` of the type INT96, with nanoseconds.
INT96 = zlib.decompress(
    base64.b64decode(
        "eNoLcAwyFGUQVRFV0RFlAjLYRNlkGBgYmECYUfT/iiXcXAwMj1tUGUSZJHVMGSTYipMzUnMTRZmASlWZJBhLGMSYJG"
        "UkZdQYZETZJFXZGCSBYqJAQTEvMS81Dk8ZoJlAvQw2mmySamBjgRJMahxiXgwaCgWJRYWlqSW6yQUFuolFRfnlCmWp"
        "RcWZ+XkKRmZ6BnqGkjIgt1QBcQDQmQCR9Bzq"
    )
)


def in_utc(local: bytes) -> bytes:
    """An object whose timestamps and times with nanoseconds are in UTC, which the engine of the
    tests does not write.

    :param local: the object with local ones.
    """
    changed = local
    for kind in (b"\x8c", b"\x7c"):
        changed = changed.replace(kind + b"\x12\x1c\x3c\0\0\0\0", kind + b"\x11\x1c\x3c\0\0\0\0")
    assert changed != local
    return changed
