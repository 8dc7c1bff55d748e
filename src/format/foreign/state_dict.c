/* See state_dict.h. Storages are where bytes lie, tensors views of them with offsets and strides
 * (torch/serialization.py and torch/_utils.py of PyTorch say which calls make them). */
#include "format/foreign/state_dict.h"

#include "base/print.h"
#include "base/status.h"
#include "format/foreign/pickle.h"
#include "format/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ENTRIES = 1 << 20,
    MOST_DEPTH = 4, /* of dictionaries in dictionaries */
    MOST_PATH = 512,
    MAGIC_BYTES = 14,
};

static const unsigned char old_magic[MAGIC_BYTES] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                                     0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

/* The bytes of a storage's key. */
typedef struct storage {
    const char *key;
    const unsigned char *data;
    uint64_t n_bytes;
    int element_bytes;  /* as its first tensor has it */
    int64_t n;          /* elements, likewise */
    qn_zip_entry entry; /* of a zip file */
    bool is_checked;    /* its checksum is right */
} storage;

typedef struct reading {
    qn_state_dict *dict;
    const unsigned char *data;
    size_t n_bytes;
    storage *storages; /* (n_storages) sorted by key */
    size_t n_storages;
    const char *wanted;                          /* path; or null */
    const qn_pickle_value *found;                /* dictionary with tensors */
    char path[MOST_PATH], others[2 * MOST_PATH]; /* of the dictionary; of further ones */
    int64_t n_found, n_steps; /* dictionaries; values that may still be looked at */
} reading;

/* ---- element types ---- */

typedef struct element_type {
    const char *storage, *name;
    qn_dtype dtype;
    int bytes;
} element_type;

static const element_type types[] = {
    {"torch.FloatStorage", "torch.float32", QN_F32, 4},
    {"torch.DoubleStorage", "torch.float64", QN_F64, 8},
    {"torch.HalfStorage", "torch.float16", QN_F16, 2},
    {"torch.BFloat16Storage", "torch.bfloat16", QN_BF16, 2},
    {"torch.Float8_e4m3fnStorage", "torch.float8_e4m3fn", QN_F8E4M3, 1},
    {"torch.Float8_e5m2Storage", "torch.float8_e5m2", QN_F8E5M2, 1},
    {"torch.LongStorage", "torch.int64", QN_I64, 8},
    {"torch.IntStorage", "torch.int32", QN_I32, 4},
    {"torch.ShortStorage", "torch.int16", QN_I16, 2},
    {"torch.CharStorage", "torch.int8", QN_I8, 1},
    {"torch.ByteStorage", "torch.uint8", QN_U8, 1},
    {"torch.BoolStorage", "torch.bool", QN_NONE, 1},
    {"torch.ComplexFloatStorage", "torch.complex64", QN_NONE, 8},
    {"torch.ComplexDoubleStorage", "torch.complex128", QN_NONE, 16},
};

static const element_type *find_type(const qn_pickle_value *name) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (qn_pickle_is_name(name, types[i].storage) || qn_pickle_is_name(name, types[i].name))
            return &types[i];
    }
    return NULL;
}

/* ---- storages ---- */

