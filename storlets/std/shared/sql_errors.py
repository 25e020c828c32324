"""The errors of DuckDB, each in one line and in the terms of a storlet."""

from __future__ import annotations

import re

from sql_check import SqlError

_EXCERPT = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^", re.DOTALL)
_PATH = re.compile(r"(?:in file )?[\"']?(?:/proc/self/fd/\d+|object://input|/\S+/sample)[\"']?")
#: Threads of the reader of CSV have begun at a line end that ends no row.
_PARALLEL = re.compile("parallel (csv|scan)", re.IGNORECASE)
#: The reader's error for a CR where it expects none.
_LINE_ENDS = re.compile("CSV Parser state machine reached an invalid state")
#: The number of a line in an error, which counts those that the reader has.
_LINE_NUMBER = re.compile(r" on Line: \d+")
#: The place in an error of the reader of JSON, which counts from 2.
_JSON_PLACE = re.compile(r"(Malformed JSON .* in (?:line|record/value)) (\d+)")
#: So begins the reason why a batch of Arrow is not read.
_BATCH = re.compile(r"arrow_scan: get_next failed\(\): (.*)", re.DOTALL)
#: So begins a message about a value of the object: the query is not wrong.
OBJECT = "the object"
_VALUE = re.compile(rf"{OBJECT}: column .*", re.DOTALL)
_NO_MEMORY = "Out of Memory Error"
_SHOWN = 60
MOST_MESSAGE = 600


class Errors:
    """The errors of one engine.

    :ivar has_all_lines: each reader gets all lines of the object, so their numbers are right.
    """

    def __init__(self, subject: str, advice: str, memory_mib: int) -> None:
        """
        :param subject: the start of messages about the query.
        :param advice: a change of the run that needs less memory.
        """
        self._subject = subject
        self._advice = advice
        self._memory_mib = memory_mib
        self.has_all_lines = True

    def explained(self, error: Exception, lines: int, query: str = "") -> SqlError:
        """An error of DuckDB in one line; ``lines`` of the statement are before the query."""
        whole = str(error)
        text, where = whole, ""
        excerpt = _EXCERPT.search(whole)
        if excerpt is not None and query:
            text = whole[: excerpt.start()]
            line, shown, caret = int(excerpt[1]) - lines, excerpt[2], len(excerpt[3])
            near = shown[max(caret - len(f"LINE {excerpt[1]}: "), 0) :].strip()[:_SHOWN]
            where = f"line {line}, at {near!r}: " if near else f"line {line}: "
        # After an empty line follow the settings of the reader.
        text = _PATH.sub("the object", text.partition("\n\n")[0])
        text = " ".join(text.split())[:MOST_MESSAGE]
        if not self.has_all_lines:
            text = _LINE_NUMBER.sub("", text)
        text = _JSON_PLACE.sub(lambda match: f"{match[1]} {int(match[2]) - 1}", text)
        if _LINE_ENDS.search(text):
            text = (
                "a CR without LF is outside of quotes, or some lines end with CR LF and others with"
                " LF (parallel=false reads these with one thread)"
            )
        value = _VALUE.search(text)
        if value is not None:
            return SqlError(value[0])
        batch = _BATCH.search(text)
        if batch is not None:
            return SqlError(f"{OBJECT} is no valid Arrow: a batch cannot be read: {batch[1]}")
        if _PARALLEL.search(text):
            text += " (parallel=false reads the CSV with one thread)"
        elif "CSV Error" in text or "JSON" in text:
            text += " (types=text reads all columns as text)"
        # A stream of Arrow has only the text of the error.
        if whole.startswith(_NO_MEMORY):
            return SqlError(
                f"{self._subject}: needs more memory than memory-mib={self._memory_mib}:"
                f" {self._advice}raise memory-mib ({text})"
            )
        subject = f"{self._subject}: " if query else ""
        return SqlError(f"{subject}{where}{text}")
