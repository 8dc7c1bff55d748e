/* See tensors.h. */
#include "format/pretrained/tensors.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

void qn_tensors_deinit(qn_pretrained_tensors *tensors) {
    qn_release(tensors->allocator, tensors->list, tensors->capacity, sizeof *tensors->list);
}

qn_status qn_tensors_add(qn_pretrained_tensors *tensors, const qn_pretrained_tensor *tensor) {
    QN_TRY(qn_grow(tensors->allocator, &tensors->list, &tensors->capacity, tensors->n + 1,
                   sizeof *tensors->list));
    tensors->list[tensors->n++] = *tensor;
    return QN_OK;
}

static int compare_names(const void *left, const void *right) {
    return strcmp(((const qn_pretrained_tensor *)left)->name,
                  ((const qn_pretrained_tensor *)right)->name);
}

qn_status qn_tensors_finish(qn_pretrained_tensors *tensors, const char *place) {
    if (tensors->n > 0)
        qsort(tensors->list, tensors->n, sizeof *tensors->list, compare_names);
    for (size_t i = 1; i < tensors->n; i++) {
        if (compare_names(&tensors->list[i - 1], &tensors->list[i]) == 0)
            return qn_fail(QN_ERROR_FORMAT, "%s: the tensor %.80s is there twice", place,
                           tensors->list[i].name);
    }
    return QN_OK;
}

const qn_pretrained_tensor *qn_tensors_find(const qn_pretrained_tensors *tensors,
                                            const char *name) {
    const qn_pretrained_tensor wanted = {.name = name};
    if (tensors->n == 0)
        return NULL;
    return bsearch(&wanted, tensors->list, tensors->n, sizeof wanted, compare_names);
}
