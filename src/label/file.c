/* A labeller as a safetensors file, so that other programs can read it. One tensor has all numbers
 * of the state, a second the counts, a third the examples if there are any; texts are pairs.
 * Everything is checked before use: a damaged or forged file is rejected, and none makes the
 * labeller access memory outside its own. Files of version 1, which have no examples, are read as
 * well; those whose rows have columns of few values, or are turned, are of version 3. */
#include "label/file.h"

#include "base/status.h"
#include "format/safetensors.h"
#include "label/blur.h"
#include "label/kept.h"
#include "label/network/net.h"
#include "os/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_VERSION "2"
#define OLDER_VERSION  "1"
#define LATER_VERSION  "3" /* with columns of few values, or a turn */

/* Places of the tensor "counts", before those of clusters and records. */
enum {
    AT_FEATURES,
    AT_KNOWN,
    AT_CAPACITY,
    AT_SEED_LOW, /* 32 bits each */
    AT_SEED_HIGH,
    AT_WINDOW,
    AT_WINDOW_AT,
    AT_STAGE,
    AT_SAMPLES,
    AT_FOUND,
    AT_KNOWN_CLUSTERS,
    AT_FRESH_CLUSTERS,
    AT_ROWS,
    AT_BYTES,
    AT_EXAMPLES, /* this and the next one since version 2 */
    AT_EXAMPLE_ROOM,
    N_FIXED,
    N_FIXED_OLDER = AT_EXAMPLES,
    RECORD_COUNTS = QN_LABEL_RECORD_COUNTS
};

static size_t n_records(const qn_labeller *l) {
    return qn_labeller_record_count(l);
}

static size_t n_counts(const qn_labeller *l) {
    return N_FIXED + (size_t)l->capacity + QN_LABEL_FRESH + RECORD_COUNTS * n_records(l);
}

/* Floats of the block that are state. */
static size_t n_state(const qn_labeller *l) {
    return (size_t)(l->scratch - l->block);
}

/* ---- writing ---- */

static void fill_counts(const qn_labeller *l, double *counts) {
    const double fixed[N_FIXED] = {
        [AT_FEATURES] = l->d,
        [AT_KNOWN] = l->n_known,
        [AT_CAPACITY] = l->capacity,
        [AT_SEED_LOW] = (double)(l->seed & 0xffffffffu),
        [AT_SEED_HIGH] = (double)(l->seed >> 32),
        [AT_WINDOW] = l->n_window,
        [AT_WINDOW_AT] = l->window_at,
        [AT_STAGE] = l->stage,
        [AT_SAMPLES] = (double)l->n_samples,
        [AT_FOUND] = (double)l->n_found,
        [AT_KNOWN_CLUSTERS] = l->known.n,
        [AT_FRESH_CLUSTERS] = l->fresh.n,
        [AT_ROWS] = (double)l->where.n_rows,
        [AT_BYTES] = (double)l->where.n_bytes,
        [AT_EXAMPLES] = l->examples.n,
        [AT_EXAMPLE_ROOM] = l->examples.capacity,
    };
    memcpy(counts, fixed, sizeof fixed);
    counts += N_FIXED;
    for (int k = 0; k < l->capacity; k++)
        *counts++ = l->owner[k];
    for (int k = 0; k < QN_LABEL_FRESH; k++)
        *counts++ = l->place[k];
    qn_labeller_put_records(l, counts);
}

void qn_labeller_put_records(const qn_labeller *l, double *counts) {
    for (size_t i = 0; i < n_records(l); i++) {
        const qn_label_record *r = &l->records[i];
        *counts++ = (double)r->serial;
        *counts++ = (double)r->n_members;
        *counts++ = (double)r->first;
        *counts++ = (double)r->last;
    }
}

enum { N_PAIRS_FIXED = 3, KEY_BYTES = QN_LABEL_KEY, MOST_TEXTS = QN_LABEL_MAX_FEATURES };

/* ---- columns of texts ---- */

/* The texts of all columns, in order. */
static size_t n_texts(const qn_labeller *l) {
    size_t n = 0;
    for (int i = 0; l->columns.column && i < l->columns.n; i++)
        n += (size_t)l->columns.column[i].n;
    return n;
}

static size_t n_columns(const qn_labeller *l) {
    return l->columns.column ? (size_t)l->columns.n : 0;
}

