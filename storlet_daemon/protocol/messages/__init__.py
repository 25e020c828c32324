"""A frozen class per message of the protocol, and ``parse``, which reads one.

This package is the interface of its modules: other packages write ``messages.Invoke``.

=================== ===========================================================================
``fields``          how a class describes its keys; ``Message``, ``parse``, ``ProtocolError``
``invocation``      filter, worker, supervisor: one invocation and its events
``services``        worker and filter: requests of a running storlet to the store
``worker_reports``  worker to supervisor: ready, begin, end
``control``         node daemon and supervisor: worker groups, placement, inspection
``node``            filter and node daemon: a sandbox with a storlet in it
=================== ===========================================================================

Each of the tables below lists the messages that are allowed at one point of the protocol.

====================== ========================== =============================================
table                  from, to                   messages
====================== ========================== =============================================
``INVOCATION_REQUEST`` filter, worker             Invoke
``INVOCATION_EVENTS``  worker or supervisor,      Started, Metadata, Done
                       filter
``INVOCATION_END``     filter, supervisor         Taken
``SERVICE_REQUESTS``   worker, filter             OpenObject, StatObject, ListContainer,
                                                  SetMetadata, CopyObject, DeleteObject,
                                                  CallStorlet, CreateObject, CloseFile,
                                                  DiscardFile
``SERVICE_REPLIES``    filter, worker             Opened, Feeding, Created, Described, Performed,
                                                  StreamEnded, ServiceFailed
``WORKER_REPORTS``     worker, supervisor         Ready, LoadFailed, Begin, End
``CONTROL_COMMANDS``   node daemon, supervisor    Load, Unload, AskStatus, Assign, Inspect,
                                                  Check, Placed
``CONTROL_REPORTS``    supervisor, node daemon    Hello, Loaded, Unloaded, GroupStatus,
                                                  Assigned, Inspected, Checked, Refused, Place
``NODE_REQUESTS``      filter, node daemon        Prepare, Acquire, AskNodeStatus, AskSelfTest
``NODE_ANSWERS``       node daemon, filter        Prepared, Acquired, NodeStatus, NodeRefused
====================== ========================== =============================================
"""

import importlib
from typing import TYPE_CHECKING

from .control import (
    CONTROL_COMMANDS,
    CONTROL_REPORTS,
    AskStatus,
    Assign,
    Assigned,
    Check,
    Checked,
    Group,
    GroupStatus,
    Hello,
    Inspect,
    Inspected,
    Load,
    Loaded,
    Place,
    Placed,
    Refused,
    Resources,
    Unload,
    Unloaded,
)
from .fields import (
    BAD_REQUEST,
    DESCRIPTORS_MAX,
    MESSAGE_MAX,
    VERSION,
    Kinds,
    Message,
    ProtocolError,
    parse,
)
from .invocation import (
    ERROR,
    FAILED,
    INVOCATION_END,
    INVOCATION_EVENTS,
    INVOCATION_REQUEST,
    LIMIT_MEMORY,
    LIMIT_METADATA,
    LIMIT_PROCESSES,
    LIMIT_SCRATCH,
    LIMIT_SERVICES,
    LOAD,
    OK,
    PROTOCOL,
    READ_MAX,
    SANDBOX_CODES,
    SEEK_FILE,
    SEEK_READS,
    SUMMARY_MAX,
    TRACEBACK_MAX,
    Done,
    Input,
    Invoke,
    Limits,
    Log,
    Metadata,
    Output,
    Services,
    Started,
    Taken,
    Usage,
    cut_middle,
    one_line,
)
from .worker_reports import WORKER_REPORTS, Begin, End, LoadFailed, Ready

