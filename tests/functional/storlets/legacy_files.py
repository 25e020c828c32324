# Checks each promise of OpenStack Storlets' file objects, and writes the broken ones.

def refused(errors, call, *args):
    try:
        call(*args)
    except errors as error:
        return str(error)
    return None

class Files(object):
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        broken = []

        def check(what, fact):
            if not fact:
                broken.append(what)

        source, target = in_files[0], out_files[0]
        check('in: is open', source.closed is False)
        check('in: fileno', isinstance(source.fileno(), int))
        check('in: metadata is a copy', source.get_metadata() is not source.get_metadata())
        check('in: read(n)', source.read(3) == b'fir')
        check('in: readline', source.readline() == b'st\n')
        check('in: readline(n)', source.readline(3) == b'sec')
        check('in: lines', [next(iter(source)), next(source)] == [b'ond\n', b'third\n'])
        into = bytearray(4)
        check('in: readinto', source.readinto(into) == 4 and bytes(into) == b'four')
        check('in: readlines', source.readlines() == [b'th\n', b'fifth'])
        check('in: read at the end', source.read() == b'' and source.read(10) == b'' and source.readline() == b'')
        for name, args in (('seek', (0,)), ('write', (b'',)), ('writelines', ([],)), ('flush', ()), ('set_metadata', ({},))):
            check('in: no ' + name, refused(NotImplementedError, getattr(source, name), *args) is not None)
        with source as same:
            check('in: context', same is source)
        check('in: closed by the context', source.closed is True)

        check('out: get before set', refused(IOError, target.get_metadata) == 'Metadata is not set yet')
        for name, args in (('read', ()), ('readline', ()), ('readlines', ())):
            check('out: no ' + name, refused(NotImplementedError, getattr(target, name), *args) is not None)
        target.set_metadata({'Checked': 'yes'})
        check('out: get', target.get_metadata() == {'Checked': 'yes'})
        again = refused(IOError, target.set_metadata, {})
        check('out: set twice', again == 'Sending metadata twice is not allowed')

        for level in ('debug', 'info', 'warn', 'warning', 'error'):
            getattr(self.logger, level)(level + '\n')
        target.writelines([b'kept\n'])
        target.write(''.join(line + '\n' for line in broken).encode())
        target.flush()
        target.close()
        check('out: closed', target.closed is True)
