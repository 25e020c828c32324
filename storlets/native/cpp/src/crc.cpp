// The CRC-32 of the first input, in one pass. No exception may leave the function.
#include <array>
#include <cstdio>
#include <exception>
#include <vector>

#include <storlet.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

namespace {

std::array<uint32_t, 256> make_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < table.size(); byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) {
            value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320u : value >> 1;
        }
        table[byte] = value;
    }
    return table;
}

const auto table = make_table();

int checksum(storlet_run *run) {
    std::vector<unsigned char> data(65536);
    uint32_t value = 0xffffffffu;
    ssize_t size;
    while ((size = run->read(run, 0, data.data(), data.size())) > 0) {
        for (ssize_t at = 0; at < size; at++) {
            value = table[(value ^ data[static_cast<size_t>(at)]) & 0xff] ^ value >> 8;
        }
    }
    if (size < 0) {
        return errno;
    }
    char text[16];
    int length = std::snprintf(text, sizeof text, "%08x\n", value ^ 0xffffffffu);
    return run->write(run, 0, text, static_cast<size_t>(length)) == 0 ? 0 : errno;
}

} // namespace

extern "C" __attribute__((visibility("default"))) int crc(storlet_run *run) {
    try {
        return checksum(run);
    } catch (const std::exception &error) {
        run->fail(run, error.what());
        return EIO;
    }
}
