/* SPDX-License-Identifier: MIT */
/*
 * typed - structs with a description: one that has a field of every kind and shape, and small ones.
 */
#ifndef BI_UNIT_TYPED_H
#define BI_UNIT_TYPED_H

#include <bide/task.h>

struct line {
    const char *article;
    uint32_t count;
};
BIDE_TYPE(line, struct line, BIDE_FIELD(article), BIDE_FIELD(count));

/* Contains itself, by a pointer and by an array. */
struct node {
    int value;
    struct node *next;
    struct node *children;
    size_t child_count;
};
BIDE_TYPE(node, struct node, BIDE_FIELD(value), BIDE_POINTER(next, node),
          BIDE_STRUCTS(children, child_count, node));

enum color { RED, GREEN, BLUE };

struct all {
    bool yes;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    enum color color;
    float narrow;
    double wide;
    const char *text;
    char chars[8];
    bide_slice bytes;
    const char *maybe_text;
    bide_slice maybe_bytes;
    int32_t maybe_number;
    double if_number;
    bool has_number;
    const char *if_text;
    bool has_text;
    bool *flags;
    size_t flag_count;
    int16_t *numbers;
    size_t number_count;
    double *reals;
    size_t real_count;
    const char **texts;
    size_t text_count;
    char (*names)[4];
    size_t name_count;
    bide_slice *blobs;
    size_t blob_count;
    struct line line;
    struct line *maybe_line;
    struct line *lines;
    size_t line_count;
    struct node *tree;
};
BIDE_TYPE(all, struct all, BIDE_FIELD(yes), BIDE_FIELD(i8), BIDE_FIELD(i16), BIDE_FIELD(i32),
          BIDE_FIELD(i64), BIDE_FIELD(u8), BIDE_FIELD(u16), BIDE_FIELD(u32), BIDE_FIELD(u64),
          BIDE_FIELD(color), BIDE_FIELD(narrow), BIDE_FIELD(wide), BIDE_FIELD(text),
          BIDE_FIELD(chars), BIDE_FIELD(bytes), BIDE_OPTIONAL(maybe_text),
          BIDE_OPTIONAL(maybe_bytes), BIDE_OPTIONAL(maybe_number),
          BIDE_OPTIONAL_IF(if_number, has_number), BIDE_OPTIONAL_IF(if_text, has_text),
          BIDE_ARRAY(flags, flag_count), BIDE_ARRAY(numbers, number_count),
          BIDE_ARRAY(reals, real_count), BIDE_ARRAY(texts, text_count),
          BIDE_ARRAY(names, name_count), BIDE_ARRAY(blobs, blob_count), BIDE_STRUCT(line, line),
          BIDE_POINTER_AS("maybe a line", maybe_line, line), BIDE_STRUCTS(lines, line_count, line),
          BIDE_POINTER(tree, node));

/* A value of it in which nothing is missing, as JSON. */
#define ALL_JSON                                                                               \
    "{\"yes\":true,\"i8\":-128,\"i16\":-32768,\"i32\":-2147483648,\"i64\":"                    \
    "-9223372036854775808,\"u8\":255,\"u16\":65535,\"u32\":4294967295,\"u64\":"                \
    "\"18446744073709551615\",\"color\":2,\"narrow\":0.1,\"wide\":9.99,\"text\":\"\xc3\xa9\"," \
    "\"chars\":\"seven77\",\"bytes\":\"AP8=\",\"maybe_text\":\"\",\"maybe_bytes\":\"\","       \
    "\"maybe_number\":5,\"if_number\":-0.5,\"if_text\":\"if\",\"flags\":[true,false],"         \
    "\"numbers\":[1,-2,3],\"reals\":[1.0,1e100],\"texts\":[\"a\",\"\"],"                       \
    "\"names\":[\"abc\",\"\"],\"blobs\":[\"Zg==\",\"\"],\"line\":{\"article\":\"tea\","        \
    "\"count\":2},\"maybe a line\":{\"article\":\"pot\",\"count\":1},\"lines\":["              \
    "{\"article\":\"cup\",\"count\":6}],\"tree\":{\"value\":1,\"next\":{\"value\":2,"          \
    "\"children\":[]},\"children\":[{\"value\":3,\"children\":[]}]}}"

#endif
