/* One checkpoint of two halves'; see halves.h. */
#include "federate/halves.h"

#include "base/memory.h"
#include "base/status.h"
#include "format/safetensors.h"
#include "os/heap.h"

#include <stdlib.h>
#include <string.h>

/* A half's file, its tensors read. */
typedef struct half {
    const char *path;
    qn_file *file;
    qn_safetensors content;
    const void *memory; /* of the whole file */
} half;

static qn_status open_half(const char *path, half *h) {
    h->path = path;
    qn_safetensors_init(&h->content, qn_allocator_default());
    QN_TRY(qn_file_open(NULL, path, &h->file));
    QN_TRY(qn_safetensors_read(&h->content, h->file));
    return qn_file_map(h->file, &h->memory);
}

static void close_half(half *h) {
    if (h->file && h->memory)
        qn_file_unmap(h->memory, (size_t)qn_file_bytes(h->file));
    if (h->path)
        qn_safetensors_deinit(&h->content);
    qn_file_close(h->file);
}

static const char *pair_of(const half *h, const char *key) {
    for (size_t i = 0; i < h->content.n_pairs; i++) {
        if (strcmp(h->content.pairs[i].key, key) == 0)
            return h->content.pairs[i].value;
    }
    return "";
}

static bool is_state(const char *name) {
    return strncmp(name, "optimizer.", 10) == 0;
}

static int compare(const void *left, const void *right) {
    return strcmp(((const qn_safetensor *)left)->name, ((const qn_safetensor *)right)->name);
}

/* Weights of both, sorted; (n) of room for all. */
static qn_status collect(const half *halves, qn_safetensor *tensors, size_t *n) {
    *n = 0;
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < halves[i].content.n_tensors; j++) {
            qn_safetensor t = halves[i].content.tensors[j];
            if (is_state(t.name))
                continue;
            t.data = (const char *)halves[i].memory + halves[i].content.data_offset + t.begin;
            tensors[(*n)++] = t;
        }
    }
    qsort(tensors, *n, sizeof *tensors, compare);
    for (size_t i = 1; i < *n; i++) {
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "both %s and %s have %s; a front and a back have "
                           "nothing in common",
                           halves[0].path, halves[1].path, tensors[i].name);
    }
    return QN_OK;
}

/* The pairs of the whole network: the front's, without those of a half. */
static size_t take_pairs(const half *front, qn_safetensors_pair *pairs) {
    size_t n = 0;
    for (size_t i = 0; i < front->content.n_pairs; i++) {
        if (strncmp(front->content.pairs[i].key, "split.", 6) != 0)
            pairs[n++] = front->content.pairs[i];
    }
    return n;
}

static qn_status check_pair(const half *halves) {
    if (strcmp(pair_of(&halves[0], "split.run"), pair_of(&halves[1], "split.run")) != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%s and %s are halves of different runs", halves[0].path,
                       halves[1].path);
    if (strcmp(pair_of(&halves[0], "step"), pair_of(&halves[1], "step")) == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s is of step %s, and %s of step %s; the peer keeps the one before as "
                   "%s.before",
                   halves[0].path, pair_of(&halves[0], "step"), halves[1].path,
                   pair_of(&halves[1], "step"), halves[1].path);
}

static qn_status write_both(const half *halves, const char *path) {
    const qn_allocator *heap = qn_allocator_default();
    const size_t n_pairs = halves[0].content.n_pairs;
    const size_t room = halves[0].content.n_tensors + halves[1].content.n_tensors;
    qn_safetensor *tensors;
    size_t n;
    qn_safetensors_pair *pairs;
    QN_TRY(check_pair(halves));
    QN_TRY(qn_allocate(heap, room, sizeof *tensors, &tensors));
    qn_status status = qn_allocate(heap, n_pairs, sizeof *pairs, &pairs);
    if (status == QN_OK) {
        status = collect(halves, tensors, &n);
        if (status == QN_OK)
            status =
                qn_safetensors_write(NULL, path, tensors, n, pairs, take_pairs(&halves[0], pairs));
        qn_release(heap, pairs, n_pairs, sizeof *pairs);
    }
    qn_release(heap, tensors, room, sizeof *tensors);
    return status;
}

qn_status qn_halves_join(const char *front, const char *back, const char *path) {
    half halves[2] = {{0}};
    qn_status status = open_half(front, &halves[0]);
    if (status == QN_OK)
        status = open_half(back, &halves[1]);
    if (status == QN_OK)
        status = write_both(halves, path);
    close_half(&halves[0]);
    close_half(&halves[1]);
    return status;
}
