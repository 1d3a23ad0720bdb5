/* SPDX-License-Identifier: MIT */
#include "util/base64.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* Of RFC 4648, and two with the last letters of the alphabet. */
static const struct {
    const char *bytes;
    const char *text;
} vectors[] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xfb\xef\xbe", "++++"},
    {"\xff\xff\xff", "////"},
};

/* Reads a text that lies in memory of its own, so that nothing behind it is read unseen. */
static bool read_text(const char *text, size_t length, void *bytes, size_t *size)
{
    char *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    bool good = bi_base64_decoded_size(copy, length, size) && bi_base64_decode(copy, length, bytes);
    free(copy);
    return good;
}

static bool is_read(const char *text)
{
    char bytes[64];
    size_t size;
    return read_text(text, strlen(text), bytes, &size);
}

static void encoding_matches_the_rfc(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        size_t size = strlen(vectors[i].bytes);
        char text[16] = "untouched";
        assert_int_equal(bi_base64_encoded_size(size), strlen(vectors[i].text));
        bi_base64_encode(vectors[i].bytes, size, text);
        assert_memory_equal(text, vectors[i].text, strlen(vectors[i].text));
    }
}

static void decoding_matches_the_rfc(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        char bytes[16];
        size_t size;
        assert_true(read_text(vectors[i].text, strlen(vectors[i].text), bytes, &size));
        assert_int_equal(size, strlen(vectors[i].bytes));
        assert_memory_equal(bytes, vectors[i].bytes, size);
    }
}

static void all_bytes_of_all_lengths_round_trip(void **state)
{
    (void)state;
    unsigned char bytes[256], back[256];
    char text[400];
    for (unsigned i = 0; i < 256; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    for (size_t size = 0; size <= sizeof(bytes); size++) {
        size_t read;
        bi_base64_encode(bytes, size, text);
        assert_true(read_text(text, bi_base64_encoded_size(size), back, &read));
        assert_int_equal(read, size);
        assert_memory_equal(back, bytes, size);
    }
}

static void decoding_stays_within_the_buffer(void **state)
{
    (void)state;
    for (size_t size = 0; size < 8; size++) {
        size_t length = bi_base64_encoded_size(size);
        char *text = malloc(length + 1);
        assert_non_null(text);
        text[length] = '!';
        bi_base64_encode("1234567", size, text);
        assert_int_equal(text[length], '!');
        free(text);
    }
}

static void invalid_base64_is_rejected(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Z",    "Zg",       "Zg=",      "Zm9vY",    "====", "=",      "Z===",  "=Zg=", "Zg=v",
        "Z=g=", "Zm9v====", "Zg==Zg==", "Zm8=Zm9v", "Zm 9", "Zm9v\n", "Zm9\n", " Zm9", "Zm-_",
        "Zm9*", "Zm9\xff",  "Zm.v",     "[m9v",     "@m9v", "`m9v",   "{m9v",  "Zm9:", "Zm9,",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (is_read(texts[i]))
            fail_msg("\"%s\" was read", texts[i]);
}

static void nul_is_rejected(void **state)
{
    (void)state;
    char bytes[8];
    size_t size;
    assert_false(read_text("Zm\0v", 4, bytes, &size));
}

/* Otherwise two texts would be the same bytes. */
static void nonzero_trailing_bits_are_rejected(void **state)
{
    (void)state;
    assert_true(is_read("Zg=="));
    assert_false(is_read("Zh=="));
    assert_false(is_read("Zo=="));
    assert_true(is_read("Zm8="));
    assert_false(is_read("Zm9="));
    assert_false(is_read("Zm+="));
}

static void overflowing_size_is_rejected(void **state)
{
    (void)state;
    assert_int_equal(bi_base64_encoded_size(SIZE_MAX), SIZE_MAX);
    assert_int_equal(bi_base64_encoded_size(3), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoding_matches_the_rfc),
        cmocka_unit_test(decoding_matches_the_rfc),
        cmocka_unit_test(all_bytes_of_all_lengths_round_trip),
        cmocka_unit_test(decoding_stays_within_the_buffer),
        cmocka_unit_test(invalid_base64_is_rejected),
        cmocka_unit_test(nul_is_rejected),
        cmocka_unit_test(nonzero_trailing_bits_are_rejected),
        cmocka_unit_test(overflowing_size_is_rejected),
    };
    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
