"""Applies the profile to the events of a data set, and counts the attributes by their actions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dicom_dictionary import NUMBER_BYTES, Dictionary, allows
from dicom_elements import BEGIN, ELEMENT, END, ITEM, PIXELS, SEQUENCE, UNKNOWN, Event, named
from dicom_profile import UID_VR, Action, Profile
from dicom_source import DicomError
from dicom_values import Values
from dicom_writer import Writer

#: Groups of commands, files and directories, which are no part of a data set.
FIRST_GROUP = 0x0008
GROUP_LENGTH = 0x0000
#: Groups of curves and of overlays.
GRAPHICS = (0x5000, 0x6000)
PIXEL_GROUP = 0x7FE0
#: VRs of text, and the characters that it cannot have: all controls but TAB, LF, FF, CR and ESC.
TEXT_VRS = frozenset(
    "AE AS CS DA DS DT IS LO LT PN SH ST TM UC UI UR UT".split()  # noqa: SIM905
)
CONTROLS = re.compile(rb"[\0-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
#: The actions for which the value of an attribute does not count.
IGNORE_VALUE = (Action.REMOVE, Action.EMPTY, Action.DUMMY)

#: Elements by their tags: VR and value.
Additions = Mapping[int, tuple[str, bytes]]


class Plan(NamedTuple):
    """The treatment of an attribute.

    :ivar reason: why it is removed before the profile decides, or nothing.
    """

    reason: str
    action: Action
    is_counted: bool
    vrs: tuple[str, ...]


class Changes:
    """Writes the changed elements of a data set.

    :param additions: elements of the result by their tags, which replace those of the object; each
        is its VR and its value, or that of a sequence, in the encoding of the writer.
    """

    def __init__(
        self, profile: Profile, values: Values, dictionary: Dictionary, additions: Additions
    ) -> None:
        self._profile = profile
        self._values = values
        self._dictionary = dictionary
        self._additions = dict(sorted(additions.items()))
        self._own = frozenset(additions)
        self.kept = 0
        self.removed: Counter[str] = Counter()
        self.changed: Counter[tuple[int, Action]] = Counter()
        self._plans: dict[tuple[int, bool], Plan] = {}

    def apply(self, events: Iterable[Event], writer: Writer) -> None:
        """Write the result of events, which have no pixels."""
        depth = skipped = 0
        for event in events:
            kind = event.kind
            if skipped:
                skipped += (kind == BEGIN) - (kind == END)
            elif kind in (ELEMENT, BEGIN):
                if not depth:
                    self.add_before(event.tag, writer)
                is_written = self._write(event, depth, writer)
                if kind == BEGIN:
                    depth += is_written
                    skipped += not is_written
            elif kind == END:
                depth -= 1
                writer.end()
            elif kind == PIXELS:
                raise DicomError("there are pixels at two places")
            else:
                (writer.item if kind == ITEM else writer.item_end)()

    def add_before(self, tag: int, writer: Writer) -> None:
        """Write the additions whose tags are lower."""
        while self._additions and (first := next(iter(self._additions))) < tag:
            vr, value = self._additions.pop(first)
            if vr == SEQUENCE:
                writer.begin(first)
                writer.write(value)
                writer.end()
            else:
                writer.element(first, vr, value)

    def receipt(self) -> dict[str, Any]:
        """The counts, without any value."""
        return {
            "attributes": {
                f"{named(tag)} {self._dictionary.keyword(tag)}": {
                    "action": action.value,
                    "count": count,
                }
                for (tag, action), count in sorted(
                    self.changed.items(), key=lambda row: (row[0][0], row[0][1].value)
                )
            },
            "others": {"kept": self.kept, "removed": dict(sorted(self.removed.items()))},
        }

    def _write(self, event: Event, depth: int, writer: Writer) -> bool:
        """Write one element; whether the items of a sequence follow."""
        tag, is_nested = event.tag, bool(depth)
        if not is_nested and tag in self._own:
            return False
        plan = self._plans.get((tag, is_nested))
        if plan is None:
            plan = self._plans[tag, is_nested] = self._plan(tag, is_nested)
        if plan.reason:
            self.removed[plan.reason] += 1
            return False
        if event.vr == UNKNOWN and plan.action not in IGNORE_VALUE:
            # In big endian, such a value has another order of bytes.
            self.removed["VR UN"] += 1
            return False
        if plan.is_counted:
            self.changed[tag, plan.action] += 1
        else:
            self.kept += 1
        return self._write_planned(event, plan, writer)

    def _write_planned(self, event: Event, plan: Plan, writer: Writer) -> bool:
        tag, action = event.tag, plan.action
        vr = event.vr if event.vr in plan.vrs else plan.vrs[0]
        if action in IGNORE_VALUE:
            self._replace(event, vr, action, writer)
            return False
        if event.vr not in plan.vrs:
            raise DicomError(
                f"{named(tag)} {self._dictionary.keyword(tag)} has the VR {event.vr}, and the"
                f" standard has {' or '.join(plan.vrs)}"
            )
        if vr == SEQUENCE:
            writer.begin(tag)
            return True
        writer.element(tag, vr, self._value(event, vr, action))
        return False

    def _plan(self, tag: int, is_nested: bool) -> Plan:
        """The plan for an attribute with any value."""
        group, vrs = tag >> 16, self._dictionary.vrs(tag)
        is_listed = self._profile.lists(tag)
        reasons = {
            "private": group % 2,
            "curves and overlays": group & 0xFF00 in GRAPHICS,
            "group lengths": tag & 0xFFFF == GROUP_LENGTH,
            "unknown": group < FIRST_GROUP or not vrs,
            "pixels in sequences": is_nested and group == PIXEL_GROUP,
            "retired": self._dictionary.is_retired(tag) and not is_listed,
        }
        reason = next((name for name, holds in reasons.items() if holds), "")
        action = Action.REMOVE if reason else self._profile.action(tag)
        if action is Action.REMOVE and not is_listed and not reason:
            reason = "text, names and dates that the profile does not list"
        return Plan(reason, action, is_listed or action is not Action.KEEP, vrs)

    def _replace(self, event: Event, vr: str, action: Action, writer: Writer) -> None:
        if action is Action.REMOVE:
            return
        if vr != SEQUENCE:
            is_empty = action is Action.EMPTY
            value = b"" if is_empty else self._values.dummy(vr, event.value)
            writer.element(event.tag, vr, value)
            return
        writer.begin(event.tag)
        if action is Action.DUMMY:
            writer.item()
            writer.item_end()
        writer.end()

    def _value(self, event: Event, vr: str, action: Action) -> bytes:
        if action is Action.TOKEN:
            return self._values.token(event.value)
        if action is Action.UID and vr == UID_VR:
            return self._values.uids(event.value)
        if action is Action.SHIFT:
            try:
                return self._values.shifted(vr, event.value)
            except (ValueError, OverflowError):
                raise DicomError(
                    f"{named(event.tag)} {self._dictionary.keyword(event.tag)} has a value that"
                    " cannot be shifted"
                ) from None
        self._require_plain(event.tag, vr, event.value)
        return event.value

    def _require_plain(self, tag: int, vr: str, value: bytes) -> None:
        """Raise :class:`DicomError` for a value that others may be within."""
        fault = ""
        if vr in TEXT_VRS and CONTROLS.search(value.rstrip(b"\0 ")):
            fault = "control characters"
        elif value and vr in NUMBER_BYTES:
            count, rest = divmod(len(value), NUMBER_BYTES[vr])
            multiplicity = self._dictionary.multiplicity(tag)
            if rest or not allows(multiplicity, count):
                fault = f"{len(value)} bytes, and the standard has {multiplicity} values of {vr}"
        if fault:
            raise DicomError(
                f"{named(tag)} {self._dictionary.keyword(tag)} has {fault}: its length may be"
                " wrong, so that it has other attributes within"
            )
