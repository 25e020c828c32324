"""The manifest of a storlet: faults against the schema, the normal form, values of parameters.

``storlet.toml`` of an author and ``storlet.json`` of a bundle have the same fields, which
``manifest.schema.json`` describes.  :func:`faults_of` finds all faults at once: those that the
schema can express, and those between fields.  :func:`normal` is the form in a bundle: the same
manifest always gives the same bytes.
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Union

from . import languages
from .languages import Form

FORMAT = 1
#: Inputs and further outputs of a run, and its services: descriptors of a message to a worker.
_STREAMS = 30
#: Characters of a value that a fault quotes.
_QUOTED = 60
_COMPARISON = re.compile(r"(==|!=|>=|<=|<|>)\s*([0-9.]+)")
_TRUE = ("true", "1", "yes", "on")
_FALSE = ("false", "0", "no", "off")
#: The type of a parameter that names a secret of the account, and the form of such a name.
SECRET = "secret"  # noqa: S105  a type, no password
SECRET_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
#: The least and the most bytes of the value of a secret.
SECRET_BYTES = (8, 4096)
#: A value of a parameter.
Value = Union[str, int, float, bool]


@dataclass(frozen=True)
class Fault:
    """One fault: the field that has it, and the text for its author."""

    path: tuple[str | int, ...]
    text: str

    def __str__(self) -> str:
        where = ".".join(str(each) for each in self.path)
        return f"{where}: {self.text}" if where else self.text


@functools.lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    """The published JSON Schema."""
    place = Path(__file__).with_name("manifest.schema.json")
    loaded: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    loaded["properties"]["language"]["enum"] = list(languages.NAMES)
    return loaded


def faults_of(document: Any) -> list[Fault]:
    """All faults of a manifest, in the order of their fields; none if it is valid."""
    # Most programs that use the values of manifests never validate one, and the import is slow.
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    faults: list[Fault] = []
    for error in Draft202012Validator(schema()).iter_errors(document):
        faults += _of_error(error)
    if isinstance(document, dict):
        faults += _between_fields(document, [fault.path for fault in faults])
    return sorted(faults, key=lambda fault: [str(each) for each in fault.path])


def normal(document: Mapping[str, Any]) -> dict[str, Any]:
    """The normal form of a valid manifest, with the defaults of optional fields."""
    least, most = input_counts(document)
    types = document.get("inputs", {}).get("types", [])
    fewest, outputs = output_counts(document)[0], document.get("outputs", {})
    return {
        **document,
        "format": FORMAT,
        "engine": document.get("engine", ">=1.0,<2"),
        "inputs": {"min": least, "max": most, "types": types},
        "outputs": {"types": [], **outputs, "count": fewest},
        "parameters": dict(document.get("parameters", {})),
        "limits": dict(document.get("limits", {})),
        "services": list(document.get("services", ())),
    }


def input_counts(document: Mapping[str, Any]) -> tuple[int, int]:
    """The fewest and the most inputs of a run, with the defaults of the schema."""
    inputs = document.get("inputs", {})
    least = inputs.get("min", 1)
    return least, inputs.get("max", least)


def output_counts(document: Mapping[str, Any]) -> tuple[int, int]:
    """The fewest and the most outputs of a run, with the defaults of the schema."""
    outputs = document.get("outputs", {})
    least = outputs.get("count", 1)
    return least, outputs.get("max", least)


def text_of(value: object) -> str:
    """A parameter as a storlet gets it: as text, like the parameters of a request."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def inputs_of(case: Mapping[str, Any]) -> list[str]:
    """The files with the inputs of a test case."""
    named = case["input"]
    return [named] if isinstance(named, str) else list(named)


def outputs_of(case: Mapping[str, Any]) -> list[str]:
    """The files with the expected outputs of a test case, from the first output on."""
    named = case.get("output", [])
    return [named] if isinstance(named, str) else list(named)


def output_count_of(document: Mapping[str, Any], case: Mapping[str, Any]) -> int:
    """The number of outputs that a test case runs with."""
    return max(output_counts(document)[0], len(outputs_of(case)))


def files_at_upload(document: Mapping[str, Any]) -> list[str]:
    """The files of the cases that the check at upload runs, each once."""
    cases = [case for case in document.get("tests", ()) if case.get("upload", True)]
    named = [path for case in cases for path in (*inputs_of(case), *outputs_of(case))]
    return list(dict.fromkeys(named))


