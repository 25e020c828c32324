"""S3 Select: ``SelectObjectContent`` of the S3 API.

``filter``        Swift's ``s3api`` with one operation more, as a filter of the pipeline
``controller``    the operation: a GET of the object that runs ``std:s3-select``
``select_xml``    the client's XML as a request of the storlet
``fault_codes``   S3's codes of errors, and their statuses
``frames``        reads the storlet's output
``event_stream``  writes S3's event stream

The query is parsed and runs in the sandbox of the account (``storlets/std/s3-select``).  See
``docs/decisions/0048-s3-select.rst`` and ``0049-dialect-of-s3-select.rst``.
"""
