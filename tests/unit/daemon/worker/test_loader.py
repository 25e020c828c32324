"""How a worker finds a storlet's class, and the reason it gives if it does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from storlet_daemon.author import failure_text
from storlet_daemon.worker import failure
from storlet_daemon.worker.config import WorkerConfig
from storlet_daemon.worker.loader import LoadError, load_class

#: A class that a storlet can be.
IT = "class It:\n    def __call__(self, *_): pass\n"


def config(folder: Path, main: str, file: str) -> WorkerConfig:
    return WorkerConfig(3, 4, main, file, str(folder), 1)


def load_error(folder: Path, text: str, main: str = "faulty.Faulty") -> BaseException:
    (folder / "faulty.py").write_text(text)
    try:
        load_class(config(folder, main, "faulty.py"))
    except BaseException as error:  # noqa: BLE001  SystemExit is what some of them raise
        return error
    pytest.fail("it was loaded")


def test_the_class_of_a_module_is_found_and_its_folder_importable(folder: Path) -> None:
    (folder / "helper_of_it.py").write_text("VALUE = 5\n")
    (folder / "it.py").write_text(f"import helper_of_it\n{IT}    value = helper_of_it.VALUE\n")
    found = load_class(config(folder, "it.It", "it.py"))
    assert getattr(found, "value") == 5  # noqa: B009
    assert sys.path[0] == str(folder)
    assert sys.modules["it"].It is found
    assert not (folder / "__pycache__").exists()


@pytest.mark.parametrize(
    "text",
    [
        f"{IT}class Faulty(It): pass",
        "class Faulty:\n    def __new__(cls, logger): return print",
        "class Meta(type): pass\nclass Faulty(metaclass=Meta): pass",
        "def Faulty(logger): return print",
    ],
)
def test_a_value_that_may_make_a_callable_is_loaded(folder: Path, text: str) -> None:
    (folder / "faulty.py").write_text(text)
    assert callable(load_class(config(folder, "faulty.Faulty", "faulty.py")))


def test_the_daemons_own_folder_is_not_on_the_import_path(folder: Path) -> None:
    import storlet_daemon  # noqa: PLC0415  only for its path

    parent = str(Path(storlet_daemon.__file__).parents[1])
    sys.path.append(parent)
    (folder / "it.py").write_text(IT)
    load_class(config(folder, "it.It", "it.py"))
    assert parent not in sys.path


@pytest.mark.parametrize(
    ("main", "text", "expected"),
    [
        ("faulty.Faulty", "", "LoadError: module faulty has no class Faulty"),
        ("faulty.Faulty", "Faulty = 5", "LoadError: module faulty has no class Faulty"),
        (
            "faulty.Faulty",
            "class Faulty:\n    def __cal__(self, *_): pass",
            "LoadError: class Faulty of module faulty has no method __call__",
        ),
        (
            "Faulty",
            "",
            "LoadError: the main class must be given as module.Class, not 'Faulty'",
        ),
        (
            "faulty.Faulty",
            "import no_such_module",
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("faulty.Faulty", "def (", "SyntaxError: invalid syntax (faulty.py, line 1)"),
        ("faulty.Faulty", "raise SystemExit", "storlet exited with code 0 before it was done"),
        (
            "faulty.Faulty",
            "raise SystemExit('why')",
            "storlet exited with code 1 before it was done",
        ),
        ("faulty.Faulty", "raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_a_failed_load_gives_its_reason(folder: Path, main: str, text: str, expected: str) -> None:
    assert failure_text.summary(load_error(folder, text, main)) == expected


def test_a_traceback_shows_the_authors_frames_of_causes_and_groups_too(folder: Path) -> None:
    text = (
        "def inner():\n    raise ValueError('inner')\n"
        "try:\n    inner()\nexcept ValueError as error:\n"
        "    raise ExceptionGroup('many', [KeyError('k')]) from error\n"
    )
    trace = failure.traceback_text(load_error(folder, text))
    assert "ValueError: inner" in trace
    assert "KeyError" in trace
    assert "line 2, in inner" in trace
    assert "storlet_daemon" not in trace
    assert "/loader.py" not in trace
    assert "importlib" not in trace


def bundle(folder: Path, main: str) -> WorkerConfig:
    return config(folder, main, "it.storlet")


def test_a_bundle_imports_its_libraries(folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib/library_of_it.py").write_text("VALUE = 7\n")
    (folder / "it.py").write_text(f"import library_of_it\n{IT}    v = library_of_it.VALUE\n")
    found = load_class(bundle(folder, "it.It"))
    assert getattr(found, "v") == 7  # noqa: B009
    assert sys.path[:2] == [str(folder), str(folder / "lib")]


def test_main_of_a_bundle_may_be_in_a_package(folder: Path) -> None:
    (folder / "package_of_it").mkdir()
    (folder / "package_of_it/__init__.py").write_text("")
    (folder / "package_of_it/inner.py").write_text(IT)
    found = load_class(bundle(folder, "package_of_it.inner.It"))
    assert getattr(found, "__module__") == "package_of_it.inner"  # noqa: B009


def test_a_package_with_the_name_of_another_is_an_error(folder: Path) -> None:
    (folder / "email").mkdir()
    (folder / "email/message.py").write_text("class Message: pass\n")
    with pytest.raises(LoadError, match="another one of that name"):
        load_class(bundle(folder, "email.message.Message"))
