"""Changes or drops columns of CSV or keys of JSON lines, by a contract that names each of them.

In columns of free text, and in objects that are free text, it replaces the values that it finds.
It fails closed: a column without an action, a value that its action cannot change, and a line that
cannot be read are errors.
"""

from __future__ import annotations

import json
from typing import Any

from storlet import secrets

from contract import DROP, Action, ContractError, contract_of
from declared_kinds import declared_kinds
from parameters import shown
from presidio_kinds import presidio_kinds
from tables import DROPPED, csv_changed, json_changed, text_changed
from text_kinds import Kind

#: A tab at the end of a header's value is lost, so the delimiter has a name.
DELIMITERS = {"tab": "\t"}
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
    "text": "text/plain; charset=utf-8",
}


class Deidentify:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        name = params.get("key")
        contract = contract_of(
            params["columns"], secrets.get(name) if name else None, further_kinds(params)
        )
        delimiter = DELIMITERS.get(params["delimiter"], params["delimiter"])
        if len(delimiter) != 1 or delimiter in '"\r\n\0':
            raise ContractError("delimiter: want one character, or tab")
        target = out_files[0]
        target.set_metadata({"Content-Type": TYPES[params["format"]]})
        changes = Changes(contract)
        if params["format"] == "csv":
            count = csv_changed(in_files[0], target, contract, delimiter, changes.apply)
        elif params["format"] == "jsonl":
            count = json_changed(in_files[0], target, contract, changes.apply)
        else:
            count = text_changed(in_files[0], target, contract, changes.apply)
        if len(out_files) > 1:
            out_files[1].set_metadata({"Content-Type": "application/json"})
            out_files[1].write(json.dumps(changes.receipt(count)).encode() + b"\n")


def further_kinds(params: dict[str, str]) -> tuple[Kind, ...]:
    """The kinds that the caller declares."""
    patterns, presidio = params.get("patterns"), params.get("presidio")
    return (
        *(declared_kinds(patterns) if patterns else ()),
        *(() if presidio is None else presidio_kinds(presidio, float(params["least-score"]))),
    )


class Changes:
    """Applies the actions, and counts the values that each has changed."""

    def __init__(self, contract: dict[str, Action]) -> None:
        self._contract = contract
        self._counts = dict.fromkeys(contract, 0)

    def apply(self, line: int, column: str, value: Any) -> Any:
        """The new value.

        :raises ContractError: the action cannot change this value.
        """
        action = self._contract[column]
        if action.name == DROP:
            self._counts[column] += 1
            return DROPPED
        # There is nothing to change in an empty value, and nothing to hide.
        if action.change is None or value is None or value == "":
            return value
        if isinstance(value, bool) or not isinstance(value, str):
            raise ContractError(
                f"line {line}: {shown(column)}: {action.name} is for texts and numbers only"
            )
        if action.finder is not None and "\0" in value:
            # Text in UTF-16 without a byte order mark is valid UTF-8, in which nothing is found.
            raise ContractError(
                f"line {line}: {shown(column)}: has the character NUL, as text in UTF-16 has: "
                "convert it to UTF-8"
            )
        try:
            changed = action.change(str(value))
        except ContractError as error:
            raise ContractError(f"line {line}: {shown(column)}: {error}") from None
        except (ValueError, OverflowError):
            # The exception has the value.
            raise ContractError(
                f"line {line}: {shown(column)}: {action.name} cannot change this value"
            ) from None
        if action.finder is not None and changed == value:
            # A number in JSON stays one.
            return value
        self._counts[column] += 1
        return changed

    def receipt(self, records: int) -> dict[str, Any]:
        """The counts, without any value."""
        return {
            "records": records,
            "columns": {
                name: {"action": action.name, "changed": self._counts[name], **found_by(action)}
                for name, action in self._contract.items()
            },
        }


def found_by(action: Action) -> dict[str, Any]:
    """The number of values of each kind that an action for free text has replaced."""
    return {} if action.finder is None else {"found": action.finder.counts}
