/* What `quern label` labelled, as a data set: the samples that a labeller keeps in its file, those
 * that were given labelled and those of the stream (of a network label/network/net_file.c, of rows
 * label/kept.c), with their classes by name; classes of one name are one. Each counts in training
 * as much as its label's confidence. Only these tensors of the file are read, and everything is
 * checked. */
#include "base/status.h"
#include "data/source.h"
#include "format/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 2048, N_SCALE = 4 };

typedef struct labelled_source {
    qn_source_base base;
    int64_t n;
    size_t n_values;      /* of a sample */
    const uint8_t *bytes; /* of pictures and series */
    const float *rows;    /* (n, n_values), instead of bytes */
    const int32_t *class;
    const float *confidence;
    float scale[N_SCALE]; /* a number is scale[0] + scale[1] * byte */
    bool are_bytes;       /* they are given as they are */
} labelled_source;

/* What opening works on. */
typedef struct opening {
    labelled_source *s;
    qn_file *from;
    qn_safetensors file;
} opening;

static qn_status refuse(const opening *o, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "%s: %s", o->s->base.argument, what);
}

/* A tensor's data, in the arena. */
static qn_status take(const opening *o, const char *name, qn_dtype dtype, size_t bytes,
                      void *data) {
    const qn_safetensor *t = qn_safetensors_find(&o->file, name);
    if (!t || t->dtype != dtype || t->bytes != bytes)
        return refuse(o, "its samples are damaged");
    void *to = qn_arena_allocate(&o->s->base.arena, bytes, 1);
    if (!to)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_file_read(o->from, o->file.data_offset + t->begin, to, bytes));
    memcpy(data, &to, sizeof to);
    return QN_OK;
}

static qn_status take_labels(opening *o, const char *class, const char *confidence) {
    labelled_source *s = o->s;
    const size_t n = (size_t)s->n;
    QN_TRY(take(o, class, QN_I32, n * sizeof *s->class, &s->class));
    QN_TRY(take(o, confidence, QN_F32, n * sizeof *s->confidence, &s->confidence));
    for (size_t i = 0; i < n; i++)
        if (!(s->confidence[i] >= 0 && s->confidence[i] <= 1.001f) || s->class[i] < 0 ||
            s->class[i] >= MOST_CLASSES)
            return refuse(o, "its labels are damaged");
    return QN_OK;
}

static qn_status take_rows(opening *o, const qn_safetensor *x, qn_shape *sample) {
    labelled_source *s = o->s;
    if (x->dtype != QN_F32 || x->shape.rank != 2 || x->bytes == 0)
        return refuse(o, "its samples are damaged");
    s->n = x->shape.dims[0];
    s->n_values = (size_t)x->shape.dims[1];
    *sample = QN_SHAPE(x->shape.dims[1]);
    QN_TRY(take(o, "rows.x", QN_F32, x->bytes, &s->rows));
    for (size_t i = 0; i < x->bytes / sizeof *s->rows; i++)
        if (!__builtin_isfinite(s->rows[i]))
            return refuse(o, "its samples are damaged");
    return take_labels(o, "rows.class", "rows.confidence");
}

static qn_status take_samples(opening *o, qn_shape *sample) {
    labelled_source *s = o->s;
    const qn_safetensor *x = qn_safetensors_find(&o->file, "samples.x");
    const float *scale;
    const qn_safetensor *rows = qn_safetensors_find(&o->file, "rows.x");
    if (!x && rows)
        return take_rows(o, rows, sample);
    if (!x)
        return refuse(o, "not a labeller's file, or one without samples: a stream of rows is under "
                         "way, or nothing was labelled yet");
    if (x->dtype != QN_U8 || x->shape.rank != 4 || x->bytes == 0)
        return refuse(o, "its samples are damaged");
    s->n = x->shape.dims[0];
    s->n_values = x->bytes / (size_t)s->n;
    *sample = QN_SHAPE(x->shape.dims[1], x->shape.dims[2], x->shape.dims[3]);
    QN_TRY(take(o, "samples.x", QN_U8, x->bytes, &s->bytes));
    QN_TRY(take(o, "scale", QN_F32, sizeof s->scale, &scale));
    memcpy(s->scale, scale, sizeof s->scale);
    QN_TRY(take_labels(o, "samples.class", "samples.confidence"));
    if (!(s->scale[0] > -1e30f && s->scale[0] < 1e30f && s->scale[1] > 0 && s->scale[1] < 1e30f))
        return refuse(o, "its samples are damaged");
    s->are_bytes = s->scale[0] == 0 && (s->scale[1] == 1.0f || s->scale[1] == 1.0f / 255.0f);
    return QN_OK;
}

