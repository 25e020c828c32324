"""The summary and the traceback of a failed run."""

from __future__ import annotations

from pathlib import Path

from storlet_daemon.author import failure_text

ENGINE = str(Path(__file__).parent / "engine")
LOOP = f"{ENGINE}/loop.py"


def test_an_exception_without_text_is_named() -> None:
    class Sly(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert failure_text.summary(Sly()).endswith("Sly: (no text: its __str__ failed)")
    assert "Sly" in failure_text.traceback_text(Sly(), ENGINE)


def test_only_a_class_can_hide_tracebacks() -> None:
    class Refusal(ValueError):
        hides_traceback = True

    class Vague(ValueError):
        hides_traceback = "yes"

    assert failure_text.hides_traceback(Refusal())
    error = ValueError()
    error.hides_traceback = True  # type: ignore[attr-defined]
    assert not failure_text.hides_traceback(error)
    assert not failure_text.hides_traceback(Vague())


def test_an_exit_is_named_with_its_code() -> None:
    for code, shown in ((None, 0), (3, 3), ("why", 1)):
        text = f"storlet exited with code {shown} before it was done"
        assert failure_text.summary(SystemExit(code)) == text


def test_a_traceback_leaves_out_the_frames_of_the_engine() -> None:
    try:
        exec(compile("raise ValueError('inner')", LOOP, "exec"))  # noqa: S102
    except ValueError as error:
        text = failure_text.traceback_text(error, ENGINE)
        whole = failure_text.traceback_text(error, "/nowhere")
    assert LOOP in whole
    assert LOOP not in text
    assert "ValueError: inner" in text
