# In the style of OpenStack Storlets: runs a dependency found in storlet_execution_path.
import os
import subprocess


class Exec(object):
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        prog = os.path.join(params['storlet_execution_path'], params['program'])
        p = subprocess.Popen([prog], stdout=subprocess.PIPE)
        data = p.communicate()[0]
        out_files[0].set_metadata({'Depend-Ret-Code': p.returncode})
        out_files[0].write(data)
        in_files[0].close()
        out_files[0].close()
