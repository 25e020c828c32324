/* Copies the first input to the output. */
#include <storlet.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

static char data[256 * 1024];

int identity(struct storlet_run *run) {
    ssize_t size;
    if (run->set_metadata(run, 0, run->inputs[0].metadata, run->inputs[0].metadata_count) != 0) {
        return errno;
    }
    while ((size = run->read(run, 0, data, sizeof data)) > 0) {
        if (run->write(run, 0, data, (size_t)size) != 0) {
            return errno;
        }
    }
    return size < 0 ? errno : 0;
}
