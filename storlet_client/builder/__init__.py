"""Makes bundles from the projects of authors: ``storlet build``.

``project``  a folder with ``storlet.toml``: its manifest and source; faults with line and column
``wheels``   the libraries of a Python storlet, which pip resolves for the sandbox
``bundler``  the bundle of a project
"""
