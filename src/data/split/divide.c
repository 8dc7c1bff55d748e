/* See divide.h. */
#include "data/split/divide.h"

#include "base/print.h"
#include "base/status.h"
#include "data/split/held_out.h"

#include <inttypes.h>
#include <string.h>

/* ---- reading ---- */

/* The format's sample that one of a split is. */
static void find_sample(const qn_division *d, qn_split *split, int64_t *index) {
    if (d->validation.n_test > 0 && *split != QN_TEST) {
        *index = qn_holdout_index(&d->validation, *split == QN_TRAIN ? QN_TRAIN : QN_TEST, *index);
        *split = QN_TRAIN;
    }
    if (d->test.n_test > 0 && *split != QN_VALIDATION) {
        *index = qn_holdout_index(&d->test, *split, *index);
        *split = QN_TRAIN;
    }
}

int64_t qn_source_training_sample(const qn_source_base *base, int64_t index) {
    qn_split split = QN_TRAIN;
    if (base->division)
        find_sample(base->division, &split, &index);
    return index;
}

qn_status qn_source_rows_of(const qn_data_source *source, qn_split split, int64_t index,
                            int64_t *first, int64_t *n) {
    qn_source_base *base = source->self;
    *first = index;
    *n = 1;
    if (!source->facts || !base->rows_of)
        return QN_OK;
    if (base->division)
        find_sample(base->division, &split, &index);
    return base->rows_of(base, index, first, n);
}

void qn_source_find_sample(const qn_data_source *source, qn_split *split, int64_t *index) {
    const qn_source_base *base = source->self;
    if (source->facts && base->division)
        find_sample(base->division, split, index);
}

bool qn_source_file_of(const qn_data_source *source, qn_split split, int64_t index,
                       qn_sample_file *file) {
    const qn_source_base *base = source->self;
    if (!source->facts || !base->file_of)
        return false;
    qn_source_find_sample(source, &split, &index);
    return base->file_of(base, split, index, file);
}

static qn_status read_divided(void *self, qn_split split, int64_t index, void *x, void *y) {
    const qn_division *d = ((const qn_source_base *)self)->division;
    find_sample(d, &split, &index);
    return d->read(self, split, index, x, y);
}

static qn_status read_class_divided(void *self, qn_split split, int64_t index, int32_t *class) {
    const qn_division *d = ((const qn_source_base *)self)->division;
    find_sample(d, &split, &index);
    return d->read_class(self, split, index, class);
}

static qn_status read_weight_divided(void *self, qn_split split, int64_t index, float *weight) {
    const qn_division *d = ((const qn_source_base *)self)->division;
    find_sample(d, &split, &index);
    return d->read_weight(self, split, index, weight);
}

static void divide_reading(qn_source_base *base, qn_data_source *source) {
    qn_division *d = base->division;
    d->read = source->read;
    d->read_class = source->read_class;
    d->read_weight = source->read_weight;
    source->read = read_divided;
    source->read_class = source->read_class ? read_class_divided : NULL;
    source->read_weight = source->read_weight ? read_weight_divided : NULL;
}

/* ---- looking ---- */

typedef struct looking {
    qn_source_base *base;
    const qn_data_source *source; /* not divided yet */
    qn_division *division;
    qn_held_out *held; /* meanwhile: in memory that is not kept */
    bool is_second;    /* at what is left behind the test samples */
    size_t x_bytes, y_bytes;
    char *x, *y; /* a sample; null where the format looks itself */
} looking;

static qn_status look(void *context, int64_t index, uint64_t *content, int32_t *class) {
    looking *l = context;
    const qn_data_source *source = l->source;
    if (l->is_second)
        index = qn_holdout_index(&l->division->test, QN_TRAIN, index);
    if (l->base->look) {
        QN_TRY(l->base->look(l->base, index, content, class));
    } else {
        QN_TRY(source->read(source->self, QN_TRAIN, index, l->x, l->y));
        *content = qn_hash_bytes(l->x, l->x_bytes);
        memcpy(class, l->y, sizeof *class);
    }
    if (!l->is_second)
        qn_held_out_look(l->held, index, *content);
    return QN_OK;
}

