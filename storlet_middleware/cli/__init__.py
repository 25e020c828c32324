"""The ``storlet`` command: what an operator asks a node, and what a tenant's rules say, before they are uploaded.

``__main__``   the words of the command line, and what becomes of an error
``command``    what a subcommand is; errors that a person can mend, each with its exit code
``node``       the node's sandboxd, asked over its socket
``text``       tables and durations for people
``sandboxes``  ``storlet sandboxes``
``rules``      ``storlet rules check``, ``test`` and ``explain``: offline
``cases``      the file of example requests for ``storlet rules test``

To add a subcommand, write a module with a :class:`~storlet_middleware.cli.command.Command` and name it in ``__main__``.
It imports neither Swift nor Docker, so that it starts at once and runs where only sandboxd does.
"""

from __future__ import annotations
