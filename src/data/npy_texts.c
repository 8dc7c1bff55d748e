/* Arrays of texts: numpy's <U.. (UTF-32) and |S.. (bytes, read as UTF-8). Labels that are texts
 * become the numbers of classes, which have the texts as names, in the order of characters, as
 * numpy.unique has them. Memory grows with the classes, never with the rows. Leaves out objects:
 * they are Python's own (pickle). */
#include "base/status.h"
#include "base/text.h"
#include "data/cache.h"
#include "data/npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 1000000, FIRST_SLOTS = 64 };

/* Names in the order of appearance, found by hash: slots[h] is i + 1, 0 is free. */
typedef struct name_set {
    const qn_allocator *allocator;
    qn_arena *arena;
    const char **names; /* (n) of capacity */
    size_t n, capacity;
    int32_t *slots; /* (n_slots), a power of two and at least twice n */
    size_t n_slots;
    int32_t *number; /* (n) of a name, once they are sorted */
} name_set;

typedef struct labels {
    const qn_npy_array *array;
    name_set set;
} labels;

/* ---- names ---- */

/* The characters before the zeros that fill an element up; false: too many, or no characters. */
static bool take_wide(const unsigned char *element, size_t bytes, char name[QN_NPY_NAME]) {
    size_t n = 0;
    while (bytes >= 4 && !element[bytes - 1] && !element[bytes - 2] && !element[bytes - 3] &&
           !element[bytes - 4])
        bytes -= 4;
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        const uint32_t code = (uint32_t)element[i] | (uint32_t)element[i + 1] << 8 |
                              (uint32_t)element[i + 2] << 16 | (uint32_t)element[i + 3] << 24;
        if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ||
            n + QN_TEXT_CODE >= QN_NPY_NAME)
            return false;
        n += qn_text_put_code(code, name + n);
    }
    name[n] = 0;
    return true;
}

static bool take_bytes(const unsigned char *element, size_t bytes, char name[QN_NPY_NAME]) {
    while (bytes > 0 && !element[bytes - 1])
        bytes--;
    if (bytes >= QN_NPY_NAME || memchr(element, 0, bytes))
        return false;
    memcpy(name, element, bytes);
    name[bytes] = 0;
    for (size_t at = 0, n; at < bytes; at += n)
        if ((n = qn_text_character(name + at)) == 0)
            return false;
    return true;
}

static qn_status read_of(const qn_npy_array *array, qn_file *file, int64_t row,
                         char name[QN_NPY_NAME]) {
    const qn_npy_header *h = &array->header;
    unsigned char element[4 * QN_NPY_TEXT];
    const size_t bytes = (size_t)h->element_bytes;
    QN_TRY(qn_file_read(file, h->header_bytes + row * h->element_bytes, element, bytes));
    if (!(h->kind == 'U' ? take_wide : take_bytes)(element, bytes, name))
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: row %" PRId64 ": characters that are none, or more than %d bytes of "
                       "UTF-8",
                       array->path, row, QN_NPY_NAME - 1);
    return *name ? QN_OK
                 : qn_fail(QN_ERROR_FORMAT,
                           "%s: row %" PRId64 ": an empty text; leave the row out, or name it",
                           array->path, row);
}

qn_status qn_npy_read_text(const qn_npy_array *array, int64_t row, char name[QN_NPY_NAME]) {
    return read_of(array, array->file, row, name);
}

/* ---- the set ---- */

static size_t find_slot(const name_set *set, const char *name) {
    size_t slot = (size_t)qn_hash_text(name) & (set->n_slots - 1);
    while (set->slots[slot] && strcmp(set->names[set->slots[slot] - 1], name) != 0)
        slot = (slot + 1) & (set->n_slots - 1);
    return slot;
}

static qn_status widen_set(name_set *set) {
    const size_t n_before = set->n_slots;
    int32_t *before = set->slots;
    const size_t n_slots = n_before > 0 ? 2 * n_before : FIRST_SLOTS;
    int32_t *slots;
    if (2 * (set->n + 1) <= n_before)
        return QN_OK;
    QN_TRY(qn_allocate(set->allocator, n_slots, sizeof *slots, &slots));
    memset(slots, 0, n_slots * sizeof *slots);
    set->slots = slots;
    set->n_slots = n_slots;
    for (size_t i = 0; i < set->n; i++)
        slots[find_slot(set, set->names[i])] = (int32_t)i + 1;
    qn_release(set->allocator, before, n_before, sizeof *before);
    return QN_OK;
}

