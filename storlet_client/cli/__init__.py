"""The command ``storlet``.

``main``      the entry point, its options, and the exit code of an error
``storlets``  ``list``, ``show``, ``deploy``, ``delete``, ``download``
``invoke``    ``upload``, ``invoke`` and ``logs``
``watch``     repetition of a command at each save
``projects``  ``init``, ``build``, ``versions`` and ``rollback``
``local``     ``run`` and ``test``
``check``     ``check``
``runs``      ``runs`` and ``show-run``
``replay``    ``replay``
``flows``     ``library`` and ``distribute``
``query``     ``query``
``access``    ``grants``, ``grant``, ``revoke`` and ``rules``
``account``   ``doctor``, ``enable`` and ``info``
``account_secrets``  ``secret set``, ``secret list`` and ``secret delete``
``operators`` commands that another package has: ``sandboxes`` and the offline checks of rules
``completion`` names of the account that the shell completes
``context``   the connection and the options that all commands share
``groups``    groups of commands that name the nearest known command
``output``    results as table, JSON, YAML or CSV
``summary``   the last line of a run on a terminal: time, place, usage and id
``progress``  progress bars, and files that appear only when they are complete
``failure``   the lines of an error, with the next command to try
``trace``     ``-v``: the HTTP requests, without secrets
"""

from __future__ import annotations
