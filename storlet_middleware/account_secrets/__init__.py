"""Secrets of accounts: values that an account's storlets use, and that no caller reads back.

``sealing``  the encryption of values, and the keys of the cluster for it
``store``    secrets as objects of a container that no client can reach
``answers``  ``POST``, ``DELETE`` and ``GET /v1/ACCOUNT?storlet-secrets``

A value is decrypted in a proxy's process only, for a run whose storlet declares it.  It is sent to
the worker in the message of the invocation, and never in a header: storlets with secrets run at the
proxy server.
"""
