"""The one-box image: its build context, and the signals of its main process."""

from __future__ import annotations

import io
import os
import signal
import tarfile
from collections.abc import Iterator

import pytest

from storlet_middleware.aio import box
from storlet_middleware.aio.home import CHECKOUT


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Restores the handlers of the signals that ``live`` replaces."""
    before = {signum: signal.getsignal(signum) for signum in box.STOP_SIGNALS}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def test_the_context_has_the_sources_of_the_checkout_and_no_build_output() -> None:
    with tarfile.open(fileobj=io.BytesIO(b"".join(box._context()))) as tar:
        entries = tar.getmembers()
    names = {entry.name for entry in entries}
    assert {"setup.py", "Dockerfile", "storlet_middleware/aio/box.py"} <= names
    tops = {name.partition("/")[0] for name in names}
    assert tops <= {*box.CONTENTS, ".box"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
    assert {(entry.uid, entry.gid) for entry in entries} == {(0, 0)}


def test_every_file_that_the_dockerfile_copies_is_in_the_context() -> None:
    lines = (CHECKOUT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY")]
    copied = {word for words in copies if not words[0].startswith("--from") for word in words}
    assert {word.partition("/")[0] for word in copied} - {".", ".box*"} <= set(box.CONTENTS)


@pytest.mark.parametrize("signum", box.STOP_SIGNALS)
@pytest.mark.usefixtures("own_signals")
def test_a_stop_signal_takes_the_cluster_down_once(
    monkeypatch: pytest.MonkeyPatch, signum: signal.Signals
) -> None:
    steps = []

    def down() -> None:
        steps.append("down")
        os.kill(os.getpid(), signum)  # ignored: the cluster is being taken down

    monkeypatch.setattr(box.cluster, "up", lambda: steps.append("up"))
    monkeypatch.setattr(box.processes, "reap", lambda: os.kill(os.getpid(), signum))
    monkeypatch.setattr(box.cluster, "down", down)
    box.live()
    assert steps == ["up", "down"]


@pytest.mark.usefixtures("own_signals")
def test_a_failed_start_leaves_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []

    def fail() -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(box.cluster, "up", fail)
    monkeypatch.setattr(box.cluster, "down", lambda: steps.append("down"))
    with pytest.raises(OSError, match="no space"):
        box.live()
    assert steps == ["down"]
