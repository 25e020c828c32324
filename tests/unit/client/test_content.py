"""The content of a file for an upload."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import tracemalloc
from pathlib import Path

import pytest

from storlet_client import AsyncStorlets, ConfigurationError, FileContent, Manifest, Tempauth
from storlet_client import content as contents
from storlet_client.content import SMALL_BYTES, content_of, md5_of, opened, size_of
from storlet_client.transport import PART_BYTES
from tests.unit.client.server import Reply, Server
from tests.unit.client.test_operations import META


def test_a_long_file_is_not_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.touch()
    os.truncate(file, 5 * SMALL_BYTES)
    tracemalloc.start()
    content = content_of(file)
    assert isinstance(content, FileContent)
    assert sum(map(len, content)) == content.size == 5 * SMALL_BYTES
    assert tracemalloc.get_traced_memory()[1] < 2 * SMALL_BYTES
    tracemalloc.stop()
    assert max(map(len, content)) <= PART_BYTES


def test_a_short_file_and_a_pipe_are_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert content_of(tmp_path / "a") == b"abc"
    monkeypatch.setattr(contents, "SMALL_BYTES", 2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"abcdef",))
    writer.start()
    found = content_of(pipe)
    writer.join()
    assert found == b"abcdef"


def test_both_kinds_have_the_same_hash_and_can_be_opened(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    for content in (b"abc", FileContent(tmp_path / "a")):
        assert md5_of(content) == hashlib.md5(b"abc", usedforsecurity=False).hexdigest()
        with opened(content) as file:
            assert file.read() == b"abc"


@pytest.mark.parametrize("now", [b"ab", b"abcd"])
def test_a_file_that_changes_its_size_is_no_upload(tmp_path: Path, now: bytes) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    content = FileContent(tmp_path / "a")
    (tmp_path / "a").write_bytes(now)
    with pytest.raises(ConfigurationError, match="a has changed while it was sent"):
        list(content)


def test_it_is_sent_again_after_a_failure_without_asyncio_and_with_it(
    server: Server, credentials: Tempauth, tmp_path: Path
) -> None:
    (tmp_path / "tool").write_bytes(bytes(range(256)) * (PART_BYTES // 100))
    content = FileContent(tmp_path / "tool")
    server.on("HEAD", "/storlet/tool", Reply(200, {**META, "ETag": content.md5}))

    async def deploy() -> None:
        async with AsyncStorlets(credentials) as storlets:
            await storlets.deploy("tool", content, Manifest("tool", "native"))

    server.on("PUT", "/storlet/tool", Reply(503, {"Retry-After": "0"}), Reply(201))
    asyncio.run(deploy())
    sent = [one for one in server.received if one.method == "PUT"]
    assert [one.body for one in sent] == [(tmp_path / "tool").read_bytes()] * 2
    assert sent[1].headers["content-length"] == str(content.size)
    assert sent[1].headers["etag"] == content.md5


def test_the_size_of_a_content_is_known(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"abc")
    assert size_of(FileContent(tmp_path / "tool")) == size_of(b"abc") == 3
