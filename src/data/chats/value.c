/* See value.h. */
#define _GNU_SOURCE /* memmem */
#include "data/chats/value.h"

#include "base/print.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

enum { MOST_DEPTH = 32 };

qn_jinja_value qn_jinja_bool(bool is) {
    return (qn_jinja_value){.kind = QN_JINJA_BOOL, .whole = is};
}

qn_jinja_value qn_jinja_whole(int64_t number) {
    return (qn_jinja_value){.kind = QN_JINJA_WHOLE, .whole = number};
}

qn_jinja_value qn_jinja_text(const char *text, size_t n) {
    return (qn_jinja_value){.kind = QN_JINJA_TEXT, .text = text, .n = n};
}

qn_jinja_value qn_jinja_part(const qn_jinja_value *text, size_t begin, size_t end) {
    if (end <= begin) /* of what is no text, too */
        return qn_jinja_text("", 0);
    qn_jinja_value part = qn_jinja_text(text->text + begin, end - begin);
    part.mask = text->mask ? text->mask + begin : NULL;
    return part;
}

/* ---- from JSON ---- */

static qn_jinja_value list_of(qn_arena *arena, const cJSON *json, int depth) {
    const cJSON *item;
    qn_jinja_value made = {.kind = QN_JINJA_LIST};
    made.list = qn_arena_allocate(arena, (size_t)cJSON_GetArraySize(json) + 1, sizeof *made.list);
    if (!made.list)
        return (qn_jinja_value){0};
    cJSON_ArrayForEach(item, json) {
        made.list[made.n] = qn_jinja_of_json(arena, item, depth + 1);
        if (made.list[made.n++].kind == QN_JINJA_UNDEFINED)
            return (qn_jinja_value){0};
    }
    return made;
}

static bool mark_answer(qn_arena *arena, qn_jinja_value *text) {
    bool *mask = qn_arena_allocate(arena, text->n + 1, sizeof *mask);
    if (!mask)
        return false;
    memset(mask, true, text->n);
    text->mask = mask;
    return true;
}

static qn_jinja_value map_of(qn_arena *arena, const cJSON *json, int depth) {
    const cJSON *item;
    const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "role"));
    const bool answers = role && strcmp(role, "assistant") == 0;
    qn_jinja_value made = {.kind = QN_JINJA_MAP};
    made.map = qn_arena_allocate(arena, 1, sizeof *made.map);
    if (!made.map)
        return (qn_jinja_value){0};
    cJSON_ArrayForEach(item, json) {
        const qn_jinja_value key = qn_jinja_text(item->string, strlen(item->string));
        qn_jinja_value value = qn_jinja_of_json(arena, item, depth + 1);
        if (answers && strcmp(item->string, "content") == 0 && value.kind == QN_JINJA_TEXT &&
            !mark_answer(arena, &value))
            return (qn_jinja_value){0};
        if (value.kind == QN_JINJA_UNDEFINED || !qn_jinja_put(arena, made.map, &key, &value))
            return (qn_jinja_value){0};
    }
    return made;
}

qn_jinja_value qn_jinja_of_json(qn_arena *arena, const cJSON *json, int depth) {
    if (depth > MOST_DEPTH)
        return (qn_jinja_value){0};
    if (cJSON_IsString(json))
        return qn_jinja_text(json->valuestring, strlen(json->valuestring));
    if (cJSON_IsBool(json))
        return qn_jinja_bool(cJSON_IsTrue(json));
    if (cJSON_IsNumber(json)) {
        const double number = json->valuedouble;
        return fabs(number) < 9e15 && number == floor(number)
                   ? qn_jinja_whole((int64_t)number)
                   : (qn_jinja_value){.kind = QN_JINJA_REAL, .real = number};
    }
    if (cJSON_IsArray(json))
        return list_of(arena, json, depth);
    return cJSON_IsObject(json) ? map_of(arena, json, depth)
                                : (qn_jinja_value){.kind = QN_JINJA_NONE};
}

/* ---- asking ---- */

bool qn_jinja_is_true(const qn_jinja_value *v) {
    switch (v->kind) {
    case QN_JINJA_BOOL:
    case QN_JINJA_WHOLE:
        return v->whole != 0;
    case QN_JINJA_REAL:
        return v->real != 0;
    case QN_JINJA_TEXT:
    case QN_JINJA_LIST:
        return v->n > 0;
    case QN_JINJA_MAP:
        return v->map->n > 0;
    default:
        return false;
    }
}

bool qn_jinja_is_number(const qn_jinja_value *v) {
    return v->kind == QN_JINJA_BOOL || v->kind == QN_JINJA_WHOLE || v->kind == QN_JINJA_REAL;
}

double qn_jinja_real(const qn_jinja_value *v) {
    return v->kind == QN_JINJA_REAL ? v->real : (double)v->whole;
}

static bool are_equal_lists(const qn_jinja_value *a, const qn_jinja_value *b, int depth,
                            int64_t *work) {
    for (size_t i = 0; i < a->n && a->n == b->n; i++) {
        if (!qn_jinja_equals(&a->list[i], &b->list[i], depth + 1, work))
            return false;
    }
    return a->n == b->n;
}

