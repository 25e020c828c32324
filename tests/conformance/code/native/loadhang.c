#include <unistd.h>

__attribute__((constructor)) static void load(void) {
    sleep(300);
}