static size_t n_named(const qn_labeller *l) {
    return l->columns.names ? (size_t)l->columns.n : 0;
}

/* Numbers of the texts, those of a column behind each other. */
static void fill_numbers(const qn_labeller *l, int32_t *sizes, int32_t *numbers) {
    for (size_t i = 0; i < n_columns(l); i++) {
        const qn_label_column *c = &l->columns.column[i];
        sizes[i] = c->is_text ? c->n : -1;
        for (int k = 0; k < c->n; k++)
            *numbers++ = c->number[k];
    }
}

static size_t put_columns(const qn_labeller *l, qn_safetensors_pair *pairs,
                          char (*keys)[KEY_BYTES]) {
    for (size_t i = 0; i < n_named(l); i++) {
        snprintf(keys[i], KEY_BYTES, "column.%05u", (unsigned)i);
        pairs[i] = (qn_safetensors_pair){keys[i], l->columns.names[i]};
    }
    return n_named(l);
}

static size_t put_texts(const qn_labeller *l, qn_safetensors_pair *pairs, char (*keys)[KEY_BYTES]) {
    size_t n = 0;
    for (size_t i = 0; i < n_columns(l); i++)
        for (int k = 0; k < l->columns.column[i].n; k++, n++) {
            snprintf(keys[n], KEY_BYTES, "text.%05u", (unsigned)n);
            pairs[n] = (qn_safetensors_pair){keys[n], l->columns.column[i].texts[k]};
        }
    return n;
}

/* ---- writing all ---- */

size_t qn_labeller_put_names(const qn_labeller *l, qn_safetensors_pair *pairs,
                             char (*keys)[QN_LABEL_KEY]) {
    size_t n = 0;
    for (size_t i = 0; i < n_records(l); i++) {
        snprintf(keys[i], KEY_BYTES, "name.%05u", (unsigned)i);
        if (l->records[i].serial >= 0)
            pairs[n++] = (qn_safetensors_pair){keys[i], l->records[i].name};
    }
    return n;
}

/* What a file is written from. */
typedef struct writing {
    double *counts;
    int32_t *sizes, *numbers; /* of columns of texts */
    qn_safetensors_pair *pairs;
    char (*keys)[KEY_BYTES];
    qn_kept_rows rows;
} writing;

static size_t fill_pairs(const qn_labeller *l, const writing *w) {
    char(*const keys)[KEY_BYTES] = w->keys + n_named(l) + n_texts(l);
    size_t n = put_columns(l, w->pairs, w->keys);
    w->pairs[n++] = (qn_safetensors_pair){"format", QN_LABEL_FORMAT};
    n += qn_labeller_put_names(l, w->pairs + n, keys);
    w->pairs[n++] = (qn_safetensors_pair){"source", l->where.source};
    n += put_texts(l, w->pairs + n, w->keys + n_named(l));
    const bool is_later = l->columns.column || l->turn || l->step;
    w->pairs[n++] = (qn_safetensors_pair){"version", is_later ? LATER_VERSION : FORMAT_VERSION};
    return n;
}

qn_safetensor qn_label_tensor(const char *name, qn_dtype dtype, qn_shape shape, const void *data) {
    return (qn_safetensor){.name = name,
                           .dtype = dtype,
                           .shape = shape,
                           .bytes = qn_tensor_bytes((qn_tensor){dtype, shape}),
                           .data = data};
}

static qn_safetensor tensor_of(const char *name, qn_dtype dtype, size_t n, const void *data) {
    return qn_label_tensor(name, dtype, QN_SHAPE((int64_t)n), data);
}

static size_t put_rows(const qn_kept_rows *rows, qn_safetensor *tensors) {
    const size_t n = (size_t)rows->n;
    if (n == 0)
        return 0;
    tensors[0] = tensor_of("rows.class", QN_I32, n, rows->class_of);
    tensors[1] = tensor_of("rows.confidence", QN_F32, n, rows->confidence);
    tensors[2] = qn_label_tensor("rows.x", QN_F32, QN_SHAPE(rows->n, rows->d), rows->x);
    return 3;
}