static qn_status add_name(name_set *set, const char *name, const char *path) {
    QN_TRY(widen_set(set));
    const size_t slot = find_slot(set, name);
    if (set->slots[slot])
        return QN_OK;
    if (set->n >= MOST_CLASSES)
        return qn_fail(QN_ERROR_FORMAT, "%s: more than %d different texts are no classes", path,
                       MOST_CLASSES);
    const char *kept = qn_arena_text(set->arena, name);
    if (!kept)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(set->allocator, &set->names, &set->capacity, set->n + 1, sizeof *set->names));
    set->names[set->n++] = kept;
    set->slots[slot] = (int32_t)set->n;
    return QN_OK;
}

static int by_text(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Sorts the names into the arena, and numbers them. */
static qn_status sort_names(name_set *set, const char ***sorted) {
    *sorted = qn_arena_allocate(set->arena, set->n, sizeof **sorted);
    if (!*sorted)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_allocate(set->allocator, set->n, sizeof *set->number, &set->number));
    memcpy(*sorted, set->names, set->n * sizeof **sorted);
    qsort(*sorted, set->n, sizeof **sorted, by_text);
    for (size_t i = 0; i < set->n; i++)
        set->number[set->slots[find_slot(set, (*sorted)[i])] - 1] = (int32_t)i;
    return QN_OK;
}

static void set_deinit(name_set *set) {
    qn_release(set->allocator, set->number, set->number ? set->n : 0, sizeof *set->number);
    qn_release(set->allocator, set->names, set->capacity, sizeof *set->names);
    qn_release(set->allocator, set->slots, set->n_slots, sizeof *set->slots);
}

/* ---- the array ---- */

/* A qn_derive: the numbers of the names, int32. */
static qn_status put_numbers(void *context, qn_file *source, qn_sink sink) {
    const labels *l = context;
    const int64_t n = l->array->header.shape.dims[0];
    char name[QN_NPY_NAME];
    for (int64_t row = 0; row < n; row++) {
        QN_TRY(read_of(l->array, source, row, name));
        const int32_t slot = l->set.slots[find_slot(&l->set, name)];
        if (slot == 0)
            return qn_fail(QN_ERROR_IO, "%s: changed while it was read", l->array->path);
        QN_TRY(sink.put(sink.context, &l->set.number[slot - 1], sizeof *l->set.number));
    }
    return QN_OK;
}

static qn_status number(const qn_source_base *base, labels *l, qn_file **numbers,
                        const char ***sorted) {
    const int64_t n = l->array->header.shape.dims[0];
    char name[QN_NPY_NAME];
    for (int64_t row = 0; row < n; row++) {
        QN_TRY(qn_npy_read_text(l->array, row, name));
        QN_TRY(add_name(&l->set, name, l->array->path));
    }
    QN_TRY(sort_names(&l->set, sorted));
    return qn_cache_make(base, l->array->file, put_numbers, l, numbers);
}

qn_status qn_npy_name_classes(qn_source_base *base, qn_npy_array *array, qn_preparation *to) {
    labels l = {.array = array,
                .set = {.allocator = base->options.allocator, .arena = &base->arena}};
    const qn_shape shape = array->header.shape;
    const char **sorted = NULL;
    qn_file *numbers = NULL;
    if (qn_shape_count(shape) != shape.dims[0])
        return qn_fail(QN_ERROR_FORMAT, "%s: %" PRId64 " texts a sample; names of classes are (N)",
                       array->path, qn_shape_count(shape) / shape.dims[0]);
    const qn_status status = number(base, &l, &numbers, &sorted);
    to->n_classes = (int)l.set.n;
    to->class_names = sorted;
    set_deinit(&l.set);
    QN_TRY(status);
    qn_file_close(array->file);
    array->file = numbers;
    array->header = (qn_npy_header){.kind = 'i', .element_bytes = 4, .shape = shape};
    array->header.data_bytes = shape.dims[0] * 4;
    return QN_OK;
}