if TYPE_CHECKING:
    from .node import (
        NODE_ANSWERS,
        NODE_CODES,
        NODE_REQUESTS,
        Acquire,
        Acquired,
        AskNodeStatus,
        AskSelfTest,
        NodeRefused,
        NodeStatus,
        Prepare,
        Prepared,
        Sandbox,
        SelfTest,
        Storlet,
    )
    from .services import (
        PAGE_MAX,
        SERVICE_CHANGED,
        SERVICE_CODES,
        SERVICE_GONE,
        SERVICE_NONE,
        SERVICE_REPLIES,
        SERVICE_REQUESTS,
        SERVICE_SHORT,
        SERVICE_UNDECLARED,
        SERVICES,
        CallStorlet,
        CloseFile,
        CopyObject,
        Created,
        CreateObject,
        DeleteObject,
        Described,
        DiscardFile,
        Facts,
        Feeding,
        ListContainer,
        Opened,
        OpenObject,
        Performed,
        ServiceFailed,
        ServiceRequest,
        SetMetadata,
        Span,
        StatObject,
        StreamEnded,
    )
else:

    def __getattr__(name: str) -> object:
        """Import ``node`` and ``services`` on first use: most sandboxes need neither."""
        if name in __all__:
            later = (importlib.import_module(f"{__name__}.{each}") for each in _LATER)
            module = next(module for module in later if hasattr(module, name))
            value = globals()[name] = getattr(module, name)
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_LATER = ("services", "node")

__all__ = [
    "BAD_REQUEST",
    "CONTROL_COMMANDS",
    "CONTROL_REPORTS",
    "DESCRIPTORS_MAX",
    "ERROR",
    "FAILED",
    "INVOCATION_END",
    "INVOCATION_EVENTS",
    "INVOCATION_REQUEST",
    "LIMIT_MEMORY",
    "LIMIT_METADATA",
    "LIMIT_PROCESSES",
    "LIMIT_SCRATCH",
    "LIMIT_SERVICES",
    "LOAD",
    "MESSAGE_MAX",
    "NODE_ANSWERS",
    "NODE_CODES",
    "NODE_REQUESTS",
    "OK",
    "PAGE_MAX",
    "PROTOCOL",
    "READ_MAX",
    "SANDBOX_CODES",
    "SEEK_FILE",
    "SEEK_READS",
    "SERVICES",
    "SERVICE_CHANGED",
    "SERVICE_CODES",
    "SERVICE_GONE",
    "SERVICE_NONE",
    "SERVICE_REPLIES",
    "SERVICE_REQUESTS",
    "SERVICE_SHORT",
    "SERVICE_UNDECLARED",
    "SUMMARY_MAX",
    "TRACEBACK_MAX",
    "VERSION",
    "WORKER_REPORTS",
    "Acquire",
    "Acquired",
    "AskNodeStatus",
    "AskSelfTest",
    "AskStatus",
    "Assign",
    "Assigned",
    "Begin",
    "CallStorlet",
    "Check",
    "Checked",
    "CloseFile",
    "CopyObject",
    "CreateObject",
    "Created",
    "DeleteObject",
    "Described",
    "DiscardFile",
    "Done",
    "End",
    "Facts",
    "Feeding",
    "Group",
    "GroupStatus",
    "Hello",
    "Input",
    "Inspect",
    "Inspected",
    "Invoke",
    "Kinds",
    "Limits",
    "ListContainer",
    "Load",
    "LoadFailed",
    "Loaded",
    "Log",
    "Message",
    "Metadata",
    "NodeRefused",
    "NodeStatus",
    "OpenObject",
    "Opened",
    "Output",
    "Performed",
    "Place",
    "Placed",
    "Prepare",
    "Prepared",
    "ProtocolError",
    "Ready",
    "Refused",
    "Resources",
    "Sandbox",
    "SelfTest",
    "ServiceFailed",
    "ServiceRequest",
    "Services",
    "SetMetadata",
    "Span",
    "Started",
    "StatObject",
    "Storlet",
    "StreamEnded",
    "Taken",
    "Unload",
    "Unloaded",
    "Usage",
    "cut_middle",
    "one_line",
    "parse",
]
