"""Bundles as zip files: written reproducibly, verified without trust in any byte.

::

    storlet.json        the manifest in its normal form
    storlet.lock.json   path, size, SHA-256 and mode of every other file
    code/...            Python: sources, and libraries below code/lib; Java: jars; native: files
    tests/...           the files of the test cases that the check at upload runs
    source/...          the other files of the author's project; no node unpacks them

:func:`write` gives the same bytes for the same files: sorted names, one fixed time, no extra
fields.  Its compressed bytes depend on the zlib of the machine, which is why the lock has the
hashes of the files and not of their compressed forms.

:func:`verify` accepts only the plainest form of a zip.  Its entries follow each other without gap
or overlap from the first byte of the file to the directory, and the directory ends the file.  So no
two readers can see different files in it, and no bytes are expanded twice.  Memory is bounded by
:class:`Bounds` and not by what the file says of itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable

from . import languages, manifest
from .languages import Form, Language

MANIFEST = "storlet.json"
LOCK = "storlet.lock.json"
CODE = "code/"
TESTS = "tests/"
SOURCE = "source/"
#: Python's libraries, below the folder of the code.
LIBRARY = "lib"
SUFFIX = ".storlet"
#: The earliest time that a zip can express.
_TIME = (1980, 1, 1, 0, 0, 0)
#: Numpy takes 1.6 s of CPU time for 17.2 MB; with zlib's default, 6, 2.5 s for 17.0 MB.
_LEVEL = 5
#: Files that are compressed already, by suffix: they are stored as they are.
_PACKED = (
    ".7z", ".avif", ".br", ".bz2", ".gz", ".jar", ".jpeg", ".jpg", ".mp3", ".mp4", ".parquet",
    ".png", ".webp", ".whl", ".woff2", ".xz", ".zip", ".zst",
)  # fmt: skip
_MODES = {0o644: "0644", 0o755: "0755"}
_END = struct.Struct("<4s4H2LH")
_LOCAL = struct.Struct("<4s5H3L2H")
_CHUNK = 1 << 18
_UNIX = 3
_DATA_DESCRIPTOR = 0x08
_ENCRYPTED = 0x01 | 0x40 | 0x2000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MAX_PATH_BYTES = 1024
_MAX_PART_BYTES = 255
#: A manifest or lock is read into memory.
_MAX_JSON_BYTES = 8 << 20
#: The files of the test cases, which a proxy holds in memory.
MAX_TESTS_BYTES = 4 << 20
#: Small files may compress better than the ratio allows.
_RATIO_FREE_BYTES = 4 << 20
#: Faults that are listed; the others are counted.
_MAX_FAULTS = 20
_SHA256 = re.compile("[0-9a-f]{64}")


class BundleError(ValueError):
    """The bundle is refused; ``faults`` lists the reasons."""

    def __init__(self, faults: list[str]) -> None:
        shown = faults[:_MAX_FAULTS]
        if len(faults) > len(shown):
            shown.append(f"{len(faults) - len(shown)} more faults")
        super().__init__("; ".join(shown))
        self.faults = shown


@dataclass(frozen=True)
class Bounds:
    """Limits of a bundle; ``ratio`` is unpacked to packed size, of all files together."""

    packed_bytes: int = 256 << 20
    unpacked_bytes: int = 1 << 30
    entries: int = 20_000
    ratio: int = 50


@dataclass(frozen=True)
class File:
    """One file of a bundle: as the lock describes it."""

    path: str
    size: int
    sha256: str
    mode: int

    def as_data(self) -> dict[str, Any]:
        return {
            "path": self.path, "size": self.size, "sha256": self.sha256, "mode": _MODES[self.mode]
        }  # fmt: skip


@dataclass(frozen=True)
class Verified:
    """A valid bundle; ``files`` are those of the lock."""

    manifest: dict[str, Any]
    files: tuple[File, ...]
    lock: dict[str, Any] = field(default_factory=dict)

    @property
    def archives(self) -> list[str]:
        """The jars of a Java bundle, below the folder of the code, in the order of their names."""
        paths = [file.path[len(CODE) :] for file in self.files if file.path.startswith(CODE)]
        return sorted(path for path in paths if path.lower().endswith(".jar"))


# --- writing --------------------------------------------------------------------------------------


def write(
    out: BinaryIO,
    document: Mapping[str, Any],
    files: Mapping[str, tuple[bytes, int]],
    resolved: tuple[str, ...] = (),
    others: Mapping[str, tuple[bytes, int]] | None = None,
    *,
    is_compressed: bool = True,
) -> None:
    """Write a bundle.

    :param document: a valid manifest.
    :param files: content and mode (0o644 or 0o755) by path below ``code/``.
    :param resolved: the exact dependencies, for the lock.
    :param others: content and mode by path, of the files below ``tests/`` and ``source/``.
    :param is_compressed: without compression, the bytes do not depend on the machine's zlib.
    """
    content = {MANIFEST: (manifest.encode(manifest.normal(document)), 0o644)}
    content.update({CODE + path: each for path, each in files.items()})
    content.update(others or {})
    rows = [
        File(path, len(data), hashlib.sha256(data).hexdigest(), mode).as_data()
        for path, (data, mode) in sorted(content.items())
    ]
    lock = {"format": manifest.FORMAT, "files": rows, "resolved": sorted(resolved)}
    content[LOCK] = (manifest.encode(lock), 0o644)
    with zipfile.ZipFile(out, "w") as archive:
        for path, (data, mode) in sorted(content.items()):
            info = zipfile.ZipInfo(path, _TIME)
            info.create_system = _UNIX
            info.external_attr = (stat.S_IFREG | mode) << 16
            is_stored = not is_compressed or path.lower().endswith(_PACKED)
            info.compress_type = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
            archive.writestr(info, data, compresslevel=_LEVEL)


def without_source(packed: bytes) -> bytes:
    """A bundle without its source, as servers up to release 0.2 want it; another file unchanged."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as zipped:
            files = {
                info.filename: (zipped.read(info), (info.external_attr >> 16) & 0o777)
                for info in zipped.infolist()
            }
    except zipfile.BadZipFile:
        return packed
    if not any(path.startswith(SOURCE) for path in files):
        return packed
    document, lock = (json.loads(files[name][0]) for name in (MANIFEST, LOCK))
    code = {path[len(CODE) :]: each for path, each in files.items() if path.startswith(CODE)}
    tests = {path: each for path, each in files.items() if path.startswith(TESTS)}
    out = io.BytesIO()
    write(out, document, code, tuple(lock.get("resolved", ())), tests)
    return out.getvalue()


