"""The options of ``/etc/swift/storlet.conf``, each declared once.

``readers``   text of an option -> value
``option``    one row: kind, default, bounds, level and help of an option
``sections``  the table: a class for each section, a row for each option
``file``      reads a file into a :class:`Config`; reports every fault at once
``sample``    makes ``etc/storlet.conf-sample``; ``python3 -m storlet_middleware.config`` prints it

Proxy servers, object servers and ``storlet-sandboxd`` of a node read the same file.  The paste
section of the filter holds only ``use``, ``role``, ``storlet_conf_path`` and ``legacy_status``.

To add an option, add one row to its section in ``sections``.  The sample file, the reference page
and the checks of a file follow from it; a unit test requires that the option is used somewhere."""

from storlet_middleware.config.file import DEFAULT_PATH, ConfigError, load, nearest, parse
from storlet_middleware.config.option import Level, Limit, Option
from storlet_middleware.config.readers import SANDBOX_PATHS, Mount
from storlet_middleware.config.sample import sample
from storlet_middleware.config.sections import (
    ADMIN_CLASS,
    CLASS_OPTIONS,
    CLASSES,
    OPTIONS,
    USER_CLASS,
    AdmissionSection,
    Config,
    InvocationSection,
    LibrarySection,
    LimitsSection,
    NodeSection,
    PlacementSection,
    RulesSection,
    SandboxSection,
    SecretsSection,
    StorletSection,
    TrustClass,
)

__all__ = [
    "ADMIN_CLASS",
    "CLASSES",
    "CLASS_OPTIONS",
    "DEFAULT_PATH",
    "OPTIONS",
    "SANDBOX_PATHS",
    "USER_CLASS",
    "AdmissionSection",
    "Config",
    "ConfigError",
    "InvocationSection",
    "Level",
    "LibrarySection",
    "Limit",
    "LimitsSection",
    "Mount",
    "NodeSection",
    "Option",
    "PlacementSection",
    "RulesSection",
    "SandboxSection",
    "SecretsSection",
    "StorletSection",
    "TrustClass",
    "load",
    "nearest",
    "parse",
    "sample",
]
