"""``std:xor``, ``std:bitrev``, ``std:delay``: filters for tests and measurements."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet

XOR, BITREV, DELAY = (LibraryStorlet(name) for name in ("xor", "bitrev", "delay"))
DATA = bytes(range(256)) * 3000


@given(
    data=st.binary(max_size=100),
    key=st.binary(min_size=1, max_size=64),
    block=st.integers(1, 70),
)
def test_each_byte_is_combined_with_the_repeated_key(data: bytes, key: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(XOR.module, "BLOCK_BYTES", block)
        output = XOR.run(data, {"key": key.hex()}).output
    assert output == bytes(byte ^ key[place % len(key)] for place, byte in enumerate(data))


@pytest.mark.parametrize("key", ["5a", "000000", "0123456789abcdef", "FF" * 64])
def test_the_same_key_gives_the_object_back(key: str) -> None:
    ran = XOR.run(DATA, {"key": key}, {"Colour": "red"})
    assert XOR.run(ran.output, {"key": key}).output == DATA
    assert ran.metadata == {"Colour": "red"}


@pytest.mark.parametrize("key", ["", "0", "0x11", "zz", "00" * 65, "01 02"])
def test_another_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ValueError, match="key: ") as caught:
        XOR.run(DATA, {"key": key})
    assert str(caught.value) == "key: want pairs of hexadecimal digits, 1 to 64 bytes"


def test_bits_are_reversed() -> None:
    output = BITREV.run(DATA, {}).output
    assert output == bytes(int(f"{byte:08b}"[::-1], 2) for byte in DATA)
    assert BITREV.run(output, {}).output == DATA


@pytest.mark.parametrize("per", ["run", "mib"])
def test_the_delay_waits_and_uses_the_cpu(per: str) -> None:
    data, real, used = bytes(1 << 20), time.monotonic(), time.thread_time()
    given = {"latency-ms": "100", "cpu-ms": "50", "per": per}
    assert DELAY.run(data, given).output == data
    assert time.thread_time() - used >= 0.05
    assert time.monotonic() - real >= 0.15


def test_without_a_delay_the_object_is_copied() -> None:
    ran = DELAY.run(DATA, {}, {"Colour": "red"})
    assert (ran.output, ran.metadata) == (DATA, {"Colour": "red"})