# --- verification ---------------------------------------------------------------------------------


def verify(packed: BinaryIO, bounds: Bounds) -> Verified:
    """Read all of a bundle; raise :class:`BundleError` with all faults unless it is valid."""
    infos = _directory(packed, bounds)
    faults = _faults_of_entries(infos)
    if faults:
        raise BundleError(faults)
    faults = _faults_of_layout(packed, infos) or _faults_of_sizes(packed, infos, bounds)
    if faults:
        raise BundleError(faults)
    try:
        with zipfile.ZipFile(packed) as archive:
            return _verify_content(archive, {info.filename: info for info in infos})
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise BundleError([f"the zip is damaged: {error}"]) from error


def _directory(packed: BinaryIO, bounds: Bounds) -> list[zipfile.ZipInfo]:
    """The entries, after a check that their number is within the bounds."""
    size = packed.seek(0, 2)
    if size > bounds.packed_bytes:
        raise BundleError(
            [f"the bundle has {size} bytes; at most {bounds.packed_bytes} are allowed"]
        )
    if size < _END.size:
        raise BundleError(["not a zip file: make it with storlet build"])
    packed.seek(size - _END.size)
    magic, disk, start_disk, here, total, length, start, comment = _END.unpack(
        packed.read(_END.size)
    )
    if magic != b"PK\5\6" or comment:
        raise BundleError(["not a zip file, or it does not end with its directory"])
    if disk or start_disk or here != total:
        raise BundleError(["a zip on several disks"])
    if total == 0xFFFF or start == 0xFFFFFFFF or length == 0xFFFFFFFF:
        raise BundleError(["a zip in the format zip64, which bundles do not need"])
    if start + length != size - _END.size:
        raise BundleError(["the zip has bytes before its first entry or behind its directory"])
    # Python's reader holds the whole directory in memory, and believes its length and not the
    # number of entries.
    if total > bounds.entries or length > bounds.entries * (46 + _MAX_PATH_BYTES):
        raise BundleError([f"{total} files; at most {bounds.entries} are allowed"])
    packed.seek(0)
    try:
        with zipfile.ZipFile(packed) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, struct.error) as error:
        raise BundleError([f"the zip is damaged: {error}"]) from error
    if len(infos) != total:
        raise BundleError([f"the zip has {len(infos)} entries and declares {total}"])
    return infos