static storage *find_storage(const reading *r, const char *key) {
    size_t low = 0, high = r->n_storages;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(r->storages[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->n_storages && strcmp(r->storages[low].key, key) == 0 ? &r->storages[low] : NULL;
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(((const storage *)a)->key, ((const storage *)b)->key);
}

static qn_status sort_storages(reading *r) {
    if (r->n_storages > 1)
        qsort(r->storages, r->n_storages, sizeof *r->storages, compare_keys);
    for (size_t i = 1; i < r->n_storages; i++) {
        if (strcmp(r->storages[i - 1].key, r->storages[i].key) == 0)
            return qn_fail(QN_ERROR_FORMAT, "two storages %s", r->storages[i].key);
    }
    return QN_OK;
}

/* ---- tensors ---- */

/* The i-th argument of a call, or null. */
static const qn_pickle_value *argument(const qn_pickle_value *call, size_t i) {
    const qn_pickle_value *all = call->items[1];
    return all->kind == QN_PICKLE_TUPLE && i < all->n ? all->items[i] : NULL;
}

static bool is_whole(const qn_pickle_value *value) {
    return value && value->kind == QN_PICKLE_WHOLE && value->whole >= 0;
}

/* A call that makes a tensor, behind the one that makes a parameter of it; or null. */
static const qn_pickle_value *find_tensor(const qn_pickle_value *value) {
    if (qn_pickle_is_call(value, "torch._utils._rebuild_parameter") && argument(value, 0))
        value = argument(value, 0);
    const bool is_tensor = qn_pickle_is_call(value, "torch._utils._rebuild_tensor") ||
                           qn_pickle_is_call(value, "torch._utils._rebuild_tensor_v2") ||
                           qn_pickle_is_call(value, "torch._utils._rebuild_tensor_v3");
    return is_tensor ? value : NULL;
}

static qn_status fail_tensor(const char *name, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "tensor %s: %s", name, what);
}

/* ("storage", type, key, place, elements) or the same with an empty view behind it. */
static qn_status read_storage(const qn_pickle_value *reference, const char *name,
                              const qn_pickle_value **type, const char **key, int64_t *n) {
    const qn_pickle_value *to =
        reference && reference->kind == QN_PICKLE_REFERENCE ? reference->items[0] : NULL;
    if (!to || to->kind != QN_PICKLE_TUPLE || to->n < 5 || to->items[2]->kind != QN_PICKLE_TEXT ||
        !is_whole(to->items[4]))
        return fail_tensor(name, "it says wrongly where its elements are");
    if (to->n > 5 && to->items[5]->kind != QN_PICKLE_NONE)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "tensor %s is a view in the way of PyTorch before 0.4; load it there and "
                       "save it again",
                       name);
    *type = to->items[1];
    *key = to->items[2]->text;
    *n = to->items[4]->whole;
    return QN_OK;
}

static qn_status read_extents(const qn_pickle_value *shape, const qn_pickle_value *strides,
                              qn_foreign_tensor *t) {
    if (!shape || !strides || shape->kind != QN_PICKLE_TUPLE || strides->kind != QN_PICKLE_TUPLE ||
        shape->n != strides->n)
        return fail_tensor(t->name, "its shape and strides do not go together");
    if (shape->n > QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "tensor %s has %zu dimensions; %d are the most",
                       t->name, shape->n, QN_MAX_RANK);
    t->shape = (qn_shape){.rank = (int)shape->n};
    for (size_t i = 0; i < shape->n; i++) {
        if (!is_whole(shape->items[i]) || !is_whole(strides->items[i]))
            return fail_tensor(t->name, "its shape and strides are no counts");
        t->shape.dims[i] = shape->items[i]->whole;
        t->strides[i] = strides->items[i]->whole;
    }
    return QN_OK;
}

