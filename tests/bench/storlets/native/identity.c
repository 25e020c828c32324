/* Copies the first input to the output. */
#include <stdbool.h>

#include <storlet.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

int identity(struct storlet_run *run) {
    const struct storlet_input *input = &run->inputs[0];
    bool is_copied = run->set_metadata(run, 0, input->metadata, input->metadata_count) == 0 &&
                     run->copy(run, 0, 0, SIZE_MAX) >= 0;
    return is_copied ? 0 : errno;
}