static qn_status looking_init(looking *l) {
    const qn_allocator *allocator = l->base->options.allocator;
    const qn_data_source *s = l->source;
    QN_TRY(qn_allocate(allocator, 1, sizeof *l->held, &l->held));
    QN_TRY(qn_held_out_parse(l->base->options.held_out, l->held));
    if (l->base->look)
        return QN_OK;
    l->x_bytes = (size_t)qn_shape_count(s->sample) * qn_dtype_bytes(s->dtype);
    l->y_bytes = sizeof(float) * (size_t)(s->n_targets > 0 ? s->n_targets : 1);
    QN_TRY(qn_allocate(allocator, l->x_bytes, 1, &l->x));
    return qn_allocate(allocator, l->y_bytes, 1, &l->y);
}

static void looking_deinit(looking *l) {
    const qn_allocator *allocator = l->base->options.allocator;
    qn_release(allocator, l->x, l->x_bytes, 1);
    qn_release(allocator, l->y, l->y_bytes, 1);
    qn_release(allocator, l->held, 1, sizeof *l->held);
}

/* ---- dividing ---- */

static qn_status hold_out(looking *l, double part, qn_holdout *holdout) {
    const uint64_t seed = l->base->options.seed;
    const int64_t n = l->source->n_samples[QN_TRAIN] - l->division->test.n_test;
    const char *purpose = l->is_second ? "validation" : "test";
    const qn_holdout_samples samples = {n, l->source->preparation.n_classes, l, look};
    const qn_holdout_options options = {l->base->options.allocator, part, seed, purpose,
                                        l->base->units};
    if (part == 0)
        return QN_OK;
    if (l->held->is_by_place)
        return qn_holdout_by_place(n, part, l->is_second ? seed ^ qn_hash_text(purpose) : seed,
                                   holdout);
    return qn_holdout_by_content(&l->base->arena, &samples, &options, holdout);
}

static void tell_copies(const qn_source_base *base, const char *name, const qn_holdout *holdout) {
    if (holdout->n_copies > 0 && !base->units)
        qn_data_tell(base, 0,
                     "%s: %s%" PRId64 " of %" PRId64 " samples are copies of others; copies are "
                     "held out together, or not at all",
                     name, holdout->is_estimate ? "about " : "", holdout->n_copies, holdout->n);
}

/* ---- samples that belong together ---- */

enum { UNITS_COUNTED = 64, UNITS_NAMED = 8 };

/* Which units the test samples are of: as many as fit, and whether there are more. */
static qn_status find_units(const looking *l, uint64_t *units, int *n, bool *are_more) {
    const qn_holdout *test = &l->division->test;
    *n = 0;
    *are_more = false;
    for (int64_t i = 0; i < test->n_test && !*are_more; i++) {
        uint64_t unit = 0;
        int32_t class;
        QN_TRY(l->base->look(l->base, qn_holdout_index(test, QN_TEST, i), &unit, &class));
        int k = *n;
        while (k > 0 && units[k - 1] != unit)
            k--;
        *are_more = k == 0 && *n == UNITS_COUNTED;
        if (k == 0 && !*are_more)
            units[(*n)++] = unit;
    }
    return QN_OK;
}

static void name_units(const qn_source_base *base, const uint64_t *units, int n, char *text,
                       size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < n && i <= UNITS_NAMED && base->name_unit; i++) {
        const char *name = base->name_unit(base, units[i]);
        if (name && used < bytes)
            used += (size_t)qn_print(text + used, bytes - used, "%s%.40s", i > 0 ? ", " : " (",
                                     i < UNITS_NAMED ? name : "...");
    }
    if (used > 0 && used < bytes)
        qn_print(text + used, bytes - used, ")");
}

/* Of few units the part that is held out is what it happens to be. */
static void tell_part(const looking *l, double asked, int64_t n_all) {
    const qn_holdout *test = &l->division->test;
    const double part = (double)test->n_test / (double)test->n;
    if (part <= 2 * asked && part >= asked / 2)
        return;
    qn_data_tell(l->base, 1,
                 "%.0f %% of the samples are held out instead of %.0f %%, as there are only "
                 "%" PRId64 " %s: another --seed draws others",
                 100 * part, 100 * asked, n_all, l->base->units);
}

