# In the style of OpenStack Storlets, with Python 2 habits; not adapted to this project.


class Streams(object):
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        self.logger.debug('Streams was called')
        metadata = in_files[0].get_metadata()
        metadata['override_key'] = 'new_value'
        metadata['Parsed'] = 7
        out_files[0].set_metadata(metadata)
        while True:
            buf = in_files[0].read(1024)
            if not buf:
                break
            out_files[0].write(buf)
        self.logger.debug('Streams is done')
        in_files[0].close()
        out_files[0].close()
