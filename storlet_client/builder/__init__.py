"""Makes bundles from the projects of authors: ``storlet build``.

``project``  a folder with ``storlet.toml``: its manifest and source; faults with line and column
``sources``  the source files of a project, which its author saves
``bundled_source``  the source of a project in its bundle, and the project from a bundle
``ignored``  the files that an author does not keep, by ``.gitignore``
``plain``    a plain file of a storlet without a project, and its bundle
``wheels``   the libraries of a Python storlet, which pip resolves for the sandbox
``jars``     the jars of a Java storlet: its own, and the libraries that Maven resolves
``native``   the files of a native storlet, which its own build makes
``template`` a new project, which works as it is
``bundler``  the bundle of a project
``rights``   the rights of builds and outputs under ``sudo``
``files``    folders and files of a user: complete or absent, and never root's because of ``sudo``
"""
