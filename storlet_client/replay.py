"""Repetition of a recorded run, and the comparison of both.

A repetition is a GET: nothing is stored.  It has the parameters, limits, range and further inputs
of the record.  The server is to read the recorded objects only (``If-Match``,
``X-Storlet-If-Resources``) and to run the recorded version only (``X-Storlet-If-Version``), so a
change in between is noticed, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from storlet_client.errors import BrokenAnswer, NotRepeatable, NotThere, Refused
from storlet_client.operations import LIBRARY, BundleVersion, Invocation
from storlet_client.output import Output
from storlet_client.storlets import Storlets

#: Passes the bytes of a stream, which has a name; a command shows their progress.
Passing = Callable[[Output, str], Iterable[bytes]]

OK = "ok"
_CONDITION = 412
#: The storlet failed, or exceeded a limit; any other error is none of its outcomes.
_FAILED = 422
#: The MD5 of no object.
_NO_ETAG = "0"
_VERSION_HEADER, _RESOURCES_HEADER = "X-Storlet-If-Version", "X-Storlet-If-Resources"
#: The fields of a request that a repetition has, too.
_REPEATED = ("byte_range", "resources", "limits", "if_match", "if_version", "if_resources")
#: A record is written some seconds after its run.
_RECORD_SECONDS = 15.0
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Ran:
    """The end of a repetition; ``sha256`` and ``size`` are those of the output of a success."""

    code: str
    message: str = ""
    size: int = 0
    sha256: str = ""


@dataclass(frozen=True)
class Row:
    """One compared fact."""

    name: str
    recorded: str
    repeated: str

    @property
    def is_same(self) -> bool | None:
        """Whether both agree; ``None`` where that says nothing about the runs.

        The text of a failure may have times, and a hash may be unknown.
        """
        is_judged = self.recorded and self.name != "message"
        return self.recorded == self.repeated or (False if is_judged else None)


def faults_of(record: Mapping[str, Any], *, any_version: bool) -> list[str]:
    """Why a run cannot be repeated."""
    return _of_kind(record) or ([] if any_version else _of_change(record))


def _of_kind(record: Mapping[str, Any]) -> list[str]:
    """Runs that cannot be repeated at all."""
    storlets, code = record.get("storlets", ()), record.get("code")
    faults = [
        ("rule" in record, f"rule {record.get('rule')} decided the run: repeat the plain request"),
        (not storlets, "its record hides the storlet from you, because a rule decided the run"),
        (len(storlets) > 1, f"it is a pipeline of {len(storlets)} storlets: only one is repeated"),
        ("object" not in record, "it read the outputs of other runs, and no object"),
        (
            record.get("service_operations"),
            "it used services of the store, which a repetition would use again",
        ),
        ("outputs" in record, "it has further outputs, which a repetition would store"),
        (record.get("method") == "PUT", "it is a PUT: its input was the body of its request"),
        (record.get("outcome") == "refused", f"its request was refused ({code}), so nothing ran"),
        (record.get("outcome") == "cancelled", "its client left before its end: it has no outcome"),
        (
            len(storlets) == 1 and "parameters" not in record,
            "its record has no parameters: they are too long, or the server was older",
        ),
    ]
    return [text for is_fault, text in faults if is_fault]


def _of_change(record: Mapping[str, Any]) -> list[str]:
    """Runs of which it cannot be known whether their inputs have changed."""
    also = "; --any-version repeats it with what is there now"
    faults = []
    if not record.get("etag"):
        faults.append(f"its record has no ETag of its object, or hides it from you{also}")
    if record.get("resources") and not record.get("resource_etags"):
        text = "it read further inputs, of which its record has no ETags, or hides them from you"
        faults.append(text + also)
    return faults


def kept_version(
    record: Mapping[str, Any], versions: Sequence[BundleVersion]
) -> BundleVersion | None:
    """The version of a bundle that ran; ``None`` if it is not kept any more."""
    digest = record["storlets"][0]["sha256"]
    return next((each for each in versions if each.sha256 == digest), None)


def invocation_of(
    storlets: Storlets, record: Mapping[str, Any], *, any_version: bool
) -> Invocation:
    """The request that repeats a run; :func:`faults_of` finds none in ``record``.

    :raises NotRepeatable: the version of a bundle is not kept any more.
    """
    ran = record["storlets"][0]
    return Invocation(
        ran["name"] if any_version else _name(storlets, record),
        record["object"],
        record["parameters"],
        byte_range=record.get("range", ""),
        resources=record.get("resources", ()),
        limits={name: f"{value:.12g}" for name, value in record.get("limits", {}).items()},
        if_match="" if any_version else record["etag"],
        if_version="" if any_version else ran.get("hash", ""),
        if_resources=() if any_version else record.get("resource_etags", ()),
    )


def _name(storlets: Storlets, record: Mapping[str, Any]) -> str:
    ran = record["storlets"][0]
    # A storlet of the library has one version, that of the server.
    if not ran.get("sha256") or "@" in ran["name"] or ran["name"].startswith(LIBRARY):
        return str(ran["name"])
    version = kept_version(record, storlets.versions(ran["name"]))
    if version is None:
        raise gone(record)
    return f"{ran['name']}@{version.number}"


def is_current(storlets: Storlets, invocation: Invocation) -> bool:
    """Whether the version of ``invocation`` is the current one of its storlet.

    The cluster compares them.  Nothing runs, because no object has the ETag of the request.
    """
    try:
        with storlets.run(
            invocation.storlet,
            invocation.path,
            if_match=_NO_ETAG,
            if_version=invocation.if_version,
        ) as stream:
            raise BrokenAnswer(f"{stream.invocation}: the cluster ignored If-Match")
    except Refused as error:
        if error.status != _CONDITION:
            raise
        return _VERSION_HEADER not in error.message


def gone(record: Mapping[str, Any]) -> NotRepeatable:
    """The error for a version that is not there any more."""
    ran = record["storlets"][0]
    if ran.get("sha256"):
        text = f"the version of {ran['name']} that ran is not kept any more"
    else:
        text = f"{ran['name']} has changed since the run, and only bundles have earlier versions"
    return NotRepeatable(
        f"{record['id']}: {text}; --any-version repeats the run with the current one"
    )


def changed(record: Mapping[str, Any], path: str = "") -> NotRepeatable:
    """The error for an object that is not the one that was read.

    :param path: that of a further input.
    """
    return NotRepeatable(
        f"{record['id']}: {path or record['object']} has changed since the run; --any-version"
        " repeats it with what is there now"
    )


def unwatched(stream: Output, _name: str) -> Iterable[bytes]:
    """The bytes of the stream."""
    return stream


def on_cluster(
    storlets: Storlets,
    record: Mapping[str, Any],
    invocation: Invocation,
    output: BinaryIO | None,
    passing: Passing = unwatched,
) -> Ran:
    """Repeat the run on the cluster.

    :param output: gets the output.
    :raises NotRepeatable: the object or the storlet has changed.
    """
    digest, size, run_id = hashlib.sha256(), 0, ""
    more = {name: getattr(invocation, name) for name in _REPEATED}
    try:
        with storlets.run(
            invocation.storlet, invocation.path, invocation.parameters, **more
        ) as stream:
            run_id = stream.invocation
            for chunk in passing(stream, invocation.path):
                digest.update(chunk)
                size += len(chunk)
                if output is not None:
                    output.write(chunk)
    except Refused as error:
        if error.status == _CONDITION:
            raise _changed(record, error.message) from error
        if error.status != _FAILED:
            raise
        # The traceback follows.
        return Ran(error.code, error.message.partition("\n")[0])
    except BrokenAnswer:
        return _of_record(storlets, run_id)
    return Ran(OK, "", size, digest.hexdigest())


def _changed(record: Mapping[str, Any], message: str) -> NotRepeatable:
    """The error for a condition that does not hold."""
    if _VERSION_HEADER in message:
        return gone(record)
    if _RESOURCES_HEADER not in message:
        return changed(record)
    path = message.partition(f"{_RESOURCES_HEADER}: ")[2].rpartition(" has another ETag")[0]
    return changed(record, path)


def _of_record(storlets: Storlets, run_id: str) -> Ran:
    """The end of a run that failed after its first bytes: its own record has the reason.

    :raises BrokenAnswer: there is none, so the connection may have failed.
    """
    give_up = time.monotonic() + _RECORD_SECONDS
    while time.monotonic() < give_up:
        with contextlib.suppress(Refused, NotThere):
            record = storlets.invocation(run_id)
            return Ran(str(record["code"]), str(record.get("message", "")))
        time.sleep(_POLL_SECONDS)
    raise BrokenAnswer(f"{run_id}: the output broke off, and there is no record of it")


def compared(record: Mapping[str, Any], ran: Ran) -> list[Row]:
    """Outcome, message of a failure, and size and hash of an output."""
    rows = [Row("outcome", str(record["code"]), ran.code)]
    if ran.code != OK or record["code"] != OK:
        return [*rows, Row("message", str(record.get("message", "")), _one_line(ran.message))]
    rows.append(Row("bytes", str(record.get("bytes_out", "")), str(ran.size)))
    return [*rows, Row("sha256", str(record.get("output_sha256", "")), ran.sha256)]


def _one_line(text: str) -> str:
    """A message as a record has it."""
    return " ".join(text.split())[:1024]
