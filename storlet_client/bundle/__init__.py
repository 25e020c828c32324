"""The format of bundles, for both sides: ``storlet build`` makes them, a proxy verifies them.

``manifest``              the manifest: schema, faults, normal form, ranges of engine versions
``manifest.schema.json``  its published JSON Schema
``languages``             the languages: form of the code, keys of the manifest, entry point
``archive``               the zip: written reproducibly, verified without trust

``storlet_middleware/bundle`` is a link to this folder, so both distributions contain the same
files.  The modules import nothing of either, and run on Python 3.9.
"""