/* Elements from the first to behind the last; false: beyond all counts. 0: there are none. */
static bool find_span(const qn_foreign_tensor *t, int64_t *span) {
    int64_t last = 0, step, count = 1;
    *span = 0;
    for (int i = 0; i < t->shape.rank; i++) {
        if (t->shape.dims[i] == 0)
            return true;
        if (__builtin_mul_overflow(count, t->shape.dims[i], &count) ||
            __builtin_mul_overflow(t->shape.dims[i] - 1, t->strides[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    }
    return !__builtin_add_overflow(last, 1, span);
}

/* Places a tensor in its storage. */
static qn_status place(reading *r, qn_foreign_tensor *t, const char *key, int64_t offset, int64_t n,
                       const element_type *type) {
    storage *s = find_storage(r, key);
    int64_t span;
    if (!s)
        return fail_tensor(t->name, "its elements are missing");
    if (s->entry.name && !s->is_checked && !qn_zip_is_whole(&s->entry, s->data))
        return fail_tensor(t->name, "wrong checksum: the file is damaged");
    s->is_checked = true;
    if (n > (int64_t)(s->n_bytes / (uint64_t)type->bytes))
        return fail_tensor(t->name, "its elements are cut off");
    if (!find_span(t, &span) || offset > n || span > n - offset)
        return fail_tensor(t->name, "it goes beyond the elements that it is a part of");
    t->begin = s->data - r->data + offset * type->bytes;
    t->bytes = (size_t)span * (size_t)type->bytes;
    return QN_OK;
}

/* (storage, offset, shape, strides, ...); version 3 has the type behind them. */
static qn_status read_tensor(reading *r, const char *name, const qn_pickle_value *call,
                             qn_foreign_tensor *t) {
    const bool has_type = qn_pickle_is_call(call, "torch._utils._rebuild_tensor_v3");
    const qn_pickle_value *type_name, *offset = argument(call, 1);
    const char *key;
    int64_t n;
    *t = (qn_foreign_tensor){.name = name};
    QN_TRY(read_storage(argument(call, 0), name, &type_name, &key, &n));
    if (has_type && argument(call, 6))
        type_name = argument(call, 6);
    const element_type *type = find_type(type_name);
    if (!type)
        return qn_fail(QN_ERROR_UNSUPPORTED, "tensor %s has elements of %s", name,
                       type_name->kind == QN_PICKLE_NAME ? type_name->text : "no known type");
    if (has_type)
        n /= type->bytes; /* such storages count bytes */
    t->dtype = type->dtype;
    t->type = strchr(type->name, '.') + 1;
    QN_TRY(read_extents(argument(call, 2), argument(call, 3), t));
    if (!is_whole(offset))
        return fail_tensor(name, "it says wrongly where its elements are");
    return place(r, t, key, offset->whole, n, type);
}

/* ---- the dictionary ---- */

static qn_status walk(reading *r, const qn_pickle_value *value, const char *path, int depth);

/* Notes a dictionary with tensors under its path. */
static void note_found(reading *r, const qn_pickle_value *dict, const char *path) {
    const size_t used = strlen(r->others);
    if (r->wanted ? strcmp(r->wanted, path) == 0 : r->n_found == 0) {
        r->found = dict;
        qn_print(r->path, sizeof r->path, "%s", path);
    }
    r->n_found++;
    qn_print(r->others + used, sizeof r->others - used, "%s%s", used ? ", " : "",
             *path ? path : "\"\"");
}

static void note_other(reading *r, const qn_pickle_value *value) {
    if (value->kind == QN_PICKLE_CALL && value->items[0]->kind == QN_PICKLE_NAME && !r->dict->other)
        r->dict->other = value->items[0]->text;
}

static qn_status walk_entries(reading *r, const qn_pickle_value *dict, const char *path,
                              int depth) {
    char below[MOST_PATH];
    for (size_t i = 0; i + 1 < dict->n; i += 2) {
        const qn_pickle_value *key = dict->items[i], *value = dict->items[i + 1];
        if (--r->n_steps < 0)
            return qn_fail(QN_ERROR_FORMAT, "dictionaries inside of dictionaries without an end");
        if (key->kind != QN_PICKLE_TEXT || find_tensor(value))
            continue;
        const int n = snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", key->text);
        if (n < (int)sizeof below)
            QN_TRY(walk(r, value, below, depth + 1));
    }
    return QN_OK;
}

/* Finds dictionaries of tensors below a value. Optimisers number theirs, which are passed over. */
static qn_status walk(reading *r, const qn_pickle_value *value, const char *path, int depth) {
    bool has_tensors = false;
    note_other(r, value);
    if (value->kind != QN_PICKLE_DICT || depth > MOST_DEPTH)
        return QN_OK;
    for (size_t i = 0; i + 1 < value->n && !has_tensors; i += 2)
        has_tensors = value->items[i]->kind == QN_PICKLE_TEXT && find_tensor(value->items[i + 1]);
    r->n_steps -= (int64_t)value->n;
    if (has_tensors)
        note_found(r, value, path);
    return walk_entries(r, value, path, depth);
}

static qn_status fail_without_tensors(const reading *r, const qn_pickle_value *root) {
    if (root->kind == QN_PICKLE_CALL && root->items[0]->kind == QN_PICKLE_NAME)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "it holds a whole %s, which only running the file's code could make; save "
                       "the weights alone: torch.save(model.state_dict(), FILE)",
                       root->items[0]->text);
    if (r->wanted && r->n_found > 0)
        return qn_fail(QN_ERROR_ARGUMENT, "no tensors under %s; there are some under %s", r->wanted,
                       r->others);
    return qn_fail(QN_ERROR_FORMAT, "no tensors by name in it%s%s",
                   r->dict->other ? ", but a " : "", r->dict->other ? r->dict->other : "");
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(const qn_foreign_tensor *const *)a)->name,
                  (*(const qn_foreign_tensor *const *)b)->name);
}

