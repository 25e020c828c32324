"""What an account's rules do to a request.

``ruling``          decides a request by the rules: refuse it, run storlets, hide what is covered, or pass it on
``read_guard``      asks the rules about every further read that Swift does for the same request
``request_facts``   what the rules may look at, taken from the request
``segments``        asks the rules about the segments of a static large object
``listing``         container listings without the facts of covered objects
``s3``              how a refusal reaches a client of the S3 API
"""