static qn_status write_parts(const qn_labeller *l, const char *path, const writing *w) {
    qn_safetensor tensors[11];
    size_t n = 0;
    fill_counts(l, w->counts);
    fill_numbers(l, w->sizes, w->numbers);
    tensors[n++] = tensor_of("counts", QN_F64, n_counts(l), w->counts);
    tensors[n++] = tensor_of("state", QN_F32, n_state(l), l->block);
    if (l->examples.n > 0)
        tensors[n++] = tensor_of("examples", QN_F32, l->n_example_floats, l->example_block);
    if (n_columns(l) > 0)
        tensors[n++] = tensor_of("columns", QN_I32, n_columns(l), w->sizes);
    if (l->columns.medians)
        tensors[n++] = tensor_of("medians", QN_F32, (size_t)l->columns.n, l->columns.medians);
    if (n_texts(l) > 0)
        tensors[n++] = tensor_of("texts", QN_I32, n_texts(l), w->numbers);
    if (l->turn)
        tensors[n++] = tensor_of("turn", QN_F32, (size_t)l->d * (size_t)l->d, l->turn);
    if (l->step)
        tensors[n++] = tensor_of("step", QN_F32, 2 * (size_t)l->d, l->step);
    n += put_rows(&w->rows, tensors + n);
    return qn_safetensors_write(l->allocator, path, tensors, n, w->pairs, fill_pairs(l, w));
}

qn_status qn_labeller_save(const qn_labeller *labeller, const char *path) {
    QN_NEED(labeller, "labeller");
    QN_NEED(path, "path");
    const qn_labeller *l = labeller;
    if (l->net)
        return qn_net_save(l, path);
    qn_arena arena;
    qn_arena_init(&arena, l->allocator);
    const size_t n_keys = n_records(l) + n_named(l) + n_texts(l);
    writing w = {qn_arena_allocate(&arena, n_counts(l), sizeof *w.counts),
                 qn_arena_allocate(&arena, n_columns(l) + 1, sizeof *w.sizes),
                 qn_arena_allocate(&arena, n_texts(l) + 1, sizeof *w.numbers),
                 qn_arena_allocate(&arena, n_keys + N_PAIRS_FIXED, sizeof *w.pairs),
                 qn_arena_allocate(&arena, n_keys, sizeof *w.keys),
                 {0}};
    qn_status status = w.counts && w.sizes && w.numbers && w.pairs && w.keys
                           ? qn_kept_rows_get(l, &arena, &w.rows)
                           : QN_ERROR_MEMORY;
    if (status == QN_OK)
        status = write_parts(l, path, &w);
    qn_arena_deinit(&arena);
    return status;
}

/* ---- reading ---- */

qn_status qn_label_refuse(const qn_label_reading *r, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "%s: not a labeller file, or damaged: %s", r->path, what);
}

qn_status qn_label_read_tensor(const qn_label_reading *r, const char *name, qn_dtype dtype,
                               size_t bytes, void *to) {
    const qn_safetensor *t = qn_safetensors_find(&r->file, name);
    if (!t || t->dtype != dtype || t->bytes != bytes)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: not a labeller file, or damaged: tensor %s is missing or has a wrong "
                       "size",
                       r->path, name);
    return qn_file_read(r->from, r->file.data_offset + t->begin, to, bytes);
}

qn_status qn_label_read_counts(qn_label_reading *r, size_t n_least, size_t n_added) {
    const qn_safetensor *t = qn_safetensors_find(&r->file, "counts");
    if (!t || t->bytes < n_least * sizeof(double) || t->bytes > (1 << 16) * sizeof(double))
        return qn_label_refuse(r, "its counts are missing");
    const size_t n = t->bytes / sizeof(double);
    r->n_counts = n + n_added;
    QN_TRY(qn_allocate(r->allocator, r->n_counts, sizeof(double), &r->counts));
    return qn_label_read_tensor(r, "counts", QN_F64, n * sizeof(double), r->counts);
}

bool qn_label_is_count(double value, double least, double most) {
    return value >= least && value <= most && value == (double)(int64_t)value;
}

bool qn_label_are_moderate(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(x[i] <= 1e30f && x[i] >= -1e30f))
            return false;
    return true;
}

/* The counts that all others depend on. */
static bool are_sizes(const double *c) {
    return qn_label_is_count(c[AT_FEATURES], 1, QN_LABEL_MAX_FEATURES) &&
           qn_label_is_count(c[AT_KNOWN], 1, QN_LABEL_MAX_KNOWN) &&
           qn_label_is_count(c[AT_CAPACITY], QN_CLUSTER_LANES, QN_MAX_LANES) &&
           (int)c[AT_CAPACITY] % QN_CLUSTER_LANES == 0;
}

