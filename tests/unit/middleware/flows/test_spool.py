"""Intermediate results: in memory, in a file without a name, within their bounds."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.errors import InternalError, NodeBusy, TenantBusy, Unprocessable
from storlet_middleware.flows.spool import Budget, Space, Spool
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import make_config, open_descriptors

ACCOUNT = "AUTH_a"
LARGE = 200_000


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return Space(tmp_path / "state" / "spool", 1 << 20, Logger())


@pytest.fixture
def budget(space: Space) -> Budget:
    return Budget(1 << 20, space, ACCOUNT)


def files(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob("*") if path.is_file()]


@pytest.mark.parametrize("size", [0, 1, 16 << 10, LARGE])
def test_written_data_are_read(budget: Budget, space: Space, size: int) -> None:
    before = open_descriptors()
    spool = Spool(budget)
    for start in range(0, size, 1000):
        spool.write(b"%4d" % start * 250 if start + 1000 <= size else b"x" * (size - start))
    assert spool.size == budget.used_bytes == space.used_bytes == len(b"".join(spool.chunks()))
    assert b"".join(spool.chunks()) == b"".join(spool)
    spool.close()
    spool.close()
    assert (budget.used_bytes, space.used_bytes, open_descriptors()) == (0, 0, before)


def test_a_file_has_no_name_and_ends_with_its_descriptor(budget: Budget, tmp_path: Path) -> None:
    before = open_descriptors()
    spools = [Spool(budget) for _ in range(2)]
    for spool in spools:
        spool.write(b"x" * LARGE)
    assert open_descriptors() == before + 2
    assert files(tmp_path) == []
    for spool in spools:
        spool.close()
    assert open_descriptors() == before


def test_all_spools_of_a_request_share_its_budget(space: Space) -> None:
    budget = Budget(10, space, ACCOUNT)
    one, other = Spool(budget), Spool(budget)
    one.write(b"123456")
    with pytest.raises(Unprocessable, match="more than 10 bytes"):
        other.write(b"12345")
    one.close()
    other.write(b"12345")


def test_an_account_has_half_of_the_space_that_others_leave(tmp_path: Path) -> None:
    space = Space(tmp_path, 20, Logger())
    first, second = (Spool(Budget(100, space, ACCOUNT)) for _ in range(2))
    first.write(b"x" * 6)
    with pytest.raises(TenantBusy, match="more than 10 bytes"):
        second.write(b"x" * 5)
    others = [Spool(Budget(100, space, name)) for name in ("AUTH_b", "AUTH_c")]
    others[0].write(b"x" * 7)
    with pytest.raises(NodeBusy, match="no space for more"):
        others[0].write(b"x")
    # Half of the rest is never nothing.
    others[1].write(b"x" * 3)
    for spool in (first, second, *others):
        spool.close()
    assert space.used_bytes == 0


@pytest.mark.parametrize("after", [0, LARGE])
def test_a_full_disk_is_a_clear_error(
    budget: Budget, space: Space, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    before, written = open_descriptors(), 0
    real = os.write

    def write(fd: int, data: Any) -> int:
        nonlocal written
        if written >= after:
            raise OSError(errno.ENOSPC, "No space left on device")
        # A disk that becomes full accepts a part.
        count = real(fd, data[:50_000])
        written += count
        return count

    spool = Spool(budget)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(NodeBusy, match="its disk is full") as caught:
            spool.write(b"x" * (LARGE + 1))
    assert (caught.value.code, caught.value.status) == ("node.busy", 503)
    spool.close()
    assert (space.used_bytes, open_descriptors()) == (0, before)
    logger: Any = space._logger
    assert "intermediate results cannot be stored in" in logger.text


def test_a_directory_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    logger = Logger()
    spool = Spool(Budget(1 << 20, Space(tmp_path / "file", 1 << 20, logger), ACCOUNT))
    with pytest.raises(NodeBusy, match="cannot be stored at this server: Not a directory"):
        spool.write(b"x" * LARGE)
    assert str(tmp_path / "file") in logger.text
    spool.close()


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_result_is_never_shorter_than_it_was(budget: Budget, size: int) -> None:
    spool = Spool(budget)
    spool.write(b"x" * size)
    if size == LARGE:
        os.ftruncate(spool._file.fileno(), size - 1)
        with pytest.raises(InternalError, match="is missing on the disk"):
            list(spool.chunks())
        chunks = spool.chunks()
        next(chunks)
        spool.close()
        with pytest.raises(InternalError, match="ended while it was read"):
            list(chunks)
    spool.close()
    with pytest.raises(InternalError, match="read after its end"):
        list(spool.chunks())


def test_the_directory_is_an_option(tmp_path: Path) -> None:
    by_default = Space.of(make_config(tmp_path), Logger())
    assert by_default._directory == tmp_path / "spool"
    own = make_config(tmp_path, library__distributed_spool_dir="/srv/spool")
    assert Space.of(own, Logger())._directory == Path("/srv/spool")