def faults_of_count(bounds: Sequence[int], count: int, of: str = "inputs") -> list[str]:
    """The fault of a run with ``count`` inputs or ``outputs``, if that is not within the bounds,
    which count.
    """
    least, most = bounds
    if least <= count <= most:
        return []
    wanted = f"{least}" if least == most else f"{least} to {most}"
    verb = "takes" if of == "inputs" else "makes"
    return [f"{count} {of}: the storlet {verb} {wanted} ({of} of its manifest)"]


def encode(document: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys, for :mod:`archive`: the same document gives the same bytes."""
    return (json.dumps(document, sort_keys=True, indent=1, ensure_ascii=True) + "\n").encode()


def fits_engine(wanted: str, version: str) -> bool:
    """Whether an engine API version is in the range ``wanted``, such as ``>=1.0,<2``."""
    have = _numbers(version)
    results = {
        "==": lambda other: have == other,
        "!=": lambda other: have != other,
        ">=": lambda other: have >= other,
        "<=": lambda other: have <= other,
        "<": lambda other: have < other,
        ">": lambda other: have > other,
    }
    return all(results[match[1]](_numbers(match[2])) for match in _COMPARISON.finditer(wanted))


def _numbers(version: str) -> tuple[int, ...]:
    parts = [int(part) for part in version.split(".") if part]
    return (*parts, 0, 0, 0)[:3]


# --- parameters -----------------------------------------------------------------------------------


def parameters_of_run(
    declared: Mapping[str, Mapping[str, Any]], given: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The parameters of a run with defaults filled in, and all faults of the ``given`` ones.

    Storlets get text.  A manifest without parameters accepts all.
    """
    if not declared:
        return dict(given), []
    faults = parameter_faults(declared, given)
    values = {}
    for name, row in declared.items():
        if name in given:
            values[name] = given[name]
        elif "default" in row:
            values[name] = text_of(row["default"])
        elif row.get("required"):
            faults.append(f"parameter {name!r}: missing: the storlet requires it")
    return values, faults


def parameter_faults(
    declared: Mapping[str, Mapping[str, Any]], given: Mapping[str, str | None]
) -> list[str]:
    """Unknown names, and values that do not fit; a value that is not known yet is ``None``.

    A manifest without parameters accepts all.
    """
    faults = []
    for name, text in given.items() if declared else ():
        if name not in declared:
            known = f"the storlet has {_listed(declared)}{nearest(name, declared)}"
            faults.append(f"parameter {name!r}: unknown: {known}")
        elif text is not None and (wrong := _fault_of_text(declared[name], text)):
            faults.append(f"parameter {name!r}: {_shown(text)}: {wrong}")
    return faults


def secrets_named(
    declared: Mapping[str, Mapping[str, Any]], values: Mapping[str, str]
) -> list[str]:
    """The names of secrets in ``values``: those of parameters with the type ``secret``."""
    return [
        values[name] for name, row in declared.items() if row["type"] == SECRET and name in values
    ]


def _fault_of_text(row: Mapping[str, Any], text: str) -> str:
    """Why a run's value does not fit a parameter; empty if it does."""
    try:
        value = _read(row["type"], text)
    except ValueError as error:
        return str(error)
    return _fault_of_value(row, value)


def _read(kind: str, text: str) -> Value:
    if kind == "integer":
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
            raise ValueError("want a whole number")
        return int(text)
    if kind == "number":
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text):
            raise ValueError("want a number")
        number = float(text)
        if not math.isfinite(number):
            raise ValueError("want a finite number")
        return number
    if kind == "boolean":
        if text.lower() not in (*_TRUE, *_FALSE):
            raise ValueError("want true or false")
        return text.lower() in _TRUE
    return text


def _fault_of_value(row: Mapping[str, Any], value: Value) -> str:
    kind = row["type"]
    if not _is_of(kind, value):
        return f"is no {kind}"
    if kind == SECRET and not SECRET_NAME.fullmatch(str(value)):
        return "want the name of a secret: a lower-case letter, then a-z, 0-9 and '-'"
    choices = row.get("choices")
    if choices and not any(_is_same(value, each) for each in choices):
        return f"want one of {', '.join(text_of(each) for each in choices)}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "min" in row and value < row["min"]:
            return f"less than {text_of(row['min'])}, the least"
        if "max" in row and value > row["max"]:
            return f"more than {text_of(row['max'])}, the most"
    return ""


def _is_of(kind: str, value: Any) -> bool:
    if kind == "boolean" or isinstance(value, bool):
        return kind == "boolean" and isinstance(value, bool)
    if kind in ("string", SECRET):
        return isinstance(value, str)
    if kind == "integer":
        return isinstance(value, int)
    return isinstance(value, (int, float)) and math.isfinite(value)