/* Whole numbers by value, then texts: the order that other data sets give classes. */
static int by_name(const void *left, const void *right) {
    const char *a = *(const char *const *)left, *b = *(const char *const *)right;
    char *end_a, *end_b;
    const long x = strtol(a, &end_a, 10), y = strtol(b, &end_b, 10);
    const bool is_number_a = *a && !*end_a, is_number_b = *b && !*end_b;
    if (is_number_a && is_number_b && x != y)
        return x < y ? -1 : 1;
    return is_number_a != is_number_b ? is_number_b - is_number_a : strcmp(a, b);
}

/* The name of each class that has samples; null: it has none. */
static qn_status find_names(const opening *o, const char **names) {
    bool is_used[MOST_CLASSES] = {false};
    for (int64_t i = 0; i < o->s->n; i++)
        is_used[o->s->class[i]] = true;
    for (size_t i = 0; i < o->file.n_pairs; i++) {
        const qn_safetensors_pair *p = &o->file.pairs[i];
        const size_t at =
            strncmp(p->key, "name.", 5) == 0 ? strtoul(p->key + 5, NULL, 10) : MOST_CLASSES;
        if (at < MOST_CLASSES && is_used[at])
            names[at] = p->value;
    }
    for (int c = 0; c < MOST_CLASSES; c++)
        if (is_used[c] && !names[c])
            return refuse(o, "a class has no name");
    return QN_OK;
}

/* Numbers the names in order; equal ones get one number. */
static qn_status number_classes(opening *o, qn_preparation *preparation) {
    labelled_source *s = o->s;
    const char *names[MOST_CLASSES] = {NULL}, *sorted[MOST_CLASSES];
    int n = 0, n_kept = 0;
    qn_arena *arena = &s->base.arena;
    QN_TRY(find_names(o, names));
    for (int c = 0; c < MOST_CLASSES; c++)
        if (names[c])
            sorted[n++] = names[c];
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    const char **kept = qn_arena_allocate(arena, (size_t)n, sizeof *kept);
    int32_t *class = qn_arena_allocate(arena, (size_t)s->n, sizeof *class);
    if (!kept || !class)
        return QN_ERROR_MEMORY;
    for (int k = 0; k < n; k++) {
        if (k > 0 && strcmp(sorted[k], sorted[k - 1]) == 0)
            continue;
        kept[n_kept] = qn_arena_text(arena, sorted[k]);
        if (!kept[n_kept++])
            return QN_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < s->n; i++)
        while (strcmp(kept[class[i]], names[s->class[i]]) != 0)
            class[i]++;
    s->class = class;
    preparation->n_classes = n_kept;
    preparation->class_names = kept;
    return QN_OK;
}

/* ---- reading ---- */

static qn_status labelled_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    const labelled_source *s = self;
    (void)split;
    const size_t at = (size_t)index * s->n_values;
    float *numbers = x;
    if (s->rows)
        memcpy(x, s->rows + at, s->n_values * sizeof *s->rows);
    else if (s->are_bytes)
        memcpy(x, s->bytes + at, s->n_values);
    else
        for (size_t k = 0; k < s->n_values; k++)
            numbers[k] = s->scale[0] + s->scale[1] * (float)s->bytes[at + k];
    memcpy(y, &s->class[index], sizeof s->class[index]);
    return QN_OK;
}

static qn_status labelled_read_class(void *self, qn_split split, int64_t index, int32_t *class) {
    const labelled_source *s = self;
    (void)split;
    *class = s->class[index];
    return QN_OK;
}

static qn_status labelled_read_weight(void *self, qn_split split, int64_t index, float *weight) {
    const labelled_source *s = self;
    (void)split;
    *weight = s->confidence[index];
    return QN_OK;
}

static qn_status open_file(opening *o, qn_data_source *source) {
    labelled_source *s = o->s;
    qn_source_base *base = &s->base;
    QN_TRY(qn_safetensors_read(&o->file, o->from));
    QN_TRY(take_samples(o, &source->sample));
    QN_TRY(number_classes(o, &source->preparation));
    source->n_samples[QN_TRAIN] = s->n;
    source->dtype = s->are_bytes ? QN_U8 : QN_F32;
    source->preparation.sample = source->sample;
    source->read = labelled_read;
    source->read_class = labelled_read_class;
    source->read_weight = labelled_read_weight;
    base->wants_statistics = true;
    return QN_OK;
}

static qn_status labelled_open(qn_source_base *base, qn_data_source *source) {
    opening o = {.s = (labelled_source *)base};
    QN_TRY(qn_file_open(base->options.allocator, base->argument, &o.from));
    qn_safetensors_init(&o.file, base->options.allocator);
    const qn_status status = open_file(&o, source);
    qn_safetensors_deinit(&o.file);
    qn_file_close(o.from);
    return status;
}

const qn_data_format qn_format_labelled = {
    .name = "labelled",
    .usage = "FILE",
    .self_bytes = sizeof(labelled_source),
    .open = labelled_open,
};
