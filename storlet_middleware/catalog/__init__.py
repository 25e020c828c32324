"""Storlets and dependencies as objects of an account.

``storlets``       upload checks, access, and resolution of a name to one exact version
``code_uploads``   writes into the code containers, checked
``manifests``      a tenant's declarations about a storlet or a dependency
"""