def _is_same(one: Value, other: Value) -> bool:
    """Equality that keeps ``true`` and ``1`` apart."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


# --- faults ---------------------------------------------------------------------------------------


def nearest(name: str, known: Any) -> str:
    """The end of a fault about an unknown name: the known one that was probably meant."""
    close = difflib.get_close_matches(name.lower(), [str(each) for each in known], n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _listed(names: Any) -> str:
    shown = [str(each) for each in names]
    return ", ".join(shown[:20]) + (", ..." if len(shown) > 20 else "")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "..."


def _of_error(error: Any) -> list[Fault]:
    """The faults of one error of the validator, in this product's words."""
    path = tuple(error.absolute_path)
    wanted = error.validator_value
    if error.validator == "additionalProperties" and wanted is False:
        known = error.schema.get("properties", {})
        return [
            Fault((*path, name), f"unknown key{nearest(name, known)}")
            for name in error.instance
            if name not in known
        ]
    if error.validator == "required":
        missing = [name for name in wanted if name not in error.instance]
        # The validator reports each missing key by itself, with the same list.
        return [Fault((*path, name), "missing") for name in missing if repr(name) in error.message]
    if "propertyNames" in error.absolute_schema_path:
        text = "not a name: want a letter, then letters, digits, '_' and '-'; storlet_ is reserved"
        return [Fault((*path, error.instance), text)]
    return [Fault(path, f"{_shown(error.instance)}: {_wanted(error.validator, wanted, error)}")]


def _wanted(validator: str, wanted: Any, error: Any) -> str:
    texts: dict[str, Callable[[], str]] = {
        "type": lambda: f"want {_or(wanted)}",
        "enum": lambda: f"want one of {', '.join(map(str, wanted))}",
        "const": lambda: f"want {wanted}",
        "maxLength": lambda: f"longer than {wanted} characters",
        "minLength": lambda: "must not be empty",
        "maxItems": lambda: f"more than {wanted} items",
        "minItems": lambda: f"fewer than {wanted} items",
        "maxProperties": lambda: f"more than {wanted} keys",
        "uniqueItems": lambda: "has an item twice",
        "minimum": lambda: f"less than {wanted}",
        "maximum": lambda: f"more than {wanted}",
    }
    if validator in texts:
        return str(texts[validator]())
    described = error.schema.get("description", "")
    if not described:
        return f"does not match {wanted}"
    return f"want {described}" if described.startswith("a ") else f"want: {described}"


def _or(types: Any) -> str:
    return " or ".join([types] if isinstance(types, str) else types)


def _between_fields(
    document: Mapping[str, Any], wrong: Sequence[tuple[str | int, ...]]
) -> list[Fault]:
    """The faults between fields, as far as those have no fault of their own.

    :param wrong: the fields that do not fit the schema.
    """
    broken = {path[0] for path in wrong if path}
    faults: list[Fault] = []
    for fields, check in _CHECKS:
        if not broken.intersection(fields):
            faults += check(document)
    for name, row in _rows(document, "parameters", wrong):
        faults += _of_parameter(("parameters", name), row)
    for index, case in _rows(document, "tests", wrong):
        for fields, check_case in _CHECKS_OF_CASE:
            if not broken.intersection(fields):
                faults += check_case(document, ("tests", index), case)
    return faults


def _rows(
    document: Mapping[str, Any], field: str, wrong: Sequence[tuple[str | int, ...]]
) -> list[tuple[Any, Any]]:
    """The rows of a field that fit the schema, each with its key."""
    rows = document.get(field)
    if (field,) in wrong or not isinstance(rows, (dict, list)):
        return []
    keyed = rows.items() if isinstance(rows, dict) else enumerate(rows)
    broken = {path[1] for path in wrong if path[0] == field}
    return [(key, row) for key, row in keyed if key not in broken]


def _faults_of_language(document: Mapping[str, Any]) -> list[Fault]:
    language = document["language"]
    faults = []
    for key in document:
        owners = languages.owners_of(key)
        if owners and language not in owners and document[key]:
            text = f"is of {' and '.join(owners)} storlets only; the language is {language}"
            faults.append(Fault((key,), text))
    return faults


def _faults_of_program(document: Mapping[str, Any]) -> list[Fault]:
    if languages.form_of(document) is not Form.FILES or ":" in document["main"]:
        return []
    wanted = "a program has no seekable inputs: use a shared object, with main FILE:FUNCTION"
    return [Fault((key,), wanted) for key in ("input", "ranges") if document.get(key)]


def _faults_of_inputs(document: Mapping[str, Any]) -> list[Fault]:
    least, most = input_counts(document)
    return [Fault(("inputs", "max"), f"{most}: less than inputs.min")] if most < least else []


