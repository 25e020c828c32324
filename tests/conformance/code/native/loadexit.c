#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void load(void) {
    printf("last words\n");
    exit(3);
}
