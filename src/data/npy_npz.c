/* Arrays of one file, npy:FILE.npz: x, y, and by their names those of groups and times. Each is
 * copied to a file of this run, of numbers or of texts, as if it had been saved by itself. */
#include "base/status.h"
#include "base/text.h"
#include "data/npy.h"
#include "data/npz.h"

#include <stdio.h>
#include <string.h>

bool qn_npy_is_packed(const char *path) {
    const size_t length = strlen(path);
    return length > 4 && qn_text_is_same(path + length - 4, ".npz");
}

static qn_status write_array(void *context, qn_writer *writer) {
    const qn_npz_array *array = context;
    return qn_writer_put(writer, array->data, (size_t)array->header.data_bytes);
}

static const qn_npz_array *find_any(const qn_npz *npz, const char *const *names) {
    const qn_npz_array *found = NULL;
    for (; *names && !found; names++)
        found = qn_npz_find(npz, *names);
    return found;
}

/* Takes an array that the file has; its file is left alone where it has none. */
static qn_status take(qn_npy_source *npy, const char *path, const qn_npz *npz,
                      const qn_npz_array *found, qn_npy_array *array) {
    qn_source_base *base = &npy->base;
    if (!found)
        return QN_OK;
    array->path = qn_arena_format(&base->arena, "%s: %s", path, found->name);
    if (!array->path)
        return QN_ERROR_MEMORY;
    array->header = found->header;
    array->header.header_bytes = 0;
    array->is_input = true; /* what is made of it is of this run, too */
    QN_TRY(qn_file_make(base->options.allocator, path, write_array, (void *)found, &array->file));
    qn_npy_describe(array);
    return qn_npz_check(npz);
}

static qn_status refuse(const char *path, const qn_npz *npz) {
    qn_text_names names = {.n = 0};
    for (int i = 0; i < npz->n; i++)
        qn_text_names_add(&names, npz->arrays[i].name);
    return qn_fail(QN_ERROR_FORMAT,
                   "%s holds %s; samples are x, and labels y (numpy.savez(\"FILE.npz\", x=..., "
                   "y=...))",
                   path, qn_text_names_finish(&names));
}

static qn_status take_all(qn_npy_source *npy, const char *path, const qn_npz *npz) {
    static const char *const samples[] = {"x", "X", NULL}, *const labels[] = {"y", "Y", NULL};
    const qn_data_options *o = &npy->base.options;
    const char *const group[] = {o->group, NULL}, *const time[] = {o->time, NULL};
    const qn_npz_array *x = find_any(npz, samples), *y = find_any(npz, labels);
    if (!x || (!y && !o->is_unlabelled))
        return refuse(path, npz);
    QN_TRY(take(npy, path, npz, x, &npy->x));
    QN_TRY(take(npy, path, npz, y, &npy->y));
    QN_TRY(take(npy, path, npz, find_any(npz, group), &npy->group));
    return take(npy, path, npz, find_any(npz, time), &npy->time);
}

qn_status qn_npy_open_npz(qn_npy_source *npy, const char *path) {
    qn_npz npz;
    QN_TRY(qn_npz_open(npy->base.options.allocator, path, &npz));
    const qn_status status = take_all(npy, path, &npz);
    qn_npz_close(&npz);
    return status;
}
