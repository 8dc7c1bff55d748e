/* Moves within one memory: random layouts with and without rows apart, crowded and roomy,
 * rearranged into other random layouts, against copies made aside; no byte above the limit may
 * change. Then circles, no room, and failing allocations. */
#include "base/rng.h"
#include "check.h"
#include "failing.h"
#include "os/heap.h"
#include "run/rebudget/moves.h"

#include <stdlib.h>

enum { MOST = 40, MEMORY = 1 << 16, GUARD = 256 };

static uint64_t n_drawn;

static size_t draw(size_t below) {
    const qn_rng rng = qn_rng_make(7, 11, 13);
    return (size_t)(qn_rng_word(rng, n_drawn++) % below);
}

/* Places of n pieces in random order, one behind the other, with gaps of at most `gap` units of 64
 * bytes between; where two have equal rows they may lie row by row side by side. Returns the end.
 */
static size_t lay_out(const qn_move *pieces, size_t n, size_t gap, qn_rows_at *places) {
    size_t order[MOST], end = 0;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        const size_t j = draw(i), kept = order[j];
        order[j] = order[i - 1];
        order[i - 1] = kept;
    }
    for (size_t i = 0; i < n; i++) {
        const qn_move *p = &pieces[order[i]];
        const qn_move *next = i + 1 < n ? &pieces[order[i + 1]] : NULL;
        end += draw(gap + 1) * 64;
        if (next && p->rows > 1 && next->rows == p->rows && draw(2)) {
            const size_t step = p->row + next->row;
            places[order[i]] = (qn_rows_at){end, step};
            places[order[++i]] = (qn_rows_at){end + p->row, step};
            end += p->rows * step;
        } else {
            const size_t step = p->rows > 1 && draw(3) == 0 ? p->row + 4 * draw(4) : p->row;
            places[order[i]] = (qn_rows_at){end, step};
            end += p->rows * step;
        }
        end = (end + 63) / 64 * 64;
    }
    return end;
}

static void copy_out(const qn_move *m, const qn_rows_at *at, const uint8_t *memory, uint8_t *to) {
    for (size_t r = 0; r < m->rows; r++)
        memcpy(to + r * m->row, memory + at->offset + r * at->step, m->row);
}

static bool is_moved(const qn_move *wanted, size_t n, const uint8_t *before, const uint8_t *after) {
    static uint8_t a[MEMORY], b[MEMORY];
    bool is_good = true;
    for (size_t i = 0; i < n; i++) {
        copy_out(&wanted[i], &wanted[i].from, before, a);
        copy_out(&wanted[i], &wanted[i].to, after, b);
        is_good = is_good && memcmp(a, b, wanted[i].rows * wanted[i].row) == 0;
    }
    return is_good;
}

/* Whether moves were found; checks them by running them. */
static bool try_moves(const qn_move *pieces, size_t n, size_t limit) {
    static uint8_t before[MEMORY + GUARD], after[MEMORY + GUARD];
    qn_move wanted[MOST];
    qn_moves moves;
    memcpy(wanted, pieces, n * sizeof *pieces);
    for (size_t i = 0; i < sizeof before; i++)
        before[i] = after[i] = (uint8_t)draw(256);
    const qn_status status = qn_moves_find(qn_allocator_default(), wanted, n, limit, &moves);
    CHECK(status == QN_OK || status == QN_ERROR_UNSUPPORTED);
    if (status != QN_OK)
        return false;
    qn_moves_run(&moves, after);
    CHECK(is_moved(pieces, n, before, after));
    CHECK(memcmp(before + limit, after + limit, sizeof before - limit) == 0);
    qn_moves_deinit(&moves);
    return true;
}

static void draw_pieces(qn_move *pieces, size_t n) {
    static const size_t rows[] = {2, 3, 8};
    for (size_t i = 0; i < n; i++) {
        pieces[i] = (qn_move){.rows = 1, .row = 64 * (1 + draw(12))};
        if (draw(3) == 0)
            pieces[i] = (qn_move){.rows = rows[draw(3)], .row = 4 * (1 + draw(40))};
    }
}

/* spare: free units of 64 bytes between pieces, at most. */
static void try_random(size_t n_cases, size_t spare, double least_found) {
    size_t n_found = 0;
    for (size_t c = 0; c < n_cases; c++) {
        const size_t n = 1 + draw(MOST - 1);
        qn_move pieces[MOST];
        qn_rows_at from[MOST], to[MOST];
        draw_pieces(pieces, n);
        const size_t end = lay_out(pieces, n, spare, from), goal = lay_out(pieces, n, spare, to);
        for (size_t i = 0; i < n; i++) {
            pieces[i].from = from[i];
            pieces[i].to = to[i];
        }
        const size_t limit = end > goal ? end : goal;
        CHECK(limit <= MEMORY);
        n_found += try_moves(pieces, n, limit);
    }
    CHECK((double)n_found >= least_found * (double)n_cases);
}

/* Two that change places: not without room, but through any gap, however small. */
static void test_circle(void) {
    const qn_move two[] = {{{0, 640}, {640, 640}, 1, 640}, {{640, 640}, {0, 640}, 1, 640}};
    CHECK(!try_moves(two, 2, 1280));
    CHECK(try_moves(two, 2, 1280 + 64));
    CHECK(try_moves(two, 2, 1280 + 640));
}

/* What stays is not copied, and rows of two pieces side by side that both stay are no circle. */
static void test_what_stays(void) {
    qn_move two[] = {{{0, 48}, {0, 48}, 8, 16}, {{16, 48}, {16, 48}, 8, 32}};
    qn_moves moves;
    CHECK_OK(qn_moves_find(qn_allocator_default(), two, 2, 384, &moves));
    CHECK(moves.n == 0 && moves.bytes == 0);
    qn_moves_deinit(&moves);
}

/* Two pieces made of the same bytes. */
static void test_shared_source(void) {
    const qn_move both[] = {{{0, 640}, {64, 640}, 1, 640}, {{128, 64}, {704, 64}, 1, 64}};
    CHECK(try_moves(both, 2, 1024));
}

static void test_allocation_failure(void) {
    for (int64_t n = 0; n < 3; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_move two[] = {{{0, 640}, {640, 640}, 1, 640}, {{640, 640}, {0, 640}, 1, 640}};
        qn_moves moves;
        CHECK(qn_moves_find(&allocator, two, 2, 1280 + 640, &moves) == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
}

int main(void) {
    test_circle();
    test_what_stays();
    test_shared_source();
    try_random(500, 8, 0.9);
    try_random(500, 1, 0.35);
    test_allocation_failure();
    return checks_finish();
}
