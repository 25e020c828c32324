"""The ``storlet`` command: the state of a node for operators, and offline checks of rules.

``__main__``   the command line, and the exit code of an error
``entry``      the console script: one command with ``storlet-client``, if that is installed
``command``    the parts of a subcommand; expected errors, each with its exit code
``node``       requests to the node's sandboxd over its socket
``text``       tables and durations for people
``sandboxes``  ``storlet sandboxes``
``kept_space``  disk space of deleted files that processes of sandboxes keep
``rules``      ``storlet rules check``, ``test`` and ``explain``: offline
``rules_access`` ``storlet rules who-can`` and ``diff``: offline
``rules_files``  files of rules and findings, for both
``cases``      the file of example requests for ``storlet rules test``

To add a subcommand, write a module with a :class:`~storlet_middleware.cli.command.Command` and name
it in ``__main__``. It imports neither Swift nor Docker, so that it starts at once and runs where
only sandboxd does.
"""

from __future__ import annotations
