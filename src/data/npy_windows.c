/* Rows of an array that belong together: an array of groups, one for each row, keeps them on one
 * side of the split; windows make several rows one sample, in recordings that end where the group
 * changes or an array of times does not go on. */
#include "base/rng.h"
#include "base/status.h"
#include "data/npy.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- arrays beside the rows ---- */

static bool is_told(const char *name) {
    return name && *name && strcmp(name, "none") != 0;
}

static int64_t count_rows(const qn_npy_source *npy) {
    return npy->x.header.shape.dims[0];
}

static qn_status open_beside(qn_npy_source *npy, const char *name, const char *option,
                             qn_npy_array *array) {
    const int64_t n = count_rows(npy);
    if (!is_told(name))
        return QN_OK;
    if (!array->file)
        QN_TRY(qn_npy_open(&npy->base, name, array));
    if (qn_npy_is_text(&array->header) && array == &npy->time)
        return qn_fail(QN_ERROR_FORMAT, "%s %s: %s; times are numbers", option, name,
                       array->element);
    const qn_shape *shape = &array->header.shape;
    return shape->rank == 1 && shape->dims[0] == n
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT,
                         "%s %s: it has one number, or text, for each of the %" PRId64
                         " rows of %s, or is left out (%s none)",
                         option, name, n, npy->x.path, option);
}

static qn_status read_element(const qn_npy_array *array, int64_t row, unsigned char element[8]) {
    const int bytes = array->header.element_bytes;
    return qn_file_read(array->file, array->header.header_bytes + row * bytes, element,
                        (size_t)bytes);
}

/* The hash of an element, a number or a text of any length. */
static qn_status find_group(const qn_npy_source *npy, int64_t row, uint64_t *group) {
    unsigned char element[8];
    char text[QN_NPY_NAME];
    if (qn_npy_is_text(&npy->group.header)) {
        QN_TRY(qn_npy_read_text(&npy->group, row, text));
        *group = qn_hash_text(text);
        return QN_OK;
    }
    QN_TRY(read_element(&npy->group, row, element));
    *group = qn_hash_bytes(element, (size_t)npy->group.header.element_bytes);
    return QN_OK;
}

static qn_status look_at_group(qn_source_base *base, int64_t index, uint64_t *content,
                               int32_t *class) {
    const qn_npy_source *npy = (const qn_npy_source *)base;
    QN_TRY(find_group(npy, index, content));
    return npy->n_targets > 0 ? QN_OK : qn_npy_read_targets(npy, index, class);
}

/* ---- rows ---- */

static qn_status find_step(const qn_npy_source *npy, int64_t row, float *step) {
    unsigned char now[8], before[8];
    *step = NAN;
    if (!npy->time.file || row == 0)
        return QN_OK;
    QN_TRY(read_element(&npy->time, row, now));
    QN_TRY(read_element(&npy->time, row - 1, before));
    *step =
        (float)(qn_npy_number(&npy->time.header, now) - qn_npy_number(&npy->time.header, before));
    return QN_OK;
}

static qn_status read_row(void *context, int64_t index, qn_window_row *to, float *targets) {
    const qn_npy_source *npy = context;
    int32_t class = 0;
    to->group = 0;
    if (npy->group.file)
        QN_TRY(find_group(npy, index, &to->group));
    QN_TRY(find_step(npy, index, &to->step));
    if (!npy->y.file)
        return QN_OK;
    QN_TRY(qn_npy_read_targets(npy, index, npy->n_targets > 0 ? (void *)targets : &class));
    if (npy->n_targets == 0)
        targets[0] = (float)class;
    return QN_OK;
}

static qn_status look_at_row(void *context, int64_t index, uint64_t *content) {
    const qn_npy_source *npy = context;
    const int64_t at = npy->x.header.header_bytes + index * npy->x_bytes;
    char piece[1024];
    *content = 0;
    for (int64_t done = 0; done < npy->x_bytes; done += (int64_t)sizeof piece) {
        const int64_t left = npy->x_bytes - done;
        const size_t n = left < (int64_t)sizeof piece ? (size_t)left : sizeof piece;
        QN_TRY(qn_file_read(npy->x.file, at + done, piece, n));
        const uint64_t pair[2] = {*content, qn_hash_bytes(piece, n)};
        *content = qn_hash_bytes(pair, sizeof pair);
    }
    return QN_OK;
}

/* ---- windows ---- */

static qn_status read_window(void *self, qn_split split, int64_t index, void *x, void *y) {
    const qn_npy_source *npy = self;
    int64_t first;
    (void)split;
    QN_TRY(qn_windows_read(&npy->windows, index, &first, y, NULL));
    return qn_file_read(npy->x.file, npy->x.header.header_bytes + first * npy->x_bytes, x,
                        (size_t)(npy->windows.length * npy->x_bytes));
}

static qn_status look_at_window(qn_source_base *base, int64_t index, uint64_t *content,
                                int32_t *class) {
    const qn_npy_source *npy = (const qn_npy_source *)base;
    int64_t first;
    return qn_windows_read(&npy->windows, index, &first, npy->n_targets > 0 ? NULL : class,
                           content);
}

static qn_status rows_of(qn_source_base *base, int64_t index, int64_t *first, int64_t *n) {
    const qn_npy_source *npy = (const qn_npy_source *)base;
    *n = npy->windows.length;
    return qn_windows_read(&npy->windows, index, first, NULL, NULL);
}

static qn_status open_windows(qn_npy_source *npy, qn_data_source *source) {
    const qn_window_rows rows = {
        .n = count_rows(npy),
        .n_values = !npy->y.file         ? 0
                    : npy->n_targets > 0 ? npy->n_targets
                                         : 1,
        .are_classes = npy->y.file && npy->n_targets == 0,
        .may_lack = npy->base.options.is_unlabelled,
        .group = npy->group.file ? npy->base.options.group : NULL,
        .time = npy->time.file ? npy->base.options.time : NULL,
        .starts = npy->starts,
        .n_starts = npy->n_starts,
        .context = npy,
        .read = read_row,
        .look = look_at_row,
    };
    if (source->sample.rank != 1)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s: --window cuts arrays of (N, C), N steps of time; this one has %d axes",
                       npy->x.path, npy->x.header.shape.rank);
    QN_TRY(qn_windows_open(&npy->base, npy->x.file, npy->x.path, &rows, &npy->windows));
    source->n_samples[QN_TRAIN] = npy->windows.n;
    source->sample = source->preparation.sample =
        QN_SHAPE(npy->windows.length, 1, source->sample.dims[0]);
    source->read = read_window;
    npy->base.look = look_at_window;
    npy->base.rows_of = rows_of;
    npy->base.facts.axes = "ntc";
    npy->base.facts.are_windows = true;
    return QN_OK;
}

qn_status qn_npy_find_recordings(qn_npy_source *npy, qn_data_source *source) {
    qn_source_base *base = &npy->base;
    QN_TRY(open_beside(npy, base->options.group, "--group", &npy->group));
    QN_TRY(open_beside(npy, base->options.time, "--time", &npy->time));
    if (npy->group.file) {
        base->units = qn_arena_format(&base->arena, "values of '%s'", base->options.group);
        base->look = look_at_group;
        if (!base->units)
            return QN_ERROR_MEMORY;
    }
    return base->options.window > 0 ? open_windows(npy, source) : QN_OK;
}

void qn_npy_close_recordings(qn_npy_source *npy) {
    qn_windows_close(&npy->windows);
    qn_file_close(npy->group.file);
    qn_file_close(npy->time.file);
}
