"""A pure library: facts about a request in, a decision out.

It will hold the tenant's rules (which requests run which storlets without the client asking).  It imports nothing of
Swift and nothing of the other packages, and it does no input or output beyond parsing; the import contract in
``pyproject.toml`` keeps it so.
"""
