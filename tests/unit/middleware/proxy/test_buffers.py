"""The memory of results that wait to be stored: sums of accounts and of the process."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_middleware.errors import StorletError
from storlet_middleware.proxy.buffers import Buffers

ACCOUNT_BYTES, PROCESS_BYTES = 100, 250
STEPS = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(["add", "remove", "clear"]), st.integers(1, 60)),
    max_size=80,
)


@given(steps=STEPS)
def test_the_sums_are_those_of_the_shares_and_never_above_a_limit(
    steps: list[tuple[int, str, int]],
) -> None:
    buffers = Buffers(ACCOUNT_BYTES, PROCESS_BYTES)
    shares = [
        (f"account {number % 4}", buffers.share(f"account {number % 4}")) for number in range(8)
    ]
    held = [0] * len(shares)
    for number, do, count in steps:
        account, share = shares[number]
        of_account = sum(
            size for (name, _), size in zip(shares, held, strict=True) if name == account
        )
        assert share.is_short == (2 * of_account > ACCOUNT_BYTES or 2 * sum(held) > PROCESS_BYTES)
        if do == "add":
            others = sum(held) - of_account
            room = (PROCESS_BYTES - others) // 2 if others else PROCESS_BYTES
            fits = of_account + count <= min(ACCOUNT_BYTES, room)
            if fits:
                share.add(count)
                held[number] += count
            else:
                with pytest.raises(StorletError, match="buffer_bytes"):
                    share.add(count)
        elif do == "remove":
            share.remove(count)
            held[number] = max(0, held[number] - count)
        else:
            share.clear()
            held[number] = 0
        assert buffers._sum == sum(held)
    for _, share in shares:
        share.clear()
        share.clear()
    assert (buffers._used, buffers._sum) == ({}, 0)


def test_the_account_is_named_before_the_process() -> None:
    buffers = Buffers(2 << 20, 3 << 20)
    buffers.share("a").add(2 << 20)
    with pytest.raises(StorletError, match=r"fill their 2 MiB .*retry with fewer runs") as caught:
        buffers.share("a").add(2 << 20)
    assert (caught.value.code, caught.value.status) == ("tenant.busy", 429)
    with pytest.raises(StorletError, match="fill their 3 MiB") as caught:
        buffers.share("b").add(2 << 20)
    assert (caught.value.code, caught.value.status) == ("node.busy", 503)


def test_no_number_of_accounts_takes_all() -> None:
    buffers = Buffers(100, 200)
    for number in range(5):
        share = buffers.share(f"account {number}")
        with pytest.raises(StorletError, match="buffer_bytes"):  # noqa: PT012
            while True:
                share.add(1)
    buffers.share("another").add(1)


def test_an_account_alone_may_have_all() -> None:
    Buffers(100, 100).share("a").add(100)
