/* Reads what Python's pickle wrote (protocols 2 to 5; PEP 307, 3154, 574) as plain values, and runs
 * nothing: a class or function that the stream names stays a name, and its call an object with that
 * name and the arguments. Memory is bounded by the stream's length. Leaves out: the text opcodes of
 * protocols 0 and 1, extension codes, buffers outside of the stream. */
#ifndef QN_FORMAT_FOREIGN_PICKLE_H
#define QN_FORMAT_FOREIGN_PICKLE_H

#include "base/memory.h"

typedef enum qn_pickle_kind {
    QN_PICKLE_NONE,
    QN_PICKLE_TRUTH, /* whole: 0 or 1 */
    QN_PICKLE_WHOLE,
    QN_PICKLE_HUGE, /* a whole number beyond 64 bits */
    QN_PICKLE_REAL,
    QN_PICKLE_TEXT,
    QN_PICKLE_BYTES,
    QN_PICKLE_TUPLE,     /* also lists and sets */
    QN_PICKLE_DICT,      /* items: key, value, key, value ... */
    QN_PICKLE_NAME,      /* of a class or function: "torch.FloatStorage" */
    QN_PICKLE_CALL,      /* items: what is called, a tuple of arguments */
    QN_PICKLE_REFERENCE, /* items: one, what names an object outside of the stream */
    QN_PICKLE_MARK,      /* never a part of another value */
} qn_pickle_kind;

/* A value is immutable once the stream ends, and may be a part of several, or of itself. */
typedef struct qn_pickle_value {
    qn_pickle_kind kind;
    int64_t whole;
    double real;
    const char *text; /* of TEXT, BYTES and NAME; terminated */
    size_t n_text;
    struct qn_pickle_value **items; /* (n of capacity) */
    size_t n, capacity;
} qn_pickle_value;

/* The value that the stream at data makes, and in *n_used the bytes that it takes up of n_bytes.
 * Values and texts live in the arena. */
qn_status qn_pickle_read(qn_arena *arena, const unsigned char *data, size_t n_bytes, size_t *n_used,
                         const qn_pickle_value **value);

/* Whether a value is the name, or a call of it. */
bool qn_pickle_is_name(const qn_pickle_value *value, const char *name);
bool qn_pickle_is_call(const qn_pickle_value *value, const char *name);

/* Of a dictionary, by a text key; null: none. */
const qn_pickle_value *qn_pickle_find(const qn_pickle_value *dict, const char *key);

#endif
