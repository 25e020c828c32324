"""How the workers of each language are started: one row and one folder per language.

============ ===================================================================================
``table``    the rows: ``LANGUAGES``; everything that depends on a language reads them
``language`` the types of a row and of a runtime: ``Language``, ``Runtime``, ``ImagePaths``
``python``   starts Python workers (the worker itself is the package ``storlet_daemon.worker``)
``java``     starts Java workers (the worker itself is built from ``storlet_daemon/java``)
``native``   starts native workers (the worker itself is built from ``storlet_daemon/native``)
============ ===================================================================================

To add a language, add its row and a folder with its runtime, and install its interpreter in the
sandbox image.
"""
