/* See confusion.h. */
#include "tasks/confusion.h"

#include "base/memory.h"
#include "base/status.h"

#include <string.h>

struct qn_confusion_counts {
    const qn_allocator *allocator;
    int n_classes;
    int64_t n_cells, room;    /* n_cells <= room */
    qn_confusion_cell *cells; /* (room) */
    qn_class_count *classes;  /* (n_classes + 1) */
};

/* New cells that there is room for beside the joined ones: joining costs little for each. */
enum { LEAST_NEW = 1024, NEW_PART = 4 };

static int64_t find_room(int64_t n_classes, int64_t most_samples) {
    const int64_t square = n_classes * n_classes;
    const int64_t joined = square < most_samples ? square : most_samples;
    const int64_t more = joined / NEW_PART > LEAST_NEW ? joined / NEW_PART : LEAST_NEW;
    return joined + more < most_samples ? joined + more : most_samples;
}

qn_status qn_confusion_counts_create(const qn_allocator *allocator, int n_classes,
                                     int64_t most_samples, qn_confusion_counts **counts) {
    qn_confusion_counts *c;
    QN_TRY(qn_allocate(allocator, 1, sizeof *c, &c));
    c->allocator = allocator;
    c->n_classes = n_classes;
    const int64_t room = find_room(n_classes, most_samples);
    qn_status status =
        qn_allocate(allocator, (size_t)n_classes + 1, sizeof *c->classes, &c->classes);
    if (status == QN_OK)
        status = qn_allocate(allocator, (size_t)room, sizeof *c->cells, &c->cells);
    if (status != QN_OK) {
        qn_confusion_counts_destroy(c);
        return status;
    }
    c->room = room;
    *counts = c;
    return QN_OK;
}

void qn_confusion_counts_destroy(qn_confusion_counts *counts) {
    if (!counts)
        return;
    const qn_allocator *allocator = counts->allocator;
    qn_release(allocator, counts->cells, (size_t)counts->room, sizeof *counts->cells);
    qn_release(allocator, counts->classes, (size_t)counts->n_classes + 1, sizeof *counts->classes);
    qn_release(allocator, counts, 1, sizeof *counts);
}

void qn_confusion_counts_clear(qn_confusion_counts *counts) {
    counts->n_cells = 0;
}

/* ---- joining equal cells ---- */

static bool is_before(const qn_confusion_cell *a, const qn_confusion_cell *b) {
    return a->actual != b->actual ? a->actual < b->actual : a->taken < b->taken;
}

static void sink(qn_confusion_cell *cells, int64_t n, int64_t at) {
    const qn_confusion_cell cell = cells[at];
    for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && is_before(&cells[child], &cells[child + 1]);
        if (!is_before(&cell, &cells[child]))
            break;
        cells[at] = cells[child];
        at = child;
    }
    cells[at] = cell;
}

/* In place: the C library's sorting may allocate. */
static void sort(qn_confusion_cell *cells, int64_t n) {
    for (int64_t i = n / 2; i-- > 0;)
        sink(cells, n, i);
    for (int64_t i = n - 1; i > 0; i--) {
        const qn_confusion_cell first = cells[0];
        cells[0] = cells[i];
        cells[i] = first;
        sink(cells, i, 0);
    }
}

static void join(qn_confusion_counts *c) {
    int64_t n = 0;
    sort(c->cells, c->n_cells);
    for (int64_t i = 0; i < c->n_cells; i++) {
        if (n > 0 && !is_before(&c->cells[n - 1], &c->cells[i]))
            c->cells[n - 1].n_samples += c->cells[i].n_samples;
        else
            c->cells[n++] = c->cells[i];
    }
    c->n_cells = n;
}

void qn_confusion_counts_add(qn_confusion_counts *counts, int32_t actual, int32_t taken) {
    if (counts->n_cells == counts->room)
        join(counts);
    counts->cells[counts->n_cells++] = (qn_confusion_cell){actual, taken, 1};
}

void qn_confusion_counts_finish(qn_confusion_counts *counts, qn_confusion *confusion) {
    join(counts);
    qn_class_count *classes = counts->classes;
    memset(classes, 0, ((size_t)counts->n_classes + 1) * sizeof *classes);
    for (int64_t i = 0; i < counts->n_cells; i++) {
        const qn_confusion_cell *cell = &counts->cells[i];
        classes[cell->actual].n_samples += cell->n_samples;
        classes[cell->taken].n_taken += cell->n_samples;
        classes[cell->actual].n_right += cell->actual == cell->taken ? cell->n_samples : 0;
        classes[cell->actual + 1].first_cell = i + 1;
    }
    /* A class without samples begins where the one before it ends. */
    for (int i = 1; i <= counts->n_classes; i++) {
        if (classes[i].first_cell < classes[i - 1].first_cell)
            classes[i].first_cell = classes[i - 1].first_cell;
    }
    confusion->n_cells = counts->n_cells;
    confusion->cells = counts->cells;
    confusion->classes = classes;
}
