/* Its constructor ends the process. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void load(void) {
    fprintf(stderr, "no such luck\n");
    exit(1);
}
