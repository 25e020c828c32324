"""Projects for tests."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import Final

TOML: Final = """\
name = "thumb"
version = "1.0"
language = "python"
main = "thumb.Thumb"
"""


def make(folder: Path, more: str = "") -> Path:
    """A project with one source file."""
    (folder / "src").mkdir(parents=True)
    (folder / "src/thumb.py").write_text("class Thumb: pass\n")
    (folder / "storlet.toml").write_text(TOML + more)
    return folder


def make_wheel(
    folder: Path, name: str, tag: str = "py3-none-any", requires_python: str = ">=3"
) -> Path:
    """A wheel with one module and one script."""
    info = f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    files = {
        f"{name}.py": "VALUE = 5\n",
        f"{info}/METADATA": f"{metadata}Requires-Python: {requires_python}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    record = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record.append(f"{path},sha256={digest.decode()},{len(text)}\n")
    files[f"{info}/RECORD"] = "".join(record) + f"{info}/RECORD,,\n"
    path = folder / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inner, text in files.items():
            wheel.writestr(inner, text)
    return path