static qn_status check_names(reading *r) {
    const size_t n = r->dict->n_tensors;
    const qn_foreign_tensor **sorted = qn_arena_allocate(&r->dict->arena, n + 1, sizeof *sorted);
    if (!sorted)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &r->dict->tensors[i];
    qsort(sorted, n, sizeof *sorted, compare_names);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return fail_tensor(sorted[i]->name, "it is there twice");
    }
    return QN_OK;
}

static qn_status read_tensors(reading *r, const qn_pickle_value *root) {
    qn_state_dict *dict = r->dict;
    QN_TRY(walk(r, root, "", 0));
    if (!r->found)
        return fail_without_tensors(r, root);
    if (!r->wanted && r->n_found > 1)
        return qn_fail(QN_ERROR_ARGUMENT, "weights under several keys: %s; say which: --key KEY",
                       r->others);
    dict->path = qn_arena_text(&dict->arena, r->path);
    dict->tensors = qn_arena_allocate(&dict->arena, r->found->n / 2 + 1, sizeof *dict->tensors);
    if (!dict->path || !dict->tensors)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i + 1 < r->found->n; i += 2) {
        const qn_pickle_value *key = r->found->items[i];
        const qn_pickle_value *call = find_tensor(r->found->items[i + 1]);
        if (key->kind != QN_PICKLE_TEXT || !call)
            continue;
        QN_TRY(read_tensor(r, key->text, call, &dict->tensors[dict->n_tensors]));
        dict->n_tensors++;
    }
    return check_names(r);
}

/* ---- the older container ---- */

/* How many bytes an element of each storage has is in the stream alone. */
static void note_storages(reading *r, const qn_pickle_value *call) {
    const qn_pickle_value *type_name;
    const char *key;
    int64_t n;
    if (read_storage(argument(call, 0), "", &type_name, &key, &n) != QN_OK)
        return;
    const element_type *type = find_type(type_name);
    storage *s = find_storage(r, key);
    if (type && s && s->element_bytes == 0) {
        s->element_bytes = type->bytes;
        s->n = n;
    }
}

static qn_status note_all_storages(reading *r, const qn_pickle_value *value, int depth) {
    for (size_t i = 0; i < value->n; i++) {
        const qn_pickle_value *item = value->items[i];
        if (--r->n_steps < 0)
            return qn_fail(QN_ERROR_FORMAT, "values inside of values without an end");
        if (find_tensor(item))
            note_storages(r, find_tensor(item));
        else if (depth < 2 * MOST_DEPTH)
            QN_TRY(note_all_storages(r, item, depth + 1));
    }
    return QN_OK;
}

static qn_status next_pickle(reading *r, size_t *at, const qn_pickle_value **value) {
    size_t n_used;
    QN_TRY(qn_pickle_read(&r->dict->arena, r->data + *at, r->n_bytes - *at, &n_used, value));
    *at += n_used;
    return QN_OK;
}

