"""Secrets of a run, with the workers of the languages that have them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from storlet_daemon.protocol import messages
from storlet_daemon.runtimes.table import LANGUAGES
from tests.conformance.conftest import CODE, new_sandbox
from tests.conformance.daemon_harness import Code, Storlet

LANGUAGE_FORMS = ["python", "java", "native", "program"]
VALUE = b"the-value-of-a-secret"
EVERY_BYTE = bytes(range(256)) * 16


@pytest.fixture(scope="module", params=LANGUAGE_FORMS)
def probe(request: pytest.FixtureRequest) -> Iterator[Storlet]:
    """The probe of each language, of native code in both forms; in one process."""
    language = "native" if request.param == "program" else request.param
    code = Code(CODE / "python", "probe.Probe", "probe.py")
    if language == "java":
        code = Code(request.getfixturevalue("java_code"), "Probe", "probe-1.0.jar", "java")
    if language == "native":
        main = "program" if request.param == "program" else "probe.so:probe"
        file = main.partition(":")[0]
        code = Code(request.getfixturevalue("native_code"), main, file, "native")
    with new_sandbox(language, request) as sandbox:
        yield sandbox.load(code, workers_max=1)
    shutil.rmtree(sandbox.folder)


def test_every_language_has_secrets() -> None:
    assert all(row.has_secrets for row in LANGUAGES)


def test_a_run_has_its_secrets_and_no_others(probe: Storlet) -> None:
    given = {"key": VALUE, "mac-key": EVERY_BYTE}
    result = probe.run(secrets=given, do="secrets", names="mac-key,other,key")
    assert result.done.is_ok, result.done
    assert result.output == b"mac-key=" + EVERY_BYTE + b";other is missing;key=" + VALUE + b";"
    after = probe.run(do="secrets", names="key")
    assert (after.done.is_ok, after.output) == (True, b"key is missing;")


@pytest.mark.parametrize(("before", "times"), [(0, 1), (470, 1), (470, 2000)])
def test_texts_about_a_run_have_no_part_of_a_value(probe: Storlet, before: int, times: int) -> None:
    """The message is cut at 500 characters, the traceback of a program at 4 KiB."""
    options = {"before": str(before), "times": str(times)}
    result = probe.run(secrets={"key": VALUE}, do="leak", log_limit=60_000, **options)
    assert result.done.code == messages.FAILED
    texts = [result.done.message or "", result.done.traceback or ""]
    assert before or all("[secret]-" in text for text in texts)
    parts = [VALUE[at : at + 6].decode() for at in range(len(VALUE) - 5)]
    for text in texts:
        assert not [part for part in parts if part in text.replace("[secret]", "")], text
