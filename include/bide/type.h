/* SPDX-License-Identifier: MIT */
/*
 * type.h - structs that can be written as JSON, and read back.
 *
 * A struct is described once, field by field; what each field is, the compiler finds out:
 *
 *     struct line {
 *         const char *article;
 *         uint32_t count;
 *     };
 *     BIDE_TYPE(line, struct line, BIDE_FIELD(article), BIDE_FIELD(count));
 *
 *     struct order {
 *         int64_t number;
 *         char currency[4];
 *         const char *note;
 *         struct line *lines;
 *         size_t line_count;
 *     };
 *     BIDE_TYPE(order, struct order,
 *               BIDE_FIELD(number),
 *               BIDE_FIELD(currency),
 *               BIDE_OPTIONAL(note),
 *               BIDE_STRUCTS(lines, line_count, line));
 *
 * which is {"number":7,"currency":"EUR","lines":[{"article":"tea","count":2}]}. The first argument
 * of BIDE_TYPE is the name of the description, for BIDE_TASK, bide_encode() and the like; it and the
 * struct may be in a header. A field of a type that cannot be written, a nested struct that is not
 * what its description describes, a count that is no size_t: these do not compile.
 *
 * What a member may be
 *     bool, any integer, any enum, float, double
 *     const char *, char *     text in UTF-8; NULL only where the field is optional
 *     char [N]                 the same, in place
 *     bide_slice               bytes, as base64
 * and, as the macro says, an array of these, a described struct, a pointer to one, or an array of
 * them. Numbers that do not fit the member are refused, not cut. A whole number may also be read from
 * 5.0, 1e3 (below 2^53) and "5"; nothing but true and false is a bool.
 *
 * Members that are not described do not travel: they are 0 or NULL in what is read.
 *
 * Reading   Fields that are not described are skipped, so that an old worker reads what a newer
 *           producer wrote. A field that is missing, or null, is an error unless it is optional:
 *           then the member is NULL, 0 or false. A field that is there twice is an error, and so are
 *           null in an array and \u0000 in a text. Bytes that are there and empty are not NULL.
 * Writing   Fields in the order of the description, without spaces: equal values give equal bytes.
 *           An optional field is left out if it is NULL, or its flag false. An unsigned number above
 *           2^63-1 is written as a string of digits, for readers of JSON have no larger integers.
 *           NaN, infinities and text that is not UTF-8 cannot be written; floats and doubles come
 *           back the same.
 * C++       C++20, or g++ from C++17 on. A struct that can be described is trivially copyable.
 * Failure   A sentence that names the field: "order.lines[3].count: -1 is less than 0".
 * Memory    What is read takes as much as the structs are large: a body of 64 KB may name 20,000
 *           structs, so large texts are better pointers than char [N].
 * Build     A bide without jansson answers BIDE_ENOTSUP here; only `bytes` needs no JSON.
 */
#ifndef BIDE_TYPE_H
#define BIDE_TYPE_H

#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L)
#error "bide/type.h wants C11: -std=c11 or later"
#endif

#include <bide/error.h>
#include <bide/job.h>

