/* The CRC-32 of the first input, in one pass. */
#include <stdio.h>
#include <storlet.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

static uint32_t table[256];

/* The table is made once a worker process. */
__attribute__((constructor)) static void make_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) {
            value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320u : value >> 1;
        }
        table[byte] = value;
    }
}

int crc(struct storlet_run *run) {
    unsigned char data[65536];
    char text[16];
    uint32_t value = 0xffffffffu;
    ssize_t size;
    while ((size = run->read(run, 0, data, sizeof data)) > 0) {
        for (ssize_t at = 0; at < size; at++) {
            value = table[(value ^ data[at]) & 0xff] ^ value >> 8;
        }
    }
    if (size < 0) {
        return errno;
    }
    int length = snprintf(text, sizeof text, "%08x\n", value ^ 0xffffffffu);
    return run->write(run, 0, text, (size_t)length) == 0 ? 0 : errno;
}
