"""Python packages that only some sandbox images have.

The image without one answers each run that needs it with the reason, not with a failed import.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from refusal import Refusal

#: A part of the standard library from Python 3.14 on.
ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
LZ4 = "lz4.frame"
_REASON = (
    "{subject} needs the Python package {package}, which the sandbox image of this account does not"
    " have: the operator of the cluster names an image that has it in [sandbox] image, or in"
    " [image:ACCOUNT] for one account; storlets/sandbox-data is one"
)


class PackageError(Refusal):
    """The image does not have a package."""


def reason(subject: str, package: str) -> str:
    """The text of the error of a run that needs ``package``."""
    return _REASON.format(subject=subject, package=package)


def loaded(subject: str, package: str) -> ModuleType:
    """The package, for the feature ``subject``.

    :raises PackageError: the image does not have it.
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        raise PackageError(reason(subject, package)) from None
