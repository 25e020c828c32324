"""Storlets and dependencies as objects of an account.

``storlets``       upload checks, access, and resolution of a name to one exact version
``code_uploads``   writes into the code containers, checked
``plain_uploads``   a checked upload of a plain storlet
``staged_uploads``  uploads that wait for their check, and the objects that hold code
``upload_check``    the check of code before it takes effect: its sandbox loads it, and runs its
                   test cases
``self_tests``      the test cases of a bundle, and their comparison with runs
``self_tests_process``  the child process that reads them
``bundle_uploads``  upload, rollback and deletion of bundles, and the list of their versions
``bundle_objects``  the objects of one bundle: its pointer and its versions
``bundle_check``    an uploaded bundle against the limits and languages of this cluster
``bundle_process``  the child process that reads a bundle's bytes
``bundle_store``    bundles and their versions as objects; resolution of ``name@number``
``library``         the storlets that every account has, named ``std:NAME``
``library_list``    the answer to ``?storlet-library``
``library_callers``  the callers that may run them, by the account's setting
``manifests``      a tenant's declarations about a storlet or a dependency
"""