bool qn_jinja_equals(const qn_jinja_value *a, const qn_jinja_value *b, int depth, int64_t *work) {
    if (--*work < 0)
        return false;
    if (qn_jinja_is_number(a) && qn_jinja_is_number(b))
        return a->kind == QN_JINJA_REAL || b->kind == QN_JINJA_REAL
                   ? qn_jinja_real(a) == qn_jinja_real(b)
                   : a->whole == b->whole;
    if (a->kind != b->kind || depth > MOST_DEPTH)
        return false;
    if (a->kind == QN_JINJA_TEXT) {
        *work -= (int64_t)a->n / 64;
        return a->n == b->n && (a->n == 0 || memcmp(a->text, b->text, a->n) == 0);
    }
    if (a->kind == QN_JINJA_LIST)
        return are_equal_lists(a, b, depth, work);
    return a->kind != QN_JINJA_MAP || a->map == b->map;
}

int qn_jinja_compare(const qn_jinja_value *a, const qn_jinja_value *b, bool *can) {
    *can = true;
    if (qn_jinja_is_number(a) && qn_jinja_is_number(b)) {
        const double x = qn_jinja_real(a), y = qn_jinja_real(b);
        return (x > y) - (x < y);
    }
    *can = a->kind == QN_JINJA_TEXT && b->kind == QN_JINJA_TEXT;
    if (!*can)
        return 0;
    const size_t n = a->n < b->n ? a->n : b->n;
    const int order = n > 0 ? memcmp(a->text, b->text, n) : 0;
    return order != 0 ? (order > 0) - (order < 0) : (a->n > b->n) - (a->n < b->n);
}

/* ---- maps ---- */

qn_jinja_value *qn_jinja_find(const qn_jinja_value *map, const char *key, size_t n) {
    for (size_t i = map->kind == QN_JINJA_MAP ? map->map->n : 0; i > 0; i--) {
        qn_jinja_pair *pair = &map->map->pairs[i - 1];
        if (pair->key.n == n && (n == 0 || memcmp(pair->key.text, key, n) == 0))
            return &pair->value;
    }
    return NULL;
}

bool qn_jinja_put(qn_arena *arena, qn_jinja_map *map, const qn_jinja_value *key,
                  const qn_jinja_value *value) {
    const qn_jinja_value self = {.kind = QN_JINJA_MAP, .map = map};
    qn_jinja_value *found = qn_jinja_find(&self, key->text, key->n);
    if (found) {
        *found = *value;
        return true;
    }
    if (map->n == map->capacity) {
        const size_t capacity = 2 * map->capacity + 4;
        qn_jinja_pair *pairs = qn_arena_allocate(arena, capacity, sizeof *pairs);
        if (!pairs)
            return false;
        if (map->n > 0)
            memcpy(pairs, map->pairs, map->n * sizeof *pairs);
        map->pairs = pairs;
        map->capacity = capacity;
    }
    map->pairs[map->n++] = (qn_jinja_pair){*key, *value};
    return true;
}

/* ---- texts ---- */

size_t qn_jinja_seek(const qn_jinja_value *text, const qn_jinja_value *part, size_t from) {
    if (part->n == 0 || from >= text->n)
        return text->n;
    const char *found = memmem(text->text + from, text->n - from, part->text, part->n);
    return found ? (size_t)(found - text->text) : text->n;
}

bool qn_jinja_is_text(const qn_jinja_value *v, const char *text) {
    return v->kind == QN_JINJA_TEXT && v->n == strlen(text) && memcmp(v->text, text, v->n) == 0;
}

bool qn_jinja_is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_stripped(char c, const qn_jinja_value *set) {
    return set ? set->n > 0 && memchr(set->text, c, set->n) != NULL
               : qn_jinja_is_space(c) || (c >= 0x1c && c <= 0x1f);
}

qn_jinja_value qn_jinja_strip(const qn_jinja_value *text, const qn_jinja_value *set, bool left,
                              bool right) {
    size_t begin = 0, end = text->n;
    while (left && begin < end && is_stripped(text->text[begin], set))
        begin++;
    while (right && end > begin && is_stripped(text->text[end - 1], set))
        end--;
    return qn_jinja_part(text, begin, end);
}

qn_jinja_value qn_jinja_join(qn_arena *arena, const qn_jinja_value *a, const qn_jinja_value *b) {
    const size_t n = a->n + b->n;
    if (b->n == 0 || a->n == 0)
        return b->n == 0 ? *a : *b;
    char *text = qn_arena_allocate(arena, n, 1);
    bool *mask = a->mask || b->mask ? qn_arena_allocate(arena, n, sizeof *mask) : NULL;
    if (!text || ((a->mask || b->mask) && !mask))
        return (qn_jinja_value){0};
    memcpy(text, a->text, a->n);
    memcpy(text + a->n, b->text, b->n);
    if (a->mask)
        memcpy(mask, a->mask, a->n * sizeof *mask);
    if (b->mask)
        memcpy(mask + a->n, b->mask, b->n * sizeof *mask);
    qn_jinja_value made = qn_jinja_text(text, n);
    made.mask = mask;
    return made;
}

qn_jinja_value qn_jinja_written(qn_arena *arena, const qn_jinja_value *v) {
    char *text;
    if (v->kind == QN_JINJA_TEXT)
        return *v;
    if (v->kind == QN_JINJA_UNDEFINED)
        return qn_jinja_text("", 0);
    if (v->kind == QN_JINJA_NONE)
        return qn_jinja_text("None", 4);
    if (v->kind == QN_JINJA_BOOL)
        return v->whole ? qn_jinja_text("True", 4) : qn_jinja_text("False", 5);
    if (v->kind != QN_JINJA_WHOLE)
        return (qn_jinja_value){0};
    text = qn_arena_allocate(arena, 24, 1);
    if (!text)
        return (qn_jinja_value){0};
    qn_print(text, 24, "%lld", (long long)v->whole);
    return qn_jinja_text(text, strlen(text));
}
