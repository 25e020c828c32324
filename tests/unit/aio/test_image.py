"""The build context of the sandbox image."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_middleware.aio import image


class Api:
    """An engine without images; keeps the names in the context of the last build."""

    names: list[str]

    def image_id(self, name: str) -> str | None:
        return None

    def build(self, context: Iterator[bytes], tag: str, arguments: dict[str, str]) -> None:
        with tarfile.open(fileobj=io.BytesIO(b"".join(context))) as tar:
            self.names = tar.getnames()

    def tag(self, image: str, name: str, tag: str) -> None:
        """Nothing to do."""

    def tags(self, repository: str) -> list[str]:
        return []


@pytest.fixture
def cobol(tmp_path: Path) -> Path:
    """The built files of a made-up language, and a sample."""
    for name in ("runtime.so", "make-archive.sh", "samples/payroll.cob"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_the_context_has_the_daemon_and_the_parts_of_each_language(cobol: Path) -> None:
    api = Api()
    image.build(api, {"cobol": cobol})  # type: ignore[arg-type]
    assert "Dockerfile" in api.names
    assert "lib/python/storlet_daemon/__main__.py" in api.names
    parts = [name for name in api.names if name.startswith("lib/cobol/")]
    assert parts == ["lib/cobol/make-archive.sh", "lib/cobol/runtime.so"]


def test_sources_that_are_built_are_not_part_of_the_image(cobol: Path) -> None:
    api = Api()
    image.build(api, {"cobol": cobol})  # type: ignore[arg-type]
    assert not [name for name in api.names if "/storlet_daemon/java/" in name]


def test_the_image_has_another_name_with_the_parts_of_another_language(cobol: Path) -> None:
    names = {image.build(Api(), parts) for parts in ({}, {"cobol": cobol}, {"algol": cobol})}  # type: ignore[arg-type]
    assert len(names) == 3