static qn_status tell_units(const looking *l, const char *name, double asked) {
    const qn_holdout *test = &l->division->test;
    uint64_t units[UNITS_COUNTED];
    char names[480];
    int n;
    bool are_more;
    if (!l->base->units || test->n_test == 0)
        return QN_OK;
    QN_TRY(find_units(l, units, &n, &are_more));
    name_units(l->base, units, n, names, sizeof names);
    const int64_t n_all = test->n - test->n_copies;
    qn_data_tell(l->base, 0,
                 "%s: %s%d of %s%" PRId64 " %s%s are held out, %" PRId64 " of %" PRId64 " samples",
                 name, are_more ? "more than " : "", n, test->is_estimate ? "about " : "", n_all,
                 l->base->units, names, test->n_test, test->n);
    tell_part(l, asked, n_all);
    return QN_OK;
}

static void tell_crossed(const qn_source_base *base, const char *name, const looking *l) {
    const int n = qn_held_out_count_crossed(l->held, &l->division->test);
    if (n > 0)
        qn_data_tell(base, 1,
                     "%s: %d of %d samples that the checkpoint names of those it was trained on "
                     "are test samples now, so that the test says too much good; train anew, or "
                     "divide the data as it was (--holdout, --seed)",
                     name, n, l->held->n_known);
}

static void tell_place(const qn_source_base *base, const char *name, const looking *l) {
    if (l->held->is_by_place)
        qn_data_tell(base, 0,
                     "%s: the checkpoint's samples were held out by their place in the data, as "
                     "older versions did, and so they are here; if samples were added or removed "
                     "since, training samples are among the test samples: train anew",
                     name);
}

static qn_status divide(looking *l, double test, double validation) {
    qn_division *d = l->division;
    QN_TRY(hold_out(l, test, &d->test));
    l->is_second = true;
    return hold_out(l, validation, &d->validation);
}

/* What is held out of such would leave classes without a sample to learn from. */
static bool is_one_of_each(const qn_data_source *source) {
    const int64_t n_classes = source->preparation.n_classes;
    return n_classes > 0 && source->n_samples[QN_TRAIN] <= n_classes;
}

/* Test samples are held out where the set has none, and there is something to hold out from. */
static double find_part(const qn_source_base *base, const qn_data_source *source) {
    const double asked = base->options.holdout;
    if (source->n_samples[QN_TEST] > 0 || source->n_samples[QN_TRAIN] == 0)
        return 0;
    if (asked == 0 && base->holdout_part > 0 && is_one_of_each(source)) {
        qn_data_tell(base, 0,
                     "%s: one sample of each class: none is held out for a test (--holdout PART "
                     "does)",
                     source->name);
        return 0;
    }
    return asked != 0 ? asked : base->holdout_part;
}

static qn_status finish(const looking *l, qn_source_base *base, qn_data_source *source) {
    const qn_division *d = base->division;
    const int64_t n_test = d->test.n_test, n_validation = d->validation.n_test;
    tell_copies(base, source->name, n_test > 0 ? &d->test : &d->validation);
    tell_crossed(base, source->name, l);
    tell_place(base, source->name, l);
    if (n_test > 0)
        base->facts.split_by = l->held->is_by_place ? "the place of each sample"
                               : base->units        ? base->units
                                                    : "a hash of each sample";
    source->n_samples[QN_TRAIN] -= n_test + n_validation;
    source->n_samples[QN_TEST] += n_test;
    source->n_samples[QN_VALIDATION] += n_validation;
    divide_reading(base, source);
    return qn_held_out_print(&base->arena, l->held, &d->test, &source->held_out);
}

qn_status qn_source_divide(qn_source_base *base, qn_data_source *source) {
    const double test = find_part(base, source), validation = base->options.validation;
    if (test == 0 && validation == 0)
        return QN_OK;
    base->division = qn_arena_allocate(&base->arena, 1, sizeof *base->division);
    if (!base->division)
        return QN_ERROR_MEMORY;
    looking l = {.base = base, .source = source, .division = base->division};
    qn_status status = looking_init(&l);
    if (status == QN_OK)
        status = divide(&l, test, validation);
    if (status == QN_OK)
        status = tell_units(&l, source->name, test);
    if (status == QN_OK)
        status = finish(&l, base, source);
    looking_deinit(&l);
    return status;
}
