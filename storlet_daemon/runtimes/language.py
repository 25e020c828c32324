"""The interface of a language to the rest of the product, and the duties of its runtime.

A runtime checks that the image has what a storlet needs. In a freshly forked child whose
descriptors are already in order, it turns the child into a worker.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import NoReturn, Protocol

from storlet_daemon.budget import Cost
from storlet_daemon.protocol.messages import Load, Resources
from storlet_daemon.protocol.values import dataclass

LISTENING = 3
CHANNEL = 4
"""The descriptors of a worker when it is forked.

0 is /dev/null, 1 and 2 are the memory file for output of the load, nothing else is open.
"""


@dataclass(frozen=True)
class Start:
    """The surroundings of a new worker process.

    ``control_group`` is the directory of its worker group's control groups, empty if there is none.
    ``channel`` is the descriptor of the channel to the supervisor, which may have been moved.
    """

    control_group: str = ""
    channel: int = CHANNEL


@dataclass(frozen=True)
class PathOption:
    """A path of the image. Tests on a host change it by the supervisor's option of that name."""

    name: str
    default: str
    help: str


CODE_ROOT = PathOption("code-root", "/var/lib/storlets", "a folder per storlet version")


@dataclass(frozen=True)
class ImagePaths:
    """The paths of the image; ``chosen`` replaces defaults, by name of the option."""

    chosen: Mapping[str, str] = field(default_factory=dict)

    def get(self, option: PathOption) -> str:
        """The path of ``option``."""
        return self.chosen.get(option.name, option.default)

    def execution_path(self, load: Load) -> str:
        """The folder of a storlet version: its file and its dependencies."""
        return os.path.join(self.get(CODE_ROOT), load.code)


class Runtime(Protocol):
    """Starts the workers of one language. ``cost`` is what each needs at its start."""

    cost: Cost

    def missing(self, load: Load) -> str | None:
        """Why this image cannot run the storlet, for its author; None if it can."""

    def workers_max(self, load: Load) -> int:
        """How many workers the storlet's limits suffice for; at least 1."""

    def become_worker(self, load: Load, start: Start) -> NoReturn:
        """Turn this process, a new child of the supervisor, into a worker.

        Never returns; an exception ends the child.
        """


@dataclass(frozen=True)
class Language:
    """One row of the table.

    ``name`` is the name of the language in a manifest, ``title`` its name in texts. ``versions``
    and ``workers_max`` are defaults of the configuration. ``least_limits`` are the smallest limits
    that a storlet of this language may declare, beyond the minimum of all languages.

    ``file_name`` and ``main`` are the patterns of a manifest's values, each with its rule in words.
    With ``main_is_in_file``, ``main`` must be ``<file name without suffix>.<name>``. With
    ``main_is_file``, it begins with the name of an executable file, up to a ``:``: the storlet's
    own, or a dependency's. With ``has_version``, a manifest may select one of the configured
    versions; ``Language-Version`` is ignored otherwise. With ``has_arguments``, a manifest may
    have ``Arguments``. With ``has_services``, its storlets may declare services, with
    ``has_secrets`` secrets of the account, and with ``has_seekable_inputs`` seekable inputs. With
    ``full_form``, only those may whose ``main`` has this pattern; ``full_form_rule`` is its rule in
    words, for what the others lack.

    ``worker_cost`` is what an idle worker needs, measured and rounded up. ``worker_share`` is what
    each worker must get of the storlet's own limits; with less, fewer workers run. ``paths`` are
    the paths that the runtime uses. ``packages`` are the Debian packages of the sandbox image.
    """

    name: str
    title: str
    versions: tuple[str, ...]
    workers_max: int
    file_name: re.Pattern[str]
    file_rule: str
    main: re.Pattern[str]
    main_rule: str
    worker_cost: Cost
    worker_share: Cost
    paths: Mapping[str, PathOption]
    packages: tuple[str, ...]
    runtime: Callable[[Language, ImagePaths], Runtime]
    least_limits: Resources = field(default_factory=Resources)
    main_is_in_file: bool = False
    main_is_file: bool = False
    has_version: bool = False
    has_arguments: bool = False
    has_services: bool = False
    has_secrets: bool = False
    has_seekable_inputs: bool = False
    full_form: re.Pattern[str] | None = None
    full_form_rule: str = ""

    def fault_of_form(self, main: str, lacks: str) -> str:
        """Why a storlet of this ``main`` cannot declare what ``lacks`` names; empty if it can."""
        if self.full_form is None or not main or self.full_form.fullmatch(main):
            return ""
        return self.full_form_rule.format(lacks)