def _faults_of_entries(infos: list[zipfile.ZipInfo]) -> list[str]:
    faults: list[str] = []
    seen: dict[str, str] = {}
    folders: set[str] = set()
    for info in infos:
        wrong = _fault_of_path(info) or _fault_of_kind(info)
        if wrong:
            faults.append(f"{_quoted(info.orig_filename)}: {wrong}")
            continue
        key = _key(info.filename)
        if key in seen:
            same = seen[key] == info.filename
            what = "is in the zip twice" if same else f"differs from {seen[key]!r} in case only"
            faults.append(f"{_quoted(info.filename)}: {what}")
        seen.setdefault(key, info.filename)
        parts = key.split("/")
        folders.update("/".join(parts[:count]) for count in range(1, len(parts)))
    faults += [
        f"{_quoted(seen[key])}: a file and a folder" for key in sorted(folders & seen.keys())
    ]
    return faults


def _key(path: str) -> str:
    """Equal for paths that some file system takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", path).casefold())


def _is_too_long(path: str) -> bool:
    parts = [part.encode("utf-8", "replace") for part in path.split("/")]
    is_part_long = max(map(len, parts)) > _MAX_PART_BYTES
    return is_part_long or sum(map(len, parts)) + len(parts) > _MAX_PATH_BYTES


#: Each is a test of a path, and the fault of a path that meets it.
_PATH_RULES: tuple[tuple[Callable[[str], bool], str], ...] = (
    (lambda path: any("\ud800" <= char <= "\udfff" for char in path), "a name that is not UTF-8"),
    (
        lambda path: any(ord(char) < 32 or ord(char) == 127 for char in path),
        "control characters in the name",
    ),
    (lambda path: path.endswith("/"), "a folder: a bundle has files only"),
    (
        lambda path: "\\" in path or re.match("[A-Za-z]:", path) is not None,
        "a path of Windows: want '/' between folders",
    ),
    (lambda path: path.startswith("/"), "an absolute path"),
    (
        lambda path: any(part in ("", ".", "..") for part in path.split("/")),
        "a path that leaves its folder: no '.', '..' or empty part is allowed",
    ),
    (
        _is_too_long,
        f"a name longer than {_MAX_PART_BYTES} bytes, or a path than {_MAX_PATH_BYTES}",
    ),
)


def _fault_of_path(info: zipfile.ZipInfo) -> str:
    path = info.orig_filename
    wrong = _fault_of_parts(path)
    if wrong:
        return wrong
    if path not in (MANIFEST, LOCK) and not path.startswith((CODE, TESTS, SOURCE)):
        return f"want {MANIFEST}, {LOCK}, and all else below {CODE}, {TESTS} and {SOURCE}"
    return f"{LOCK} is reserved" if path == CODE + LOCK else ""


def _fault_of_parts(path: str) -> str:
    """Why ``path`` is not a plain path below a folder; empty if it is."""
    for is_wrong, text in _PATH_RULES:
        if is_wrong(path):
            return text
    return ""


def _fault_of_kind(info: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == _UNIX else 0
    if kind == stat.S_IFLNK:
        return "a symbolic link"
    if kind not in (0, stat.S_IFREG):
        return "a device, pipe or socket"
    if info.flag_bits & _ENCRYPTED:
        return "encrypted"
    if info.flag_bits & _DATA_DESCRIPTOR:
        return "a size behind the data (data descriptor): make it with storlet build"
    if info.compress_type not in _METHODS:
        return f"compression method {info.compress_type}: want deflate, or none"
    return ""


def _faults_of_layout(packed: BinaryIO, infos: list[zipfile.ZipInfo]) -> list[str]:
    """Entries must follow each other from byte 0 to the directory, as both of their headers say."""
    position = 0
    for info in sorted(infos, key=lambda each: each.header_offset):
        if info.header_offset != position:
            return [f"{_quoted(info.filename)}: overlaps another entry, or follows a gap"]
        packed.seek(position)
        header = packed.read(_LOCAL.size)
        if len(header) < _LOCAL.size:
            return [f"{_quoted(info.filename)}: the zip is cut"]
        magic, _, flags, method, _, _, crc, size, full, name, extra = _LOCAL.unpack(header)
        local = (magic, flags, method, crc, size, full)
        central = (
            b"PK\3\4", info.flag_bits, info.compress_type, info.CRC, info.compress_size,
            info.file_size,
        )  # fmt: skip
        raw = packed.read(name)
        encoding = "utf-8" if info.flag_bits & 0x800 else "cp437"
        if local != central or raw != info.orig_filename.encode(encoding, "replace"):
            return [f"{_quoted(info.filename)}: its two headers differ"]
        position += _LOCAL.size + name + extra + size
    packed.seek(-_END.size, 2)
    start = _END.unpack(packed.read(_END.size))[6]
    return [] if position == start else ["the zip has bytes between its last entry and directory"]


def _faults_of_sizes(packed: BinaryIO, infos: list[zipfile.ZipInfo], bounds: Bounds) -> list[str]:
    size, total = packed.seek(0, 2), sum(info.file_size for info in infos)
    faults = []
    if total > bounds.unpacked_bytes:
        faults.append(f"{total} bytes unpacked; at most {bounds.unpacked_bytes} are allowed")
    if total > _RATIO_FREE_BYTES and total > bounds.ratio * size:
        faults.append(f"unpacked {total // size} times as large; at most {bounds.ratio} is allowed")
    return faults


def _verify_content(archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo]) -> Verified:
    missing = [f"{path}: missing" for path in (MANIFEST, LOCK) if path not in infos]
    if missing:
        raise BundleError(missing)
    lock = _json(archive, infos[LOCK])
    files, faults = _files_of(lock)
    faults += [f"{path}: not in {LOCK}" for path in infos if path not in (LOCK, *files)]
    faults += [f"{path}: in {LOCK}, and missing" for path in files if path not in infos]
    for path, file in files.items():
        if path in infos:
            faults += _faults_of_file(archive, infos[path], file)
    document = _json(archive, infos[MANIFEST])
    wrong = [f"{MANIFEST}: {fault}" for fault in manifest.faults_of(document)]
    if not wrong and document != manifest.normal(document):
        wrong = [f"{MANIFEST}: not in its normal form: make the bundle with storlet build"]
    faults += wrong
    verified = Verified(document, tuple(files.values()), lock)
    if not wrong:
        faults += _faults_of_code(verified) + _faults_of_tests(verified)
    if faults:
        raise BundleError(faults)
    return verified


def _json(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> dict[str, Any]:
    if info.file_size > _MAX_JSON_BYTES:
        raise BundleError([f"{info.filename}: larger than {_MAX_JSON_BYTES} bytes"])
    with archive.open(info) as stream:
        data = stream.read(_MAX_JSON_BYTES + 1)
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BundleError([f"{info.filename}: not JSON: {error}"]) from error
    if not isinstance(document, dict):
        raise BundleError([f"{info.filename}: not a JSON object"])
    return document


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not allowed")


def _files_of(lock: Mapping[str, Any]) -> tuple[dict[str, File], list[str]]:
    modes = {text: mode for mode, text in _MODES.items()}
    files: dict[str, File] = {}
    rows = lock.get("files")
    if lock.get("format") != manifest.FORMAT or not isinstance(rows, list):
        return {}, [f"{LOCK}: want format {manifest.FORMAT} and a list of files"]
    for index, row in enumerate(rows):
        try:
            path, size, digest, mode = (row[key] for key in ("path", "size", "sha256", "mode"))
            is_valid = isinstance(path, str) and path not in files and type(size) is int
            is_valid = is_valid and _SHA256.fullmatch(digest) is not None
            files[path] = File(path, size, digest, modes[mode])
        except (KeyError, TypeError):
            is_valid = False
        if not is_valid:
            wanted = "want path (once), size, sha256, and mode 0644 or 0755"
            return {}, [f"{LOCK}: files.{index}: {wanted}"]
    return files, []


def _faults_of_file(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: File) -> list[str]:
    digest, size = hashlib.sha256(), 0
    with archive.open(info) as stream:
        while True:
            chunk = stream.read(_CHUNK)
            if not chunk:
                break
            size += len(chunk)
            if size > info.file_size:
                return [f"{file.path}: longer than its header states"]
            digest.update(chunk)
    faults = []
    if size != file.size or digest.hexdigest() != file.sha256:
        faults.append(f"{file.path}: size or SHA-256 is not that of {LOCK}")
    mode = (info.external_attr >> 16) & 0o7777 if info.create_system == _UNIX else 0o644
    if mode != file.mode:
        faults.append(f"{file.path}: mode {mode:04o} is not that of {LOCK}")
    return faults


def _faults_of_code(verified: Verified) -> list[str]:
    """The code must have the entry point that the manifest names."""
    row = languages.language(verified.manifest["language"])
    return [] if row is None else _ENTRY_POINTS[row.form](verified, row)


def _faults_of_module(verified: Verified, row: Language) -> list[str]:
    paths = {file.path for file in verified.files}
    module = verified.manifest["main"].rpartition(".")[0].replace(".", "/")
    wanted = (f"{CODE}{module}{row.suffix}", f"{CODE}{module}/__init__{row.suffix}")
    return [] if paths.intersection(wanted) else [f"main: {wanted[0]} is missing"]


def _faults_of_jars(verified: Verified, row: Language) -> list[str]:
    paths = {file.path for file in verified.files}
    nested = [path for path in paths if path.startswith(CODE) and "/" in path[len(CODE) :]]
    if nested:
        return [f"{min(nested)}: a {row.title} bundle has its jars directly below {CODE}"]
    strange = [jar for jar in verified.archives if ":" in jar or "," in jar]
    if strange:
        return [f"{CODE}{strange[0]}: ':' or ',' in the name of a jar"]
    return [] if verified.archives else [f"no jar below {CODE}"]


def _faults_of_program(verified: Verified, _row: Language) -> list[str]:
    name, _, function = verified.manifest["main"].partition(":")
    modes = {file.path: file.mode for file in verified.files}
    mode = modes.get(CODE + name)
    if mode is None:
        return [f"main: {CODE}{name} is missing"]
    if not function and not mode & 0o100:
        return [f"main: {CODE}{name} is not executable: its mode is {mode:04o}"]
    return []


_ENTRY_POINTS: Mapping[Form, Callable[[Verified, Language], list[str]]] = {
    Form.MODULES: _faults_of_module,
    Form.JARS: _faults_of_jars,
    Form.FILES: _faults_of_program,
}


def _faults_of_tests(verified: Verified) -> list[str]:
    """The files of test cases are all there, and no others; or none are, as in older bundles."""
    files = {file.path: file.size for file in verified.files if file.path.startswith(TESTS)}
    if not files:
        return []
    named = {TESTS + path for path in manifest.files_at_upload(verified.manifest)}
    faults = [f"{path}: no test case has this file" for path in sorted(files.keys() - named)]
    faults += [f"{path}: missing" for path in sorted(named - files.keys())]
    size = sum(files.values())
    if size > MAX_TESTS_BYTES:
        faults.append(f"{TESTS}: {size} bytes; at most {MAX_TESTS_BYTES} are allowed")
    return faults


def fault_of_file_name(path: str) -> str:
    """Why a bundle cannot have a file of the project with this path; empty if it can."""
    return _fault_of_parts(path)


def similar(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of paths that a bundle cannot both have: some file system takes them for the same."""
    seen: dict[str, str] = {}
    return [(first, path) for path in paths if (first := seen.setdefault(_key(path), path)) != path]


def _quoted(path: str) -> str:
    text = repr(path)
    return text if len(text) <= 80 else text[:77] + "..."
