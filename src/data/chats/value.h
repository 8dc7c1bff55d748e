/* Values of chat templates, and what can be asked of them. */
#ifndef QN_DATA_CHATS_VALUE_H
#define QN_DATA_CHATS_VALUE_H

#include "base/memory.h"

struct cJSON;

typedef enum qn_jinja_kind {
    QN_JINJA_UNDEFINED,
    QN_JINJA_NONE,
    QN_JINJA_BOOL,
    QN_JINJA_WHOLE,
    QN_JINJA_REAL,
    QN_JINJA_TEXT,
    QN_JINJA_LIST,
    QN_JINJA_MAP,
} qn_jinja_kind;

struct qn_jinja_pair;

typedef struct qn_jinja_value {
    qn_jinja_kind kind;
    int64_t whole; /* of BOOL and WHOLE */
    double real;
    const char *text; /* (n); not ended by 0 */
    const bool *mask; /* (n): bytes of answers; null: none is */
    size_t n;         /* bytes, elements or pairs */
    struct qn_jinja_value *list;
    struct qn_jinja_map *map;
} qn_jinja_value;

typedef struct qn_jinja_pair {
    qn_jinja_value key; /* a text */
    qn_jinja_value value;
} qn_jinja_pair;

/* Shared by all values that are it. */
typedef struct qn_jinja_map {
    qn_jinja_pair *pairs; /* (n) of capacity */
    size_t n, capacity;
} qn_jinja_map;

qn_jinja_value qn_jinja_bool(bool is);
qn_jinja_value qn_jinja_whole(int64_t number);
qn_jinja_value qn_jinja_text(const char *text, size_t n);
qn_jinja_value qn_jinja_part(const qn_jinja_value *text, size_t begin, size_t end);

/* A value of a JSON tree, whose texts it borrows. Undefined: memory is out, or it is too deep. The
 * texts named "content" of maps whose "role" is "assistant" are answers. */
qn_jinja_value qn_jinja_of_json(qn_arena *arena, const struct cJSON *json, int depth);

bool qn_jinja_is_true(const qn_jinja_value *v);
bool qn_jinja_is_number(const qn_jinja_value *v);
double qn_jinja_real(const qn_jinja_value *v);

/* *work is what is left of the run's steps, of which each comparison takes some; below 0: false. */
bool qn_jinja_equals(const qn_jinja_value *a, const qn_jinja_value *b, int depth, int64_t *work);

/* -1, 0 or 1; *can: they have an order. */
int qn_jinja_compare(const qn_jinja_value *a, const qn_jinja_value *b, bool *can);

/* The value of a key, or null. */
qn_jinja_value *qn_jinja_find(const qn_jinja_value *map, const char *key, size_t n);

/* False: memory is out. */
bool qn_jinja_put(qn_arena *arena, qn_jinja_map *map, const qn_jinja_value *key,
                  const qn_jinja_value *value);

/* Where a text is in another, from `from` on; the other's length: nowhere. */
size_t qn_jinja_seek(const qn_jinja_value *text, const qn_jinja_value *part, size_t from);
bool qn_jinja_is_text(const qn_jinja_value *v, const char *text);

bool qn_jinja_is_space(char c);

/* Without the characters of a set at its sides; null: without white space. */
qn_jinja_value qn_jinja_strip(const qn_jinja_value *text, const qn_jinja_value *set, bool left,
                              bool right);

/* Both texts one behind the other, with the marks of answers. Undefined: memory is out. */
qn_jinja_value qn_jinja_join(qn_arena *arena, const qn_jinja_value *a, const qn_jinja_value *b);

/* As it is written. Undefined: it is a list or a map, or memory is out. */
qn_jinja_value qn_jinja_written(qn_arena *arena, const qn_jinja_value *v);

#endif
