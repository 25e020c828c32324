#include <unistd.h>

__attribute__((constructor)) static void load(void) {
    _exit(0);
}