static qn_status set_old_storages(reading *r, const qn_pickle_value *keys) {
    if (keys->kind != QN_PICKLE_TUPLE)
        return qn_fail(QN_ERROR_FORMAT, "its list of storages is missing");
    r->storages = qn_arena_allocate(&r->dict->arena, keys->n + 1, sizeof *r->storages);
    if (!r->storages)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < keys->n; i++) {
        if (keys->items[i]->kind != QN_PICKLE_TEXT)
            return qn_fail(QN_ERROR_FORMAT, "a storage without a key");
        r->storages[r->n_storages++].key = keys->items[i]->text;
    }
    return sort_storages(r);
}

/* Elements follow one another in the order of the keys, each behind its count. */
static qn_status place_old_storages(reading *r, const qn_pickle_value *keys, size_t at) {
    for (size_t i = 0; i < keys->n; i++) {
        storage *s = find_storage(r, keys->items[i]->text);
        if (s->element_bytes == 0)
            return qn_fail(
                QN_ERROR_UNSUPPORTED,
                "storage %s is none of a tensor that quern reads, so that its size is "
                "not known; save the weights alone: torch.save(model.state_dict(), FILE)",
                s->key);
        if (r->n_bytes - at < 8)
            return qn_fail(QN_ERROR_FORMAT, "cut off in front of storage %s", s->key);
        const uint64_t n = qn_zip_take(r->data + at, 8);
        at += 8;
        if (s->n < 0 || n != (uint64_t)s->n || n > (r->n_bytes - at) / (size_t)s->element_bytes)
            return qn_fail(QN_ERROR_FORMAT, "storage %s is cut off", s->key);
        s->data = r->data + at;
        s->n_bytes = n * (uint64_t)s->element_bytes;
        at += (size_t)s->n_bytes;
    }
    return QN_OK;
}

static qn_status parse_old(reading *r) {
    const qn_pickle_value *ignored, *machine, *root, *keys;
    size_t at = 0;
    QN_TRY(next_pickle(r, &at, &ignored)); /* the magic number */
    QN_TRY(next_pickle(r, &at, &ignored)); /* the version */
    QN_TRY(next_pickle(r, &at, &machine));
    const qn_pickle_value *order = qn_pickle_find(machine, "little_endian");
    if (order && order->whole == 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "written on a big-endian machine");
    QN_TRY(next_pickle(r, &at, &root));
    QN_TRY(next_pickle(r, &at, &keys));
    QN_TRY(set_old_storages(r, keys));
    QN_TRY(note_all_storages(r, root, 0));
    r->n_steps = (int64_t)r->n_bytes;
    QN_TRY(place_old_storages(r, keys, at));
    return read_tensors(r, root);
}

/* ---- the zip container ---- */

/* Whether an entry's name is a folder, then this: "NAME/data.pkl". *n_folder: of "NAME/". */
static bool is_called(const qn_zip_entry *e, const char *name, size_t *n_folder) {
    const size_t n = strlen(name);
    if (e->name_bytes < n || memcmp(e->name + e->name_bytes - n, name, n) != 0)
        return false;
    *n_folder = e->name_bytes - n;
    return *n_folder == 0 || e->name[*n_folder - 1] == '/';
}

static qn_status add_storage(reading *r, const qn_zip_entry *e, const char *key, size_t n_key,
                             const unsigned char *data) {
    storage *s = &r->storages[r->n_storages];
    if (e->method != QN_ZIP_STORED)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%.*s is packed, which torch.save does not do",
                       (int)e->name_bytes, e->name);
    s->key = qn_arena_format(&r->dict->arena, "%.*s", (int)n_key, key);
    if (!s->key)
        return QN_ERROR_MEMORY;
    s->data = data;
    s->n_bytes = e->unpacked;
    s->entry = *e;
    r->n_storages++;
    return QN_OK;
}

