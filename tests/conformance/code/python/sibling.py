"""A storlet that imports a dependency, runs another, and pickles its classes."""

import os
import pickle
import subprocess

import sibling_helper


class Value:
    def __init__(self, text):
        self.text = text


class Sibling(object):
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        metadata = in_files[0].get_metadata()
        metadata["count"] = 3
        out_files[0].set_metadata(metadata)
        copied = pickle.loads(pickle.dumps(Value(sibling_helper.greeting())))
        tool = os.path.join(params["storlet_execution_path"], "sibling_tool.sh")
        told = subprocess.check_output(["sh", tool])
        out_files[0].write(copied.text.encode() + b" " + told)
        in_files[0].close()
        out_files[0].close()
