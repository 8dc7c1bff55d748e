/* Conversions of 16-bit floats by all threads (half.h). */
#include "kernels/half.h"
#include "kernels/integer.h"

enum { AT_ONCE = 16384 }; /* numbers of a task */

/* Rows of c numbers, the halves `step` apart. */
typedef struct conversion {
    qn_half_rows how;
    int64_t rows, c, step, at_once;
    const uint16_t *from;
    const float *wide;
    float *to_wide; /* or null: to halves */
    uint16_t *to;
} conversion;

qn_half_rows qn_half_rows_of(qn_dtype dtype, qn_isa isa) {
    const qn_integer_rows *rows = &qn_integer_kernels_get(isa)->rows;
    return dtype == QN_BF16 ? (qn_half_rows){rows->of_bf16, rows->to_bf16}
                            : (qn_half_rows){rows->of_f16, rows->to_f16};
}

static void convert_task(void *context, int64_t begin, int64_t end, int thread) {
    const conversion *t = context;
    const int64_t last = end * t->at_once < t->rows ? end * t->at_once : t->rows;
    (void)thread;
    const int64_t first = begin * t->at_once, rows = last - first;
    if (t->to_wide)
        qn_half_rows_widen(&t->how, rows, t->c, t->from + first * t->step, t->step,
                           t->to_wide + first * t->c);
    else
        qn_half_rows_narrow(&t->how, rows, t->c, t->wide + first * t->c, t->to + first * t->step,
                            t->step);
}

/* Dense ones are cut into rows of a task. */
static void convert(qn_team *team, conversion t) {
    const int64_t n = t.rows * t.c;
    if (t.step == t.c && n > AT_ONCE && n % AT_ONCE == 0) {
        t.c = t.step = AT_ONCE;
        t.rows = n / AT_ONCE;
    }
    t.at_once = t.c >= AT_ONCE ? 1 : AT_ONCE / (t.c > 0 ? t.c : 1);
    qn_team_run(team, (t.rows + t.at_once - 1) / t.at_once, convert_task, &t);
}

void qn_halves_widen(const qn_halves *how, qn_team *team, int64_t rows, int64_t c, int64_t step,
                     const uint16_t *from, float *to) {
    convert(team, (conversion){.how = qn_half_rows_of(how->dtype, how->wide->isa),
                               .rows = rows,
                               .c = c,
                               .step = step,
                               .from = from,
                               .to_wide = to});
}

void qn_halves_narrow(const qn_halves *how, qn_team *team, int64_t rows, int64_t c, int64_t step,
                      const float *from, uint16_t *to) {
    convert(team, (conversion){.how = qn_half_rows_of(how->dtype, how->wide->isa),
                               .rows = rows,
                               .c = c,
                               .step = step,
                               .wide = from,
                               .to = to});
}