/* Takes note of an entry below the folder "NAME/". */
static qn_status take_entry(reading *r, qn_zip *zip, const qn_zip_entry *e, size_t n_folder,
                            qn_zip_entry *pickle, const unsigned char **stream) {
    static const char data_folder[] = "data/", code[] = "code/";
    const char *name = e->name + n_folder;
    const size_t n = e->name_bytes - n_folder;
    const unsigned char *bytes;
    QN_TRY(qn_zip_locate(zip, e, &bytes));
    if (n > strlen(code) && memcmp(name, code, strlen(code)) == 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "a TorchScript program; save the weights alone: "
                                             "torch.save(model.state_dict(), FILE)");
    if (n == 8 && memcmp(name, "data.pkl", 8) == 0) {
        *pickle = *e;
        *stream = bytes;
    } else if (n == 9 && memcmp(name, "byteorder", 9) == 0) {
        if (e->unpacked < 6 || memcmp(bytes, "little", 6) != 0)
            return qn_fail(QN_ERROR_UNSUPPORTED, "written on a big-endian machine");
    } else if (n > strlen(data_folder) && memcmp(name, data_folder, strlen(data_folder)) == 0) {
        return add_storage(r, e, name + strlen(data_folder), n - strlen(data_folder), bytes);
    }
    return QN_OK;
}

/* The folder that all is in, by the entry that must be there. */
static qn_status find_folder(qn_zip zip, const char **folder, size_t *n_folder) {
    qn_zip_entry e;
    for (uint64_t i = 0; i < zip.n_entries; i++) {
        QN_TRY(qn_zip_next(&zip, &e));
        *folder = e.name;
        if (is_called(&e, "data.pkl", n_folder))
            return QN_OK;
    }
    return qn_fail(QN_ERROR_FORMAT, "a zip file without data.pkl, which torch.save writes");
}

static qn_status parse_zip(reading *r) {
    const unsigned char *stream = NULL;
    const qn_pickle_value *root;
    const char *folder = NULL;
    size_t n_folder = 0, n_used;
    qn_zip zip;
    qn_zip_entry e, pickle;
    QN_TRY(qn_zip_open(&zip, r->data, r->n_bytes, MOST_ENTRIES, "a file of torch.save",
                       "write it with torch.save(model.state_dict(), FILE)"));
    QN_TRY(find_folder(zip, &folder, &n_folder));
    r->storages =
        qn_arena_allocate(&r->dict->arena, (size_t)zip.n_entries + 1, sizeof *r->storages);
    if (!r->storages)
        return QN_ERROR_MEMORY;
    for (uint64_t i = 0; i < zip.n_entries; i++) {
        QN_TRY(qn_zip_next(&zip, &e));
        if (e.name_bytes >= n_folder && memcmp(e.name, folder, n_folder) == 0)
            QN_TRY(take_entry(r, &zip, &e, n_folder, &pickle, &stream));
    }
    if (!stream || pickle.method != QN_ZIP_STORED || !qn_zip_is_whole(&pickle, stream))
        return qn_fail(QN_ERROR_FORMAT, "data.pkl is damaged");
    QN_TRY(sort_storages(r));
    QN_TRY(qn_pickle_read(&r->dict->arena, stream, (size_t)pickle.unpacked, &n_used, &root));
    return read_tensors(r, root);
}

/* ---- files ---- */

bool qn_state_dict_is(const unsigned char *data, size_t n_bytes) {
    return n_bytes >= MAGIC_BYTES &&
           (memcmp(data, old_magic, MAGIC_BYTES) == 0 || memcmp(data, "PK\3\4", 4) == 0);
}

void qn_state_dict_init(qn_state_dict *dict, const qn_allocator *allocator) {
    *dict = (qn_state_dict){.n_tensors = 0};
    qn_arena_init(&dict->arena, allocator);
}

qn_status qn_state_dict_parse(qn_state_dict *dict, const unsigned char *data, size_t n_bytes,
                              const char *key) {
    reading r = {
        .dict = dict, .data = data, .n_bytes = n_bytes, .wanted = key, .n_steps = (int64_t)n_bytes};
    if (!qn_state_dict_is(data, n_bytes))
        return qn_fail(QN_ERROR_FORMAT, "not a file of torch.save");
    return data[0] == 'P' ? parse_zip(&r) : parse_old(&r);
}

void qn_state_dict_deinit(qn_state_dict *dict) {
    qn_arena_deinit(&dict->arena);
}
