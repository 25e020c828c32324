"""The package ``storlet`` of a worker: services are loaded when a storlet uses them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[4]
_LOADED = "'storlet_daemon.author.services' in sys.modules"
_BEGIN = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from storlet_daemon.supervisor import Supervisor
from storlet_daemon.author import offer
offer.offer()
sys.path[:] = []  # as if the storlet's folder had a module of any name
assert not {_LOADED}
"""


def run(code: str, before: str = _BEGIN) -> str:
    """The output of a new interpreter, as a worker begins."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", before + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("statement", "use"),
    [
        ("from storlet import services", "services.open"),
        ("import storlet.services", "storlet.services.open"),
        ("import storlet.services as store", "store.open"),
        ("from storlet.services import open", "open"),
        ("from storlet.services import *", "open"),
        ("import storlet", "storlet.services.open"),
    ],
)
def test_services_are_loaded_on_first_use(statement: str, use: str) -> None:
    code = f"{statement}\nfound = {use}\nfrom storlet_daemon.author import services\n"
    code += "import storlet\n"
    code += "print(found is services.open, storlet.services is services, services.__name__)"
    assert run(code) == "True True storlet_daemon.author.services"


def test_secrets_do_not_load_services() -> None:
    code = "from storlet import secrets\nimport storlet.secrets\nprint(secrets.names())\n"
    assert run(f"{code}print({_LOADED})") == "[]\nFalse"


def test_threads_that_import_services_at_the_same_time_find_the_same_module() -> None:
    code = """
import threading, time
class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "storlet_daemon.author.calls":
            has_begun.set()
            time.sleep(0.3)
has_begun, found = threading.Event(), []
def use():
    from storlet.services import open
    found.append(open)
sys.meta_path.insert(0, Slow)
threads = [threading.Thread(target=use) for _ in range(3)]
threads[0].start()
has_begun.wait()
for thread in threads[1:]:
    thread.start()
for thread in threads:
    thread.join()
from storlet_daemon.author import services
print(found == [services.open] * 3, services.__spec__.name)
"""
    assert run(code) == "True storlet_daemon.author.services"


def test_the_channel_of_a_run_finds_its_modules_without_an_import_path() -> None:
    assert run("import storlet_daemon.worker.services\nprint(1)") == "1"


def test_other_names_are_missing() -> None:
    code = "import storlet\nfor name in ('other', 'services.other'):\n    try:\n"
    code += "        __import__(f'storlet.{name}')\n    except ModuleNotFoundError as error:\n"
    code += "        print(error.name)\nprint(hasattr(storlet, 'other'))"
    assert run(code) == "storlet.other\nstorlet.services.other\nFalse"


def test_another_package_of_the_name_stays(tmp_path: Path) -> None:
    (tmp_path / "storlet.py").write_text("OWN = 5\n")
    before = f"import sys\nsys.path[:0] = [{str(tmp_path)!r}, {str(REPOSITORY)!r}]\n"
    before += "from storlet_daemon.author import offer\n"
    before += "finders = [*sys.meta_path]\noffer.offer()\nassert sys.meta_path == finders\n"
    assert run("import storlet\nprint(storlet.OWN)", before) == "5"
