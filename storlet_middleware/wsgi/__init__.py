"""Requests, callers and answers: everything of HTTP that does not depend on what storlets are.

``operation``         one request as Swift understands it, parsed once
``context``           what is known of a request while it is handled, and its chain of authorization
``storlet_request``   the headers and the query that ask for a storlet, parsed into a frozen value
``byte_ranges``       byte ranges as HTTP writes them
``swift_paths``       which object a path within Swift stands for
``strings``           WSGI strings and text
``caller``            who makes the request, as the authentication middlewares say
``delegation``        requests that a signature allows, and what the signature covers
``authorization``     asks Swift's own authorization what the caller may do
``grants``            access to a container's objects through one storlet only
``grant_changes``     requests that change or show grants
``user_metadata``     which headers are user metadata, and what of it storlets see
``bodies``            inputs that come through Swift: a client's body, an object's assembled stream
``disconnect``        detects clients that disconnected, and breaks a connection
``answer``            an answer that is ready to be sent
``subrequest``        the requests that this package makes of Swift
"""
