"""GET with a storlet at the object server that holds the data.

``node``   the filter's part at an object server: runs the storlet on the object's own file, answers in frames
"""