static bool take_fixed(qn_labeller *l, const double *c) {
    static const double largest[N_FIXED] = {
        [AT_SEED_LOW] = 4294967295.0,         [AT_SEED_HIGH] = 4294967295.0,
        [AT_WINDOW] = QN_LABEL_WINDOW,        [AT_WINDOW_AT] = QN_LABEL_WINDOW - 1,
        [AT_STAGE] = QN_LABEL_STAGES,         [AT_SAMPLES] = QN_LABEL_LARGEST_COUNT,
        [AT_FOUND] = QN_LABEL_LARGEST_COUNT,  [AT_KNOWN_CLUSTERS] = QN_MAX_LANES,
        [AT_FRESH_CLUSTERS] = QN_LABEL_FRESH, [AT_ROWS] = QN_LABEL_LARGEST_COUNT,
        [AT_BYTES] = QN_LABEL_LARGEST_COUNT,  [AT_EXAMPLES] = QN_MOST_EXAMPLES,
        [AT_EXAMPLE_ROOM] = QN_MOST_EXAMPLES,
    };
    for (int i = AT_SEED_LOW; i < N_FIXED; i++)
        if (!qn_label_is_count(c[i], 0, largest[i]))
            return false;
    l->seed = (uint64_t)c[AT_SEED_LOW] | (uint64_t)c[AT_SEED_HIGH] << 32;
    l->n_window = (int32_t)c[AT_WINDOW];
    l->window_at = (int32_t)c[AT_WINDOW_AT];
    l->stage = (int32_t)c[AT_STAGE];
    l->n_samples = (int64_t)c[AT_SAMPLES];
    l->n_found = (int64_t)c[AT_FOUND];
    l->known.n = l->origin.n = (int)c[AT_KNOWN_CLUSTERS];
    l->fresh.n = (int)c[AT_FRESH_CLUSTERS];
    l->where.n_rows = (int64_t)c[AT_ROWS];
    l->where.n_bytes = (int64_t)c[AT_BYTES];
    return l->known.n >= 1 && l->known.n <= l->capacity && l->fresh.n >= 1 &&
           (l->n_window == QN_LABEL_WINDOW || l->window_at == l->n_window);
}

/* Whether a found class has a serial that an earlier one has: each is one class. */
static bool is_there_twice(const qn_labeller *l, size_t record) {
    for (size_t i = (size_t)l->n_known; i < record; i++)
        if (l->records[i].serial == l->records[record].serial && l->records[i].serial >= 0)
            return true;
    return false;
}

bool qn_labeller_take_records(qn_labeller *l, const double *c) {
    for (size_t i = 0; i < n_records(l); i++, c += RECORD_COUNTS) {
        qn_label_record *r = &l->records[i];
        for (int j = 0; j < RECORD_COUNTS; j++)
            if (!qn_label_is_count(c[j], -1, QN_LABEL_LARGEST_COUNT))
                return false;
        r->serial = (int64_t)c[0];
        r->n_members = (int64_t)c[1];
        r->first = (int64_t)c[2];
        r->last = (int64_t)c[3];
        if (i < (size_t)l->n_known ? r->serial != (int64_t)i : r->serial >= l->n_found)
            return false;
        if (is_there_twice(l, i))
            return false;
    }
    return true;
}

static bool take_counts(qn_labeller *l, const double *c) {
    if (!take_fixed(l, c))
        return false;
    c += N_FIXED;
    for (int k = 0; k < l->capacity; k++, c++) {
        if (!qn_label_is_count(*c, 0, l->n_known - 1))
            return false;
        l->owner[k] = (int32_t)*c;
    }
    for (int k = 0; k < QN_LABEL_FRESH; k++, c++) {
        if (!qn_label_is_count(*c, 0, QN_LABEL_MAX_NEW - 1))
            return false;
        l->place[k] = (int32_t)*c;
    }
    return qn_labeller_take_records(l, c);
}

