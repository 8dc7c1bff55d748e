/* See samples.h. */
#include "learn/samples.h"

#include "base/memory.h"
#include "base/rng.h"

#include <string.h>

qn_status qn_sample_memory_init(const qn_allocator *allocator, int64_t capacity, int64_t n_values,
                                int n_classes, uint64_t seed, qn_sample_memory *m) {
    const size_t n = (size_t)capacity, classes = (size_t)n_classes;
    *m = (qn_sample_memory){.allocator = allocator,
                            .capacity = capacity,
                            .n_values = n_values,
                            .n_classes = n_classes,
                            .seed = seed};
    qn_status status = qn_allocate(allocator, n * (size_t)n_values, sizeof *m->x, &m->x);
    if (status == QN_OK)
        status = qn_allocate(allocator, n, sizeof *m->labels, &m->labels);
    if (status == QN_OK)
        status = qn_allocate(allocator, classes, sizeof *m->counts, &m->counts);
    if (status == QN_OK)
        status = qn_allocate(allocator, classes, sizeof *m->seen, &m->seen);
    if (status == QN_OK)
        status = qn_allocate(allocator, classes, sizeof *m->full, &m->full);
    if (status != QN_OK)
        qn_sample_memory_deinit(m);
    return status;
}

void qn_sample_memory_deinit(qn_sample_memory *m) {
    const size_t n = (size_t)m->capacity, classes = (size_t)m->n_classes;
    if (!m->allocator)
        return;
    qn_release(m->allocator, m->x, n * (size_t)m->n_values, sizeof *m->x);
    qn_release(m->allocator, m->labels, n, sizeof *m->labels);
    qn_release(m->allocator, m->counts, classes, sizeof *m->counts);
    qn_release(m->allocator, m->seen, classes, sizeof *m->seen);
    qn_release(m->allocator, m->full, classes, sizeof *m->full);
    *m = (qn_sample_memory){0};
}

static int largest_class(const qn_sample_memory *m) {
    int largest = 0;
    for (int c = 1; c < m->n_classes; c++)
        largest = m->counts[c] > m->counts[largest] ? c : largest;
    return largest;
}

/* The k-th kept sample of a class. */
static int64_t find_place(const qn_sample_memory *m, int32_t label, uint64_t k) {
    for (int64_t i = 0; i < m->n; i++) {
        if (m->labels[i] == label && k-- == 0)
            return i;
    }
    return -1;
}

/* The place that a sample takes when all are taken; -1: it is not kept. */
static int64_t choose_place(qn_sample_memory *m, int32_t label, qn_rng rng) {
    const int largest = largest_class(m);
    for (int c = 0; c < m->n_classes; c++)
        m->full[c] = m->full[c] || m->counts[c] == m->counts[largest];
    if (!m->full[label])
        return find_place(m, largest, qn_rng_below(rng, 0, (uint64_t)m->counts[largest]));
    const uint64_t k = qn_rng_below(rng, 0, (uint64_t)m->seen[label]);
    return k < (uint64_t)m->counts[label] ? find_place(m, label, k) : -1;
}

int64_t qn_sample_memory_offer(qn_sample_memory *m, const float *x, int32_t label) {
    const qn_rng rng = qn_rng_make(m->seed, (uint64_t)label, (uint64_t)m->seen[label]);
    m->seen[label]++;
    const int64_t place = m->n < m->capacity ? m->n : choose_place(m, label, rng);
    if (place < 0)
        return -1;
    if (m->n < m->capacity)
        m->n++;
    else
        m->counts[m->labels[place]]--;
    m->counts[label]++;
    m->labels[place] = label;
    memcpy(m->x + place * m->n_values, x, (size_t)m->n_values * sizeof *x);
    return place;
}

void qn_sample_memory_remove(qn_sample_memory *m, int64_t place) {
    const int64_t last = --m->n;
    m->counts[m->labels[place]]--;
    m->labels[place] = m->labels[last];
    memmove(m->x + place * m->n_values, m->x + last * m->n_values,
            (size_t)m->n_values * sizeof *m->x);
}
