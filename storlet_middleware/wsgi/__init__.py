"""A request, an answer and everything between them that does not depend on storlets' code.

``storlet_request``   the headers and the query that ask for a storlet, parsed once into a frozen value
``swift_paths``       which object a path within Swift stands for
``caller``            who makes the request, as the authentication middlewares say
``user_metadata``     which headers are user metadata, and what of it storlets see
``authorization``     asks Swift's own authorisation what the caller may do
``grants``            access to a container's objects through one storlet only
``bodies``            inputs that come through Swift: a client's body, an object's assembled stream
``disconnect``        notices clients that have left, and breaks a connection
``answer``            an answer that is ready to be sent
``subrequest``        the requests that this package makes of Swift
"""