/* Finite numbers, positive where something is divided by them or their logarithm is taken. */
static bool is_sound_set(const qn_clusters *set) {
    for (int k = 0; k < set->capacity; k++)
        if (!(set->shape[k] > 0) || !(set->scale[k] > 0) || !(set->smooth[k] > 0) ||
            !(set->weight[k] >= 0 && set->weight[k] <= 2.0f) || (k >= set->n && set->weight[k] > 0))
            return false;
    return true;
}

static bool are_sound_examples(const qn_labeller *l) {
    const qn_examples *e = &l->examples;
    if (!qn_label_are_moderate(l->example_block, l->n_example_floats))
        return false;
    for (int i = 0; i < e->capacity; i++)
        if (!(e->weight[i] >= 0 && e->weight[i] <= 2.0f) || (i >= e->n && e->weight[i] > 0) ||
            !qn_label_is_count((double)e->class_of[i], 0, l->n_known - 1))
            return false;
    return *e->share >= 0 && *e->share <= 1.0f && is_sound_set(&e->kernel);
}

static bool is_sound_state(const qn_labeller *l) {
    if (!qn_label_are_moderate(l->block, n_state(l)))
        return false;
    for (int j = 0; j < l->d; j++)
        if (!(l->factor[j] > 0))
            return false;
    return is_sound_set(&l->origin) && is_sound_set(&l->known) && is_sound_set(&l->fresh) &&
           *l->known_weight >= 0 && *l->known_weight <= 1.0f;
}

static bool take_text(char *to, size_t bytes, const char *text) {
    if (strlen(text) >= bytes)
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

bool qn_labeller_take_texts(qn_labeller *l, const qn_safetensors *file) {
    bool is_sound = true;
    for (size_t i = 0; i < file->n_pairs; i++) {
        const qn_safetensors_pair *pair = &file->pairs[i];
        if (strcmp(pair->key, "source") == 0)
            is_sound &= take_text(l->where.source, sizeof l->where.source, pair->value);
        if (strncmp(pair->key, "name.", 5) != 0)
            continue;
        const size_t at = strtoul(pair->key + 5, NULL, 10);
        is_sound &= at < n_records(l) &&
                    take_text(l->records[at].name, sizeof l->records[at].name, pair->value);
    }
    return is_sound;
}

static const char *pair_of(const qn_safetensors *file, const char *key) {
    for (size_t i = 0; i < file->n_pairs; i++)
        if (strcmp(file->pairs[i].key, key) == 0)
            return file->pairs[i].value;
    return "";
}

qn_status qn_label_check_format(const qn_label_reading *r, const char *version) {
    if (strcmp(pair_of(&r->file, "format"), QN_LABEL_FORMAT) != 0)
        return qn_label_refuse(r, "quern label init creates one");
    if (strcmp(pair_of(&r->file, "version"), version) != 0)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: version %.20s of a labeller's file; this quern reads %s", r->path,
                       pair_of(&r->file, "version"), version);
    return QN_OK;
}

/* Counts of an older file get the places that it lacks, with zeros. */
static qn_status read_counts(qn_label_reading *r) {
    const bool is_older = strcmp(pair_of(&r->file, "version"), OLDER_VERSION) == 0;
    const bool is_later = qn_safetensors_find(&r->file, "columns") ||
                          qn_safetensors_find(&r->file, "step") ||
                          qn_safetensors_find(&r->file, "turn");
    const char *version = is_older ? OLDER_VERSION : is_later ? LATER_VERSION : FORMAT_VERSION;
    QN_TRY(qn_label_check_format(r, version));
    const size_t added = is_older ? N_FIXED - N_FIXED_OLDER : 0;
    QN_TRY(qn_label_read_counts(r, N_FIXED, added));
    if (is_older) {
        memmove(r->counts + N_FIXED, r->counts + N_FIXED_OLDER,
                (r->n_counts - N_FIXED) * sizeof(double));
        memset(r->counts + N_FIXED_OLDER, 0, added * sizeof(double));
    }
    return are_sizes(r->counts) ? QN_OK : qn_label_refuse(r, "its sizes are invalid");
}

