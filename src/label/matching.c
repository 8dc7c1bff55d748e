/* Assignment by shortest augmenting paths (Jonker and Volgenant 1987); see matching.h. */
#include "label/matching.h"

#include <stdbool.h>
#include <string.h>

enum { MOST = QN_MATCHING_MOST + 1 };

/* Rows and columns from 1; row_of[0] is the row that is being placed. Potentials keep all reduced
 * costs at least 0. */
typedef struct matching {
    int n_rows, n_columns;
    const int32_t *count;
    int64_t of_row[MOST], of_column[MOST], least[MOST];
    int row_of[MOST], before[MOST];
} matching;

/* Costs are minus the counts; columns beyond the last are no column, at cost 0. */
static int64_t cost(const matching *m, int row, int column) {
    return column <= m->n_columns ? -(int64_t)m->count[(row - 1) * m->n_columns + column - 1] : 0;
}

/* Extends the shortest path by a column, and returns it. */
static int extend(matching *m, int n, int at, bool *is_done) {
    const int row = m->row_of[at];
    int64_t step = INT64_MAX;
    int next = 0;
    for (int j = 1; j <= n; j++) {
        if (is_done[j])
            continue;
        const int64_t far = cost(m, row, j) - m->of_row[row] - m->of_column[j];
        if (far < m->least[j]) {
            m->least[j] = far;
            m->before[j] = at;
        }
        if (m->least[j] < step) {
            step = m->least[j];
            next = j;
        }
    }
    for (int j = 0; j <= n; j++) {
        if (is_done[j]) {
            m->of_row[m->row_of[j]] += step;
            m->of_column[j] -= step;
        } else {
            m->least[j] -= step;
        }
    }
    return next;
}

static void place(matching *m, int n, int row) {
    bool is_done[MOST] = {false};
    int at = 0;
    m->row_of[0] = row;
    for (int j = 0; j <= n; j++)
        m->least[j] = INT64_MAX / 4;
    do {
        is_done[at] = true;
        at = extend(m, n, at, is_done);
    } while (m->row_of[at] != 0);
    while (at != 0) {
        const int from = m->before[at];
        m->row_of[at] = m->row_of[from];
        at = from;
    }
}

void qn_match(int n_rows, int n_columns, const int32_t *count, int32_t *of) {
    matching m = {.n_rows = n_rows, .n_columns = n_columns, .count = count};
    const int n = n_columns > n_rows ? n_columns : n_rows;
    for (int row = 1; row <= n_rows; row++)
        place(&m, n, row);
    for (int row = 0; row < n_rows; row++)
        of[row] = -1;
    for (int j = 1; j <= n; j++)
        if (m.row_of[j] > 0 && j <= n_columns)
            of[m.row_of[j] - 1] = j - 1;
}
