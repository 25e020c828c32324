"""Inputs in which a storlet seeks, with the workers of the languages that have them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from storlet_daemon.protocol import messages
from storlet_daemon.runtimes.table import LANGUAGES
from tests.conformance.conftest import CODE, new_sandbox
from tests.conformance.daemon_harness import Code, InputFile, InputPipe, InputReads, Storlet

#: Longer than the longest read.
DATA = bytes(range(65, 91)) * 100_000
SIZE = len(DATA)


@pytest.fixture(scope="module", params=["python", "java", "native"])
def seeker(request: pytest.FixtureRequest) -> Iterator[Storlet]:
    code = Code(CODE / "python", "probe.Probe", "probe.py")
    if request.param == "java":
        code = Code(request.getfixturevalue("java_code"), "Probe", "probe-1.0.jar", "java")
    if request.param == "native":
        code = Code(request.getfixturevalue("native_code"), "probe.so:probe", "probe.so", "native")
    with new_sandbox(request.param, request) as sandbox:
        yield sandbox.load(code)
    shutil.rmtree(sandbox.folder)


def an_input(kind: str, data: bytes = DATA) -> InputPipe:
    if kind == messages.SEEK_READS:
        return InputReads(data)
    return InputFile(data, seekable=messages.SEEK_FILE)


def test_these_are_the_languages_that_have_seekable_inputs() -> None:
    named = [row.name for row in LANGUAGES if row.has_seekable_inputs]
    assert named == ["python", "java", "native"]


@pytest.mark.parametrize("kind", [messages.SEEK_FILE, messages.SEEK_READS])
def test_any_place_is_read(seeker: Storlet, kind: str) -> None:
    places = [(0, 5), (2_000_000, 3), (-1, 1), (SIZE - 2, 9), (SIZE, 1), (SIZE + 10, 1), (1, 2)]
    asked = ";".join(f"{first},{length}" for first, length in places)
    result = seeker.run(an_input(kind), do="seek", places=asked)
    assert result.done.is_ok, result.done
    expected = [f"size {SIZE}"]
    for first, length in places:
        data = DATA[first : first + length].decode() if first >= 0 else ""
        expected.append(f"{first + len(data)} {data}" if first >= 0 else "refused")
    assert result.output.decode() == "|".join(expected)
    usage = result.done.usage
    assert usage is not None
    assert (usage.input_bytes is None) == (kind == messages.SEEK_READS)
    if usage.input_bytes is not None:
        assert 10 <= usage.input_bytes <= SIZE // 2


@pytest.mark.parametrize("kind", [messages.SEEK_FILE, messages.SEEK_READS])
def test_all_of_several_inputs_is_read_in_order(seeker: Storlet, kind: str) -> None:
    inputs = [an_input(kind), an_input(kind, b""), an_input(kind, b"short")]
    result = seeker.run(*inputs, do="echo")
    assert result.done.is_ok, result.done
    assert result.output == DATA + b"short"


def test_reads_are_bounded_and_inside_of_the_object(seeker: Storlet) -> None:
    given = InputReads(DATA)
    assert seeker.run(given, do="echo").output == DATA
    assert all(1 <= length <= messages.READ_MAX for _, length in given.reads)
    assert sum(length for _, length in given.reads) == SIZE
    assert len(given.reads) <= 8


def test_an_input_that_breaks_off_fails_the_storlet(seeker: Storlet) -> None:
    result = seeker.run(InputReads(DATA, most=1), do="echo")
    assert result.done.code == messages.FAILED


@pytest.mark.parametrize(
    "given",
    [
        InputPipe(b"abc", seekable=messages.SEEK_FILE),
        InputFile(b"abc", start=1, seekable=messages.SEEK_FILE),
    ],
    ids=["a stream", "a range"],
)
def test_an_input_that_cannot_be_as_described_is_a_protocol_error(
    seeker: Storlet, given: InputPipe
) -> None:
    assert seeker.run(given, do="echo").done.code == messages.PROTOCOL
