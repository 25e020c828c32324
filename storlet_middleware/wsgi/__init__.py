"""Requests, callers and answers: the part of HTTP that is independent of storlets.

``operation``         one request as Swift understands it, parsed once
``context``           the state of a request during its handling, and its chain of authorization
``storlet_request``   a request for a storlet: headers and query, parsed into a frozen value
``byte_ranges``       byte ranges as HTTP writes them
``swift_paths``       the object that a path in Swift denotes
``strings``           WSGI strings and text
``caller``            the caller, as identified by the authentication middlewares
``account_info``      the metadata of the account, as Swift has cached it
``delegation``        requests allowed by a signature, and the extent of the signature
``s3_request``        the S3 request behind a Swift request; operations of S3 that run no storlet
``s3_errors``         errors as clients of the S3 API understand them
``s3_headers``        headers of this package on successful answers to clients of the S3 API
``authorization``     runs Swift's own authorization for a caller
``early_refusal``     Swift's refusal of a PUT before its bytes: rights, container, quotas
``deferred_put``      a PUT that the filter decides now, and that is sent later
``grants``            access to a container's objects through one storlet only
``grant_changes``     requests that change or show grants
``user_metadata``     the headers that are user metadata, and the subset that storlets see
``sent_headers``      headers of requests to Swift that its HTTP client can send
``stored_headers``    headers of an object that a storlet made, checked before Swift sees them
``bodies``            inputs that come through Swift: a client's body, an object's assembled stream
``dynamic_object``    the length of a dynamic large object that Swift reads without one
``disconnect``        detects clients that disconnected, and breaks a connection
``answer``            an answer that is sent unchanged
``gate``              requests data from Swift in a caller's name, and checks the answers by rules
``subrequest``        sub-requests to Swift
``own_requests``      requests of the filter itself, pre-authorized
``change_lock``       one change at a time, of those that take several requests
"""
