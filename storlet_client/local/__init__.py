"""Runs the storlet of a project or a bundle here, without a cluster.

``author``   the interface of authors: the same code that runs in sandboxes
``subject``  the project or the bundle of a command, each as the other
``run``      one run in this process, for debuggers
``program``  one run of a native program
``jvm``      one run of a Java storlet in a JVM, for debuggers
``here``     one run without a sandbox, in the way of the storlet's language
``sandbox``  runs in real sandboxes, by the server's package
``cases``    the cases of ``storlet.toml``
``repeat``   repetition of a recorded run in a sandbox
``check``    imports of a bundle's code in a sandbox; native code for other machines
"""
