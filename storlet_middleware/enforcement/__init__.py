"""What an account's rules do to a request.

``ruling``          decides an operation: pass it on, run storlets, filter a listing, answer, or refuse
``inquiry``         one operation, the rules that apply to it, and what they decide
``requirements``    refusals of the ways around a rule
``storlet_runs``    the storlets that rules want, as requests and a plan
``passing``         Swift's answers on their way to the caller: checked, pinned or reduced
``explanation``     what the rules would do, and why
``read_guard``      asks the rules about every further read that Swift makes for the same request
``judge``           the rules of all accounts, asked about single reads
``request_facts``   what the rules may look at, taken from the request
``segments``        asks the rules about the segments of a static large object
``listing``         container listings without the facts of covered objects
``s3``              how a refusal reaches a client of the S3 API
"""
