"""The execution of steps; imports neither WSGI nor Swift, also not through other modules.

``execution``  runs the steps, each on the output of the one before
``steps``      one storlet each, with the settings of its run
``pipeline``   the result of several steps
``result``     a storlet's output as a stream, from this process or from an object node
"""