static qn_status read_examples(qn_label_reading *r) {
    qn_labeller *l = r->labeller;
    const int n = (int)r->counts[AT_EXAMPLES], room = (int)r->counts[AT_EXAMPLE_ROOM];
    if (n > room || room % QN_CLUSTER_LANES != 0 || (n == 0) != (room == 0))
        return qn_label_refuse(r, "its counts contradict each other");
    if (n == 0)
        return QN_OK;
    QN_TRY(qn_labeller_make_examples(l, room));
    l->examples.n = n;
    QN_TRY(qn_label_read_tensor(r, "examples", QN_F32, l->n_example_floats * sizeof(float),
                                l->example_block));
    return are_sound_examples(l) ? QN_OK : qn_label_refuse(r, "its numbers are invalid");
}

/* Texts from the pairs; false: some are too long. */
static bool take_texts(const qn_labeller *l, const qn_safetensors *file) {
    char key[KEY_BYTES];
    size_t n = 0;
    for (int i = 0; i < l->columns.n; i++) {
        qn_label_column *c = &l->columns.column[i];
        for (int k = 0; k < c->n; k++, n++) {
            snprintf(key, sizeof key, "text.%05zu", n);
            c->texts[k] = pair_of(file, key);
            if (strlen(c->texts[k]) >= QN_LABEL_TEXT || (k > 0 && c->number[k - 1] >= c->number[k]))
                return false;
        }
    }
    return true;
}

/* The file's texts go with it. */
static qn_status keep_texts(qn_label_columns *columns) {
    for (int i = 0; i < columns->n; i++) {
        qn_label_column *c = &columns->column[i];
        for (int k = 0; k < c->n; k++) {
            c->texts[k] = qn_arena_text(&columns->arena, c->texts[k]);
            if (!c->texts[k])
                return QN_ERROR_MEMORY;
        }
    }
    return QN_OK;
}

static qn_status read_numbers(qn_label_reading *r) {
    const qn_label_columns *columns = &r->labeller->columns;
    int32_t numbers[MOST_TEXTS], *at = numbers;
    const size_t n = n_texts(r->labeller);
    if (n > MOST_TEXTS)
        return qn_label_refuse(r, "its columns contradict its counts");
    if (n > 0)
        QN_TRY(qn_label_read_tensor(r, "texts", QN_I32, n * sizeof *numbers, numbers));
    for (size_t i = 0; i < n; i++)
        if (numbers[i] < 0)
            return qn_label_refuse(r, "a text is damaged");
    for (int i = 0; i < columns->n; i++)
        for (int k = 0; k < columns->column[i].n; k++)
            columns->column[i].number[k] = *at++;
    return take_texts(r->labeller, &r->file) ? QN_OK : qn_label_refuse(r, "a text is damaged");
}

/* Columns of texts, if there are any: their features are those of the samples. */
static qn_status read_columns(qn_label_reading *r) {
    const qn_safetensor *t = qn_safetensors_find(&r->file, "columns");
    int32_t sizes[QN_LABEL_MAX_FEATURES];
    qn_label_columns *columns = &r->labeller->columns;
    if (!t)
        return QN_OK;
    if (t->bytes < sizeof *sizes || t->bytes > (size_t)r->labeller->d * sizeof *sizes)
        return qn_label_refuse(r, "its columns contradict its counts");
    QN_TRY(qn_label_read_tensor(r, "columns", QN_I32, t->bytes / sizeof *sizes * sizeof *sizes,
                                sizes));
    const int n = (int)(t->bytes / sizeof *sizes);
    for (int i = 0; i < n; i++)
        if (sizes[i] > r->labeller->d)
            return qn_label_refuse(r, "its columns contradict its counts");
    qn_label_columns_init(columns, n);
    QN_TRY(qn_label_columns_make(columns, r->allocator, sizes));
    if (columns->n_features != r->labeller->d)
        return qn_label_refuse(r, "its columns contradict its counts");
    QN_TRY(read_numbers(r));
    return keep_texts(columns);
}

static const char *column_pair(const qn_safetensors *file, int i) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "column.%05d", i);
    return pair_of(file, key);
}

