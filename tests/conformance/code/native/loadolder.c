#include <stdint.h>

__attribute__((visibility("default"))) const uint32_t storlet_abi_version = 7;

int loadolder(void *run) {
    return run == 0;
}
