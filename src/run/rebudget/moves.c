/* See moves.h. A move may run when no other pending move reads where it writes. If all pending
 * moves are blocked, they form a cycle: its smallest move is parked in free bytes, which unblocks
 * the one behind it. */
#include "run/rebudget/moves.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* More are not split: working out their order would take longer than it is worth. */
enum { MOST_PIECES = 512 };

/* Bytes that are taken. */
typedef struct span {
    size_t begin, end;
} span;

/* items[0 .. n_done) are where they belong; the rest waits. */
typedef struct finding {
    const qn_allocator *allocator;
    size_t n, n_done, capacity;
    qn_move *items;
    size_t limit;
    size_t span_capacity;
    span *spans;
    qn_moves *found;
} finding;

size_t qn_move_extent(const qn_move *move, const qn_rows_at *at) {
    return (move->rows - 1) * at->step + move->row;
}

/* ---- overlaps ---- */

/* Never false where a byte is shared; exact for rows of one step that do not cross it. */
static bool do_overlap(const qn_move *a, const qn_rows_at *x, const qn_move *b,
                       const qn_rows_at *y) {
    if (x->offset + qn_move_extent(a, x) <= y->offset ||
        y->offset + qn_move_extent(b, y) <= x->offset)
        return false;
    if (x->step != y->step || a->rows == 1 || b->rows == 1)
        return true;
    /* Within a step, a lies at [0, row) and b from here on. */
    const size_t at = y->offset >= x->offset
                          ? (y->offset - x->offset) % x->step
                          : (x->step - (x->offset - y->offset) % x->step) % x->step;
    return at < a->row || at + b->row > x->step;
}

static bool is_dense(const qn_move *m) {
    return m->rows == 1;
}

/* Whether no row goes up (sign 1: down), so that rows can be moved one by one from the first (from
 * the last): places are linear in the row, so the ends say it. */
static bool goes(const qn_move *m, int sign) {
    const size_t last_from = m->from.offset + (m->rows - 1) * m->from.step;
    const size_t last_to = m->to.offset + (m->rows - 1) * m->to.step;
    return sign < 0 ? m->to.offset <= m->from.offset && last_to <= last_from
                    : m->to.offset >= m->from.offset && last_to >= last_from;
}

static bool can_move_alone(const qn_move *m) {
    return is_dense(m) || goes(m, -1) || goes(m, 1) || !do_overlap(m, &m->from, m, &m->to);
}

/* A waiting move that reads where m writes, or -1; m itself where it is in its own way. */
static int64_t find_blocker(const finding *f, size_t m) {
    if (!can_move_alone(&f->items[m]))
        return (int64_t)m;
    for (size_t i = f->n_done; i < f->n; i++) {
        if (i != m && do_overlap(&f->items[i], &f->items[i].from, &f->items[m], &f->items[m].to))
            return (int64_t)i;
    }
    return -1;
}

/* ---- what is moved at once ---- */

static qn_status put(finding *f, const qn_move *move) {
    qn_moves *to = f->found;
    QN_TRY(qn_grow(f->allocator, &to->items, &to->capacity, to->n + 1, sizeof *to->items));
    to->items[to->n++] = *move;
    to->bytes += move->rows * move->row;
    return QN_OK;
}

static bool is_there(const qn_move *m) {
    return m->from.offset == m->to.offset && (m->rows == 1 || m->from.step == m->to.step);
}

static void finish(finding *f, size_t m) {
    const qn_move done = f->items[m];
    f->items[m] = f->items[f->n_done];
    f->items[f->n_done++] = done;
}

static qn_status move_free(finding *f) {
    for (size_t before = SIZE_MAX; before != f->n_done;) {
        before = f->n_done;
        for (size_t m = f->n_done; m < f->n; m++) {
            if (find_blocker(f, m) >= 0)
                continue;
            if (!is_there(&f->items[m]))
                QN_TRY(put(f, &f->items[m]));
            finish(f, m);
        }
    }
    return QN_OK;
}

/* ---- parking ---- */

/* The smallest of a circle of moves that block one another: from anywhere the way to a blocker's
 * blocker ends in one. */
static size_t find_smallest_of_circle(const finding *f) {
    size_t at = f->n_done;
    for (size_t i = f->n_done; i < f->n; i++)
        at = (size_t)find_blocker(f, at);
    size_t best = at;
    for (size_t m = (size_t)find_blocker(f, at); m != at; m = (size_t)find_blocker(f, m)) {
        if (f->items[m].rows * f->items[m].row < f->items[best].rows * f->items[best].row)
            best = m;
    }
    return best;
}

