"""Has the name of a Python module that is already loaded."""


class Json:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        import json

        out_files[0].write(json.dumps(["still", "there"]).encode())