/* Names of columns, where the labelled samples had a header. */
static qn_status read_column_names(qn_label_reading *r) {
    qn_label_columns *columns = &r->labeller->columns;
    bool has_names = false;
    for (int i = 0; i < columns->n; i++)
        has_names |= *column_pair(&r->file, i) != '\0';
    if (!has_names)
        return QN_OK;
    QN_TRY(qn_label_columns_make_names(columns, r->allocator));
    for (int i = 0; i < columns->n; i++) {
        columns->names[i] = qn_arena_text(&columns->arena, column_pair(&r->file, i));
        if (!columns->names[i])
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

/* Medians of columns, which older files do not keep. */
static qn_status read_medians(qn_label_reading *r) {
    qn_label_columns *columns = &r->labeller->columns;
    const size_t n = (size_t)columns->n;
    if (!qn_safetensors_find(&r->file, "medians"))
        return QN_OK;
    QN_TRY(qn_label_columns_make_medians(columns, r->allocator));
    QN_TRY(qn_label_read_tensor(r, "medians", QN_F32, n * sizeof(float), columns->medians));
    return qn_label_are_moderate(columns->medians, n)
               ? QN_OK
               : qn_label_refuse(r, "its numbers are invalid");
}

/* A map that can be undone. */
static bool is_sound_turn(const float *turn, int d) {
    for (int i = 0; i < d; i++)
        for (int j = 0; j < d; j++) {
            const float v = turn[i * d + j];
            if (!(v <= 1e4f && v >= -1e4f) || (i == j && !(v > 1e-6f)) || (j > i && v != 0))
                return false;
        }
    return true;
}

static qn_status read_turn(qn_label_reading *r) {
    qn_labeller *l = r->labeller;
    if (!qn_safetensors_find(&r->file, "turn"))
        return QN_OK;
    QN_TRY(qn_labeller_make_turn(l));
    QN_TRY(qn_label_read_tensor(r, "turn", QN_F32, (size_t)l->d * (size_t)l->d * sizeof *l->turn,
                                l->turn));
    return is_sound_turn(l->turn, l->d) ? QN_OK : qn_label_refuse(r, "its numbers are invalid");
}

static qn_status read_step(qn_label_reading *r) {
    qn_labeller *l = r->labeller;
    const size_t n = 2 * (size_t)l->d;
    if (!qn_safetensors_find(&r->file, "step"))
        return QN_OK;
    QN_TRY(qn_blur_make(l));
    QN_TRY(qn_label_read_tensor(r, "step", QN_F32, n * sizeof *l->step, l->step));
    bool is_sound = qn_label_are_moderate(l->step, n);
    for (int j = 0; j < l->d; j++)
        is_sound &= l->step[j] >= 0;
    return is_sound ? QN_OK : qn_label_refuse(r, "its numbers are invalid");
}

static qn_status read_all(qn_label_reading *r) {
    QN_TRY(qn_safetensors_read(&r->file, r->from));
    if (qn_safetensors_find(&r->file, QN_NET_FILE_MARK))
        return qn_net_read(r);
    QN_TRY(read_counts(r));
    QN_TRY(qn_labeller_make(r->allocator, (int)r->counts[AT_FEATURES], (int)r->counts[AT_KNOWN],
                            (int)r->counts[AT_CAPACITY], &r->labeller));
    qn_labeller *l = r->labeller;
    if (r->n_counts != n_counts(l) || !take_counts(l, r->counts))
        return qn_label_refuse(r, "its counts contradict each other");
    QN_TRY(qn_label_read_tensor(r, "state", QN_F32, n_state(l) * sizeof(float), l->block));
    if (!is_sound_state(l))
        return qn_label_refuse(r, "its numbers are invalid");
    QN_TRY(read_examples(r));
    QN_TRY(read_columns(r));
    QN_TRY(read_column_names(r));
    QN_TRY(read_medians(r));
    QN_TRY(read_turn(r));
    QN_TRY(read_step(r));
    return qn_labeller_take_texts(l, &r->file) ? QN_OK : qn_label_refuse(r, "a name is too long");
}

qn_status qn_labeller_load(const qn_allocator *allocator, const char *path,
                           qn_labeller **labeller) {
    QN_NEED(path, "path");
    QN_NEED(labeller, "labeller");
    qn_label_reading r = {.allocator = qn_allocator_or_default(allocator), .path = path};
    QN_TRY(qn_file_open(r.allocator, path, &r.from));
    qn_safetensors_init(&r.file, r.allocator);
    const qn_status status = read_all(&r);
    qn_release(r.allocator, r.counts, r.n_counts, sizeof(double));
    qn_safetensors_deinit(&r.file);
    qn_file_close(r.from);
    if (status != QN_OK) {
        qn_labeller_destroy(r.labeller);
        return status;
    }
    *labeller = r.labeller;
    return QN_OK;
}