static int by_begin(const void *left, const void *right) {
    const span *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static void add_span(finding *f, size_t *n, const qn_move *move, const qn_rows_at *at) {
    f->spans[(*n)++] = (span){at->offset, at->offset + qn_move_extent(move, at)};
}

/* The largest gap between what waits and what is done, and, where and_goals is set, what is still
 * to be written. */
static span find_gap(finding *f, bool and_goals) {
    size_t n = 0, end = 0;
    span best = {0, 0};
    for (size_t i = 0; i < f->n; i++) {
        if (i < f->n_done || and_goals)
            add_span(f, &n, &f->items[i], &f->items[i].to);
        if (i >= f->n_done)
            add_span(f, &n, &f->items[i], &f->items[i].from);
    }
    f->spans[n++] = (span){f->limit, f->limit};
    qsort(f->spans, n, sizeof *f->spans, by_begin);
    for (size_t i = 0; i < n; i++) {
        const size_t begin = (end + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
        if (f->spans[i].begin > begin && f->spans[i].begin - begin > best.end - best.begin)
            best = (span){begin, f->spans[i].begin};
        end = f->spans[i].end > end ? f->spans[i].end : end;
    }
    return best;
}

/* Splits a move in two, the first of at most `most` bytes; false: it cannot be split so small. */
static bool split(const qn_move *m, size_t most, qn_move *first, qn_move *rest) {
    *first = *rest = *m;
    if (m->rows == 1) {
        first->row = most / QN_ALIGNMENT * QN_ALIGNMENT;
        rest->row -= first->row;
        rest->from.offset += first->row;
        rest->to.offset += first->row;
        return first->row > 0;
    }
    first->rows = most / m->row;
    rest->rows -= first->rows;
    rest->from.offset += first->rows * m->from.step;
    rest->to.offset += first->rows * m->to.step;
    return first->rows > 0;
}

static qn_status grow(finding *f, size_t n) {
    QN_TRY(qn_grow(f->allocator, &f->items, &f->capacity, n, sizeof *f->items));
    return qn_grow(f->allocator, &f->spans, &f->span_capacity, 2 * n + 1, sizeof *f->spans);
}

/* Splits what waits into pieces of at most `most` bytes, where it can be split. */
static qn_status split_all(finding *f, size_t most) {
    for (size_t i = f->n_done; i < f->n; i++) {
        qn_move first, rest;
        const qn_move *m = &f->items[i];
        if (m->rows * m->row <= most || !split(m, most, &first, &rest))
            continue;
        if (f->n == MOST_PIECES)
            return qn_fail(QN_ERROR_UNSUPPORTED, "no room to move %zu bytes through",
                           m->rows * m->row);
        QN_TRY(grow(f, f->n + 1));
        f->items[i] = first;
        f->items[f->n++] = rest;
    }
    return QN_OK;
}

/* Moves one of a circle to where nothing lies. Where no gap holds it, all are split so small that a
 * gap holds several. */
static qn_status park(finding *f) {
    const size_t m = find_smallest_of_circle(f), bytes = f->items[m].rows * f->items[m].row;
    span gap = find_gap(f, true);
    if (gap.end - gap.begin < bytes)
        gap = find_gap(f, false);
    const size_t room = gap.end - gap.begin;
    if (room < bytes) {
        const size_t before = f->n;
        QN_TRY(split_all(f, room / 4 < QN_ALIGNMENT ? room : room / 4));
        return f->n > before
                   ? QN_OK
                   : qn_fail(QN_ERROR_UNSUPPORTED, "no room to move %zu bytes through", bytes);
    }
    qn_move aside = f->items[m];
    aside.to = (qn_rows_at){gap.begin, aside.row};
    QN_TRY(put(f, &aside));
    f->found->n_parked++;
    f->items[m].from = aside.to;
    return QN_OK;
}

static void drop_empty(qn_move *wanted, size_t *n) {
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        qn_move m = wanted[i];
        if (m.rows == 0 || m.row == 0)
            continue;
        if (m.rows > 1 && m.from.step == m.row && m.to.step == m.row)
            m = (qn_move){m.from, m.to, 1, m.rows * m.row};
        wanted[kept++] = m;
    }
    *n = kept;
}

static qn_status find_all(finding *f) {
    QN_TRY(move_free(f));
    for (size_t n_parked = 0; f->n_done < f->n; n_parked++) {
        if (n_parked > 4 * f->n)
            return qn_fail(QN_ERROR_UNSUPPORTED, "no order of %zu moves exists within the memory",
                           f->n);
        QN_TRY(park(f));
        QN_TRY(move_free(f));
    }
    return QN_OK;
}

qn_status qn_moves_find(const qn_allocator *allocator, qn_move *wanted, size_t n,
                        size_t limit_bytes, qn_moves *found) {
    finding f = {.allocator = allocator, .limit = limit_bytes, .found = found};
    *found = (qn_moves){.allocator = allocator};
    drop_empty(wanted, &n);
    qn_status status = grow(&f, n);
    if (status == QN_OK && n > 0) {
        memcpy(f.items, wanted, n * sizeof *f.items);
        f.n = n;
        status = find_all(&f);
    }
    qn_release(allocator, f.items, f.capacity, sizeof *f.items);
    qn_release(allocator, f.spans, f.span_capacity, sizeof *f.spans);
    if (status != QN_OK)
        qn_moves_deinit(found);
    return status;
}

void qn_moves_deinit(qn_moves *moves) {
    qn_release(moves->allocator, moves->items, moves->capacity, sizeof *moves->items);
    *moves = (qn_moves){.allocator = moves->allocator};
}

/* ---- running ---- */

static void run_move(const qn_move *m, char *memory) {
    const bool from_last = m->rows > 1 && !goes(m, -1);
    for (size_t i = 0; i < m->rows; i++) {
        const size_t row = from_last ? m->rows - 1 - i : i;
        memmove(memory + m->to.offset + row * m->to.step,
                memory + m->from.offset + row * m->from.step, m->row);
    }
}

void qn_moves_run(const qn_moves *moves, void *memory) {
    for (size_t i = 0; i < moves->n; i++)
        run_move(&moves->items[i], memory);
}