def _faults_of_secrets(
    document: Mapping[str, Any], path: tuple[str | int, ...], case: Mapping[str, Any]
) -> list[Fault]:
    """The faults of the secrets of a test case: a run has no others than these."""
    values = {name: text_of(value) for name, value in case.get("parameters", {}).items()}
    named = secrets_named(document.get("parameters", {}), values)
    known = [*document.get("secrets", ()), *named]
    least, most = SECRET_BYTES
    faults = []
    for name, text in case.get("secrets", {}).items():
        if name not in known:
            wanted = "is in neither secrets nor a parameter of the type secret"
            faults.append(Fault((*path, "secrets", name), wanted))
        elif not least <= len(text.encode()) <= most:
            faults.append(Fault((*path, "secrets", name), f"want {least} to {most} bytes"))
    return faults


def _faults_of_case(
    document: Mapping[str, Any], path: tuple[str | int, ...], case: Mapping[str, Any]
) -> list[Fault]:
    named, most = len(outputs_of(case)), output_counts(document)[1]
    if named <= most:
        return []
    return [Fault((*path, "output"), f"{named} files: of {most} outputs")]


def secrets_of(case: Mapping[str, Any]) -> dict[str, bytes]:
    """The secrets of the run of a test case."""
    return {name: text.encode() for name, text in case.get("secrets", {}).items()}


def _faults_of_outputs(document: Mapping[str, Any]) -> list[Fault]:
    faults: list[Fault] = []
    least, most = output_counts(document)
    if most < least:
        faults.append(Fault(("outputs", "max"), f"{most}: less than outputs.count"))
    streams = input_counts(document)[0] + least - 1 + bool(document.get("services"))
    if streams > _STREAMS:
        text = f"{least}: with the inputs and services, {streams - _STREAMS} too many"
        faults.append(Fault(("outputs", "count"), text))
    types = document.get("outputs", {}).get("types", [])
    if len(types) > most:
        faults.append(Fault(("outputs", "types"), f"{len(types)} types: of {most} outputs"))
    return faults


def _faults_of_main(document: Mapping[str, Any]) -> list[Fault]:
    main, row = document["main"], languages.language(document["language"])
    if row is None or row.main is None:
        names = [path.rpartition("/")[2] for path in document.get("files", ())]
        if not names:
            return [Fault(("files",), "missing: name the files that the build makes")]
        if main.partition(":")[0] not in names:
            wanted = f"want the name of one of files: {', '.join(names)}"
            return [Fault(("main",), f"{main!r}: {wanted}")]
        return []
    is_class = row.main.fullmatch(main)
    return [] if is_class else [Fault(("main",), f"{main!r}: want {row.main_rule}")]


def _of_parameter(path: Sequence[str | int], row: Mapping[str, Any]) -> list[Fault]:
    kind, faults = row["type"], []
    is_number = kind in ("integer", "number")
    faults += [
        Fault((*path, key), f"a {kind} has no {key}")
        for key in ("min", "max")
        if key in row and not is_number
    ]
    if faults:
        return faults
    if "min" in row and "max" in row and row["max"] < row["min"]:
        faults.append(Fault((*path, "max"), f"{row['max']}: less than min"))
    without_choices = {key: value for key, value in row.items() if key != "choices"}
    for index, choice in enumerate(row.get("choices", ())):
        wrong = _fault_of_value(without_choices, choice)
        if wrong:
            faults.append(Fault((*path, "choices", index), f"{_shown(choice)}: {wrong}"))
    if "default" in row:
        wrong = _fault_of_value(row, row["default"])
        if wrong:
            faults.append(Fault((*path, "default"), f"{_shown(row['default'])}: {wrong}"))
        if row.get("required"):
            faults.append(Fault((*path, "required"), "a parameter with a default is not required"))
    return faults


#: The checks between fields, each with the top-level fields that it reads.
_CHECKS: Sequence[tuple[Sequence[str], Callable[[Mapping[str, Any]], list[Fault]]]] = (
    (("language",), _faults_of_language),
    (("language", "main"), _faults_of_program),
    (("language", "main", "files"), _faults_of_main),
    (("inputs",), _faults_of_inputs),
    (("inputs", "outputs", "services"), _faults_of_outputs),
)
#: The same for each test case that fits the schema.
_CHECKS_OF_CASE: Sequence[
    tuple[
        Sequence[str],
        Callable[[Mapping[str, Any], tuple[str | int, ...], Mapping[str, Any]], list[Fault]],
    ]
] = (
    (("parameters", "secrets"), _faults_of_secrets),
    (("outputs",), _faults_of_case),
)
