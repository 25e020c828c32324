/* Encrypts the first input with AES-128 in counter mode, by the instructions of the CPU. */
#include <storlet.h>

#include <wmmintrin.h>

STORLET_ABI_VERSION_OF_THIS_OBJECT

enum { ROUNDS = 10, BLOCK = 16, SIZE = 256 * 1024 };

static char data[SIZE];

/* The next round key, from the one before and what AESKEYGENASSIST makes of it. */
static __m128i next_key(__m128i key, __m128i assist) {
    assist = _mm_shuffle_epi32(assist, 0xff);
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    return _mm_xor_si128(key, assist);
}

/* The constants of the rounds are immediate operands. */
#define NEXT(number, constant) \
    keys[number] = next_key(keys[(number)-1], _mm_aeskeygenassist_si128(keys[(number)-1], constant))

static void expand(__m128i keys[ROUNDS + 1], __m128i key) {
    keys[0] = key;
    NEXT(1, 0x01);
    NEXT(2, 0x02);
    NEXT(3, 0x04);
    NEXT(4, 0x08);
    NEXT(5, 0x10);
    NEXT(6, 0x20);
    NEXT(7, 0x40);
    NEXT(8, 0x80);
    NEXT(9, 0x1b);
    NEXT(10, 0x36);
}

static __m128i encrypted(const __m128i keys[ROUNDS + 1], __m128i block) {
    block = _mm_xor_si128(block, keys[0]);
    for (int round = 1; round < ROUNDS; round++) {
        block = _mm_aesenc_si128(block, keys[round]);
    }
    return _mm_aesenclast_si128(block, keys[ROUNDS]);
}

int aes(struct storlet_run *run) {
    __m128i keys[ROUNDS + 1];
    unsigned char pad[BLOCK];
    unsigned long long position = 0;
    ssize_t size;

    expand(keys, _mm_set_epi64x(0x0123456789abcdefLL, 0x76543210fedcbaLL));
    if (run->set_metadata(run, 0, run->inputs[0].metadata, run->inputs[0].metadata_count) != 0) {
        return errno;
    }
    while ((size = run->read(run, 0, data, sizeof data)) > 0) {
        for (ssize_t at = 0; at < size; at++, position++) {
            if (position % BLOCK == 0) {
                __m128i counter = _mm_set_epi64x(0, (long long)(position / BLOCK));
                _mm_storeu_si128((__m128i *)pad, encrypted(keys, counter));
            }
            data[at] ^= (char)pad[position % BLOCK];
        }
        if (run->write(run, 0, data, (size_t)size) != 0) {
            return errno;
        }
    }
    return size < 0 ? errno : 0;
}
