"""Readers of option values: text in, value out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storlet_middleware.config import Mount, parse, readers
from storlet_middleware.config.readers import read_mounts


@pytest.mark.parametrize(
    ("text", "value"), [("1024", 1024), ("64K", 65536), ("1 MiB", 1 << 20), ("2g", 2 << 30)]
)
def test_sizes_take_units(text: str, value: int) -> None:
    assert parse(f"[limits]\ncode_bytes = {text}").limits.code_bytes == value


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/run",
        "/var/lib/storlets",
        "/var/lib/storlets/x",
        "//run/storlets/",
        "/tmp/x",
        "/proc",
        "/usr/local",
    ],
)
def test_no_mount_covers_a_path_of_the_sandbox(target: str) -> None:
    with pytest.raises(ValueError, match=r"is its own|want host directories"):
        read_mounts(f"/srv/x:{target}:rw")


def test_the_target_of_a_mount_is_normalized_like_the_kernels() -> None:
    (mount,) = read_mounts("/srv/out:/out//deep/:rw")
    assert mount.target == "/out/deep"


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (readers.read_text, "  a b ", "a b"),
        (readers.read_name, " runc ", "runc"),
        (readers.read_count, " 12 ", 12),
        (readers.read_seconds, "0.5", 0.5),
        (readers.read_cpus, "0", 0.0),
        (readers.read_memory, "75 %", 0.75),
        (readers.read_memory, "12G", 12 << 30),
        (readers.read_languages, "python:3.11/3.12, java:17",
         {"python": ("3.11", "3.12"), "java": ("17",)}),
        (readers.read_list, " a ,, b,", ("a", "b")),
        (readers.read_weights, "AUTH_a:2, AUTH:b:0.5", {"AUTH_a": 2.0, "AUTH:b": 0.5}),
        (readers.read_mounts, "/srv/a:/a", (Mount("/srv/a", "/a", is_writable=False),)),
    ],
)  # fmt: skip
def test_values_that_are_read(reader: Callable[[str], object], text: str, value: object) -> None:
    assert reader(text) == value


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (readers.read_name, "a/b"),
        (readers.read_name, ""),
        (readers.read_bytes, "-1"),
        (readers.read_bytes, "1.5G"),
        (readers.read_bytes, ""),
        (readers.read_count, "1e3"),
        (readers.read_count, "-1"),
        (readers.read_seconds, "0"),
        (readers.read_seconds, "nan"),
        (readers.read_seconds, "inf"),
        (readers.read_cpus, "nan"),
        (readers.read_cpus, "-1"),
        (readers.read_memory, "0%"),
        (readers.read_memory, "101%"),
        (readers.read_memory, "0"),
        (readers.read_languages, "perl:5"),
        (readers.read_languages, ""),
        (readers.read_weights, "AUTH_a:0"),
        (readers.read_weights, "AUTH_a:nan"),
        (readers.read_weights, ":1"),
        (readers.read_weights, "AUTH_a"),
        (readers.read_mounts, "relative:/a"),
        (readers.read_mounts, "/a/../etc:/b"),
        (readers.read_mounts, "/a:/b:rx"),
        (readers.read_run_on, "Object"),
        (readers.read_overflow, ""),
    ],
)
def test_other_values_are_refused_with_the_expected_form(
    reader: Callable[[str], object], text: str
) -> None:
    with pytest.raises(ValueError, match=r"^want "):
        reader(text)