#ifdef __cplusplus
#include <type_traits>
extern "C" {
#endif

#define BIDE_NESTING_MAX 32 /* structs in structs: longer chains of pointers cannot be written */

/* Functions that the macros make; nobody need call them. */
#define BIDE_MADE_ __attribute__((unused)) static inline

/* What must hold of a struct; and the end of a macro, before its semicolon. */
#ifdef __cplusplus
#define BIDE_MUST_(condition, sentence) static_assert(condition, sentence)
#define BIDE_ALIGNED_(type)             (alignof(type) <= alignof(max_align_t))
#define BIDE_COPIED_(type)              std::is_trivially_copyable<type>::value
#else
#define BIDE_MUST_(condition, sentence) _Static_assert(condition, sentence)
#define BIDE_ALIGNED_(type)             (_Alignof(type) <= _Alignof(max_align_t))
#define BIDE_COPIED_(type)              1
#endif
#define BIDE_END_ BIDE_MUST_(1, "")

/* What one value of a field is. */
typedef enum bide_kind {
    BIDE_KIND_BOOL = 1,
    BIDE_KIND_INT,
    BIDE_KIND_UINT,
    BIDE_KIND_DOUBLE,
    BIDE_KIND_TEXT,  /* a pointer to it */
    BIDE_KIND_CHARS, /* in place, with its NUL */
    BIDE_KIND_BYTES,
    BIDE_KIND_STRUCT,
} bide_kind;

/* How many values there are. */
typedef enum bide_shape {
    BIDE_SHAPE_ONE = 1,
    BIDE_SHAPE_POINTER, /* one, or NULL */
    BIDE_SHAPE_ARRAY,   /* a pointer to the first, and a count */
} bide_shape;

typedef struct bide_type bide_type;

/* One field. Made by the macros below. */
typedef struct bide_field {
    const char *name; /* in JSON */
    bide_kind kind;
    bide_shape shape;
    bool optional;
    size_t offset;                  /* of the member */
    size_t size;                    /* of one value */
    size_t count_offset;            /* of an array's count */
    size_t has_offset;              /* of the flag that says whether there is a value */
    bool has;                       /* there is such a flag */
    const bide_type *(*type)(void); /* of a struct */
} bide_field;

struct bide_type {
    const char *name;
    size_t size; /* of the struct */
    const bide_field *fields;
    size_t field_count;
    bool raw; /* the value is a bide_slice, which is the body as it is */
};

/*
 * Describes a struct: BIDE_TYPE(NAME, TYPE, FIELD, FIELD, ...); at file scope. Each FIELD is one of:
 *
 *     BIDE_FIELD(member)                   must be there
 *     BIDE_OPTIONAL(member)                may be missing
 *     BIDE_OPTIONAL_IF(member, flag)       the bool member `flag` says whether it is there
 *     BIDE_ARRAY(member, count)            a pointer to values, and a size_t member with their number
 *     BIDE_STRUCT(member, NAME)            a struct in place
 *     BIDE_POINTER(member, NAME)           a pointer to a struct; NULL when missing
 *     BIDE_STRUCTS(member, count, NAME)    an array of structs
 *
 * A missing or null array is empty. Each has a form with _AS behind it, whose first argument is the
 * name in JSON: BIDE_FIELD_AS("replyTo", reply_to).
 */
#define BIDE_TYPE(name_, type_, ...)                                                        \
    typedef type_ bide_of_##name_;                                                          \
    BIDE_MADE_ const bide_type *bide_type_of_##name_(void)                                  \
    {                                                                                       \
        typedef type_ bide_self_;                                                           \
        BIDE_MUST_(BIDE_ALIGNED_(bide_self_), "no struct with an alignment of its own");    \
        BIDE_MUST_(BIDE_COPIED_(bide_self_), "only a struct as C has it can be described"); \
        static const bide_field fields_[] = {__VA_ARGS__};                                  \
        static const bide_type described_ = {#name_, sizeof(bide_self_), fields_,           \
                                             sizeof(fields_) / sizeof(fields_[0]), false};  \
        return &described_;                                                                 \
    }                                                                                       \
    BIDE_MADE_ int bide_encode_of_##name_(type_ value_, bide_buf **json_)                   \
    {                                                                                       \
        return bide_type_encode(bide_type_of_##name_(), &value_, json_);                    \
    }                                                                                       \
    BIDE_MADE_ int bide_result_of_##name_(struct bide_context *context_, type_ value_)      \
    {                                                                                       \
        return bide_context_result_type(context_, bide_type_of_##name_(), &value_);         \
    }                                                                                       \
    BIDE_END_

#define BIDE_FIELD(member)                 BIDE_FIELD_AS(#member, member)
#define BIDE_OPTIONAL(member)              BIDE_OPTIONAL_AS(#member, member)
#define BIDE_OPTIONAL_IF(member, flag)     BIDE_OPTIONAL_IF_AS(#member, member, flag)
#define BIDE_ARRAY(member, count)          BIDE_ARRAY_AS(#member, member, count)
#define BIDE_STRUCT(member, name_)         BIDE_STRUCT_AS(#member, member, name_)
#define BIDE_POINTER(member, name_)        BIDE_POINTER_AS(#member, member, name_)
#define BIDE_STRUCTS(member, count, name_) BIDE_STRUCTS_AS(#member, member, count, name_)

/* Where and how large a member is. */
#define BIDE_AT_(member)  ((bide_self_ *)0)->member
#define BIDE_OFF_(member) offsetof(bide_self_, member)
#define BIDE_LEN_(member) sizeof(BIDE_AT_(member))

#define BIDE_FIELD_AS(text, member)                                                   \
    {                                                                                 \
        text, BIDE_KIND_(BIDE_AT_(member)), BIDE_SHAPE_ONE, false, BIDE_OFF_(member), \
            BIDE_LEN_(member), 0, 0, false, NULL                                      \
    }
#define BIDE_OPTIONAL_AS(text, member)                                               \
    {                                                                                \
        text, BIDE_KIND_(BIDE_AT_(member)), BIDE_SHAPE_ONE, true, BIDE_OFF_(member), \
            BIDE_LEN_(member), 0, 0, false, NULL                                     \
    }
#define BIDE_OPTIONAL_IF_AS(text, member, flag)                                      \
    {                                                                                \
        text, BIDE_KIND_(BIDE_AT_(member)), BIDE_SHAPE_ONE, true, BIDE_OFF_(member), \
            BIDE_LEN_(member), 0, BIDE_FLAG_(flag), true, NULL                       \
    }
#define BIDE_ARRAY_AS(text, member, count)                                              \
    {                                                                                   \
        text, BIDE_KIND_(*BIDE_AT_(member)), BIDE_SHAPE_ARRAY, true, BIDE_OFF_(member), \
            sizeof(*BIDE_AT_(member)), BIDE_COUNT_(count), 0, false, NULL               \
    }
#define BIDE_STRUCT_AS(text, member, name_)                                                        \
    {                                                                                              \
        text, BIDE_KIND_STRUCT, BIDE_SHAPE_ONE, false, BIDE_OFF_(member), BIDE_LEN_(member), 0, 0, \
            false, BIDE_NESTED_(&BIDE_AT_(member), name_)                                          \
    }
#define BIDE_POINTER_AS(text, member, name_)                                              \
    {                                                                                     \
        text, BIDE_KIND_STRUCT, BIDE_SHAPE_POINTER, true, BIDE_OFF_(member),              \
            sizeof(*BIDE_AT_(member)), 0, 0, false, BIDE_NESTED_(BIDE_AT_(member), name_) \
    }
#define BIDE_STRUCTS_AS(text, member, count, name_)                        \
    {                                                                      \
        text, BIDE_KIND_STRUCT, BIDE_SHAPE_ARRAY, true, BIDE_OFF_(member), \
            sizeof(*BIDE_AT_(member)), BIDE_COUNT_(count), 0, false,       \
            BIDE_NESTED_(BIDE_AT_(member), name_)                          \
    }

#ifndef __cplusplus

/* A constant, if the condition holds; else a sentence. */
#define BIDE_IF_(condition_, constant_, sentence_)            \
    ((constant_) + 0 * sizeof(struct {                        \
                       _Static_assert(condition_, sentence_); \
                       char unused_;                          \
                   }))

/* The kind of an lvalue; 0 for what has none. */
/* NOLINTNEXTLINE(bugprone-macro-parentheses): it is a type */
#define BIDE_EITHER_(type, kind) type * : kind, const type * : kind
#define BIDE_KIND_(value)                                                                  \
    (bide_kind) BIDE_IF_(BIDE_GENERIC_(value) != 0, BIDE_GENERIC_(value),                  \
                         "a member of this type cannot be written; structs: BIDE_STRUCT, " \
                         "pointers to them: BIDE_POINTER, arrays: BIDE_ARRAY or BIDE_STRUCTS")
#define BIDE_GENERIC_(value) \
    _Generic(&(value), \
        BIDE_EITHER_(bool, BIDE_KIND_BOOL), \
        BIDE_EITHER_(signed char, BIDE_KIND_INT), \
        BIDE_EITHER_(short, BIDE_KIND_INT), \
        BIDE_EITHER_(int, BIDE_KIND_INT), \
        BIDE_EITHER_(long, BIDE_KIND_INT), \
        BIDE_EITHER_(long long, BIDE_KIND_INT), \
        BIDE_EITHER_(unsigned char, BIDE_KIND_UINT), \
        BIDE_EITHER_(unsigned short, BIDE_KIND_UINT), \
        BIDE_EITHER_(unsigned int, BIDE_KIND_UINT), \
        BIDE_EITHER_(unsigned long, BIDE_KIND_UINT), \
        BIDE_EITHER_(unsigned long long, BIDE_KIND_UINT), \
        BIDE_EITHER_(float, BIDE_KIND_DOUBLE), \
        BIDE_EITHER_(double, BIDE_KIND_DOUBLE), \
        char **: BIDE_KIND_TEXT, \
        char *const *: BIDE_KIND_TEXT, \
        const char **: BIDE_KIND_TEXT, \
        const char *const *: BIDE_KIND_TEXT, \
        char (*)[sizeof(value)]: BIDE_KIND_CHARS, \
        const char (*)[sizeof(value)]: BIDE_KIND_CHARS, \
        BIDE_EITHER_(bide_slice, BIDE_KIND_BYTES), \
        default: 0)
#define BIDE_COUNT_(count)                                                            \
    BIDE_IF_(_Generic(&BIDE_AT_(count), size_t * : 1, default : 0), BIDE_OFF_(count), \
             "the count of an array is a size_t")
#define BIDE_FLAG_(flag)                                                          \
    BIDE_IF_(_Generic(&BIDE_AT_(flag), bool * : 1, default : 0), BIDE_OFF_(flag), \
             "the flag of an optional field is a bool")
#define BIDE_NESTED_(pointer, name_) \
    _Generic((pointer), bide_of_##name_ * : bide_type_of_##name_, \
             const bide_of_##name_ * : bide_type_of_##name_)

/* A pointer to a pointer to a value of the type, and to nothing else. */
#define BIDE_OUT_(name_, pointer) _Generic((pointer), bide_of_##name_ * * : (void **)(pointer))

#else

/* No value is made here: these look at types. */
#define BIDE_NO_(expression) static_cast<decltype(expression)>(nullptr)
#define BIDE_KIND_(value)    bide_kind_of_(BIDE_NO_(&(value)))
#define BIDE_COUNT_(count)   bide_offset_<size_t>(BIDE_NO_(&BIDE_AT_(count)), BIDE_OFF_(count))
#define BIDE_FLAG_(flag)     bide_offset_<bool>(BIDE_NO_(&BIDE_AT_(flag)), BIDE_OFF_(flag))
#define BIDE_NESTED_(pointer, name_) \
    bide_nested_<bide_of_##name_>(BIDE_NO_(pointer), bide_type_of_##name_)
#define BIDE_OUT_(name_, pointer) \
    reinterpret_cast<void **>(static_cast<bide_of_##name_ **>(pointer))

#endif

/* The type of a body that is not JSON at all: its value is a bide_slice. */
typedef bide_slice bide_of_bytes;
BIDE_API const bide_type *bide_type_of_bytes(void);

/*
 * Writes a value: bide_encode(order, value, &json), with *json yours to unref. BIDE_EINVAL when it
 * cannot be written: a NULL that is not optional, text that is not UTF-8, a number that JSON has
 * not; the sentence names the field.
 */
#define bide_encode(name_, ...) ((void)sizeof(bide_of_##name_), bide_encode_of_##name_(__VA_ARGS__))

/*
 * Reads a value: struct order *order; bide_decode(order, data, size, &order), which is yours to
 * give to bide_decoded_free(), with everything that it points to. BIDE_EINVAL, with a sentence that
 * names the field, when the bytes are not such a value.
 */
#define bide_decode(name_, data, size, value) \
    bide_type_decode(bide_type_of_##name_(), (data), (size), BIDE_OUT_(name_, value))

/* What the two macros call, for who has a description only at run time. */
BIDE_API int bide_type_encode(const bide_type *type, const void *value, bide_buf **json);
BIDE_API int bide_type_decode(const bide_type *type, const void *data, size_t size, void **value);
BIDE_API void bide_decoded_free(void *value);

/* A value as the result of a job: bide_context_result_as() in worker.h. */
struct bide_context;
BIDE_API int bide_context_result_type(struct bide_context *context, const bide_type *type,
                                      const void *value);

#ifdef __cplusplus
}

/* The kind of what a pointer points to, by the same list as in C; what is not on it is refused. */
#define BIDE_OF_KIND_(type, kind)                   \
    constexpr bide_kind bide_kind_of_(const type *) \
    {                                               \
        return kind;                                \
    }
BIDE_OF_KIND_(bool, BIDE_KIND_BOOL)
BIDE_OF_KIND_(signed char, BIDE_KIND_INT)
BIDE_OF_KIND_(short, BIDE_KIND_INT)
BIDE_OF_KIND_(int, BIDE_KIND_INT)
BIDE_OF_KIND_(long, BIDE_KIND_INT)
BIDE_OF_KIND_(long long, BIDE_KIND_INT)
BIDE_OF_KIND_(unsigned char, BIDE_KIND_UINT)
BIDE_OF_KIND_(unsigned short, BIDE_KIND_UINT)
BIDE_OF_KIND_(unsigned int, BIDE_KIND_UINT)
BIDE_OF_KIND_(unsigned long, BIDE_KIND_UINT)
BIDE_OF_KIND_(unsigned long long, BIDE_KIND_UINT)
BIDE_OF_KIND_(float, BIDE_KIND_DOUBLE)
BIDE_OF_KIND_(double, BIDE_KIND_DOUBLE)
BIDE_OF_KIND_(char *const, BIDE_KIND_TEXT) /* const char *const *: any pointer to text */
BIDE_OF_KIND_(bide_slice, BIDE_KIND_BYTES)
#undef BIDE_OF_KIND_
template <size_t N> constexpr bide_kind bide_kind_of_(char (*)[N])
{
    return BIDE_KIND_CHARS;
}
template <size_t N> constexpr bide_kind bide_kind_of_(const char (*)[N])
{
    return BIDE_KIND_CHARS;
}
/* An enum is the integer that it is made of. */
template <class T>
constexpr typename std::enable_if<std::is_enum<T>::value, bide_kind>::type bide_kind_of_(const T *)
{
    return bide_kind_of_(static_cast<const typename std::underlying_type<T>::type *>(nullptr));
}

/* The offset of a member that is a T. */
template <class T, class Member> constexpr size_t bide_offset_(Member *, size_t offset)
{
    static_assert(std::is_same<Member, T>::value, "a count is a size_t, and a flag a bool");
    return offset;
}

/* The description of a member that points to a T. */
typedef const bide_type *bide_described_(void);
template <class T, class Member>
constexpr bide_described_ *bide_nested_(Member *, bide_described_ *type)
{
    static_assert(std::is_same<typename std::remove_const<Member>::type, T>::value,
                  "the member is another struct than the one that is described");
    return type;
}
#endif
#endif
