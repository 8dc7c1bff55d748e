/* Attention's weights, and the cells of LSTM layers; the products beside them are tiles. */

/* ---- attention: an item is a row of n0 weights, of row t (n1 of a head) of a head (n2 of a sample)
 * whose lengths (p7; n3: there are some) say how many count. f: scale, rate, factor of what is kept;
 * p8, p9, p10: the random stream, as of dropout. ---- */

enum { HEAD_ROWS = 1, HEADS, HAS_LENGTHS, ALL_ROWS, DEPTH };

#define EACH_WEIGHT_ROW                                                                            \
    const int row = ID(0), u = a.n[0];                                                             \
    if (row >= a.n[ALL_ROWS])                                                                      \
        return;                                                                                    \
    const int sample = row / (a.n[HEAD_ROWS] * a.n[HEADS]);                                        \
    const int keys = a.n[HAS_LENGTHS] ? clamp(INTS(7)[sample], 0, u) : u

/* What dropout multiplies the weight j of a row by. */
INLINE float kept_weight(const arguments *a, int row, int j) {
    const uint2 key = {(uint)a->p[8], (uint)(a->p[8] >> 32)};
    const uint2 step = {(uint)a->p[9], (uint)(a->p[9] >> 32)};
    const ulong at = a->p[10] + (ulong)row * (ulong)a->n[0] + (ulong)j;
    if (a->f[1] == 0)
        return 1;
    const float uniform = (float)(random_word(key, step, at) >> 8) * 5.9604644775390625e-8f;
    return uniform < a->f[1] ? 0 : a->f[2];
}

/* Operands: scores, which become weights; log of the sums. */
KERNEL void attention_weights(GLOBAL uchar *memory, const arguments a) {
    EACH_WEIGHT_ROW;
    GLOBAL float *w = REALS(0) + (ulong)row * (ulong)u;
    float most = -INFINITY;
    exact sum = {0, 0};
    for (int j = 0; j < keys; j++) {
        w[j] *= a.f[0];
        most = w[j] > most || isnan(w[j]) ? w[j] : most;
    }
    for (int j = 0; j < keys; j++) {
        w[j] = exp(w[j] - most);
        sum = exact_add(sum, w[j]);
    }
    const float total = exact_value(sum);
    for (int j = 0; j < keys; j++)
        w[j] *= 1 / total * kept_weight(&a, row, j);
    for (int j = keys; j < u; j++)
        w[j] = 0;
    REALS(1)[row] = keys > 0 ? most + log(total) : 0;
}

/* Operands: scores, which become what the values met; d(what they met), which becomes the scores'
 * gradient; log of the sums; y, dy (n5 columns). */
KERNEL void attention_slopes(GLOBAL uchar *memory, const arguments a) {
    EACH_WEIGHT_ROW;
    GLOBAL float *w = REALS(0) + (ulong)row * (ulong)u, *slopes = REALS(1) + (ulong)row * (ulong)u;
    const float log_sum = REALS(2)[row];
    exact dot = {0, 0};
    for (int j = 0; j < a.n[DEPTH]; j++)
        dot = exact_add(dot, REALS(3)[row * a.n[DEPTH] + j] * REALS(4)[row * a.n[DEPTH] + j]);
    const float delta = exact_value(dot);
    for (int j = 0; j < keys; j++) {
        const float weight = exp(w[j] * a.f[0] - log_sum), kept = kept_weight(&a, row, j);
        slopes[j] = weight * (kept * slopes[j] - delta) * a.f[0];
        w[j] = weight * kept;
    }
    for (int j = keys; j < u; j++)
        w[j] = slopes[j] = 0;
}

/* ---- LSTM: item x is a unit of n0, y a sequence of n1; n2 steps, of which this is n3. n4: which
 * operands there are, a bit each ---- */

enum { STEPS = 2, STEP, OPERANDS };

#define HAS(i) (a.n[OPERANDS] >> (i)&1)
#define EACH_UNIT                                                                                  \
    const int j = ID(0), row = ID(1), k = a.n[0], t = a.n[STEP];                                   \
    if (j >= k || row >= a.n[1])                                                                   \
        return;                                                                                    \
    const int at = row * k + j, step = row * a.n[STEPS] + t;                                       \
    const int length = HAS(LENGTHS) ? clamp(INTS(LENGTHS)[row], 1, a.n[STEPS]) : a.n[STEPS]

/* Operands of both, by number; forward and backward have further ones at equal places. */
enum { LENGTHS, STATE_C, SUMS, GATES, CELLS, IN_X, OUT_Y, LAST_H, LAST_C };
enum { OUT_DX = 5, IN_DY, IN_DH, IN_DC, RUNNING_DC, OUT_DC };

KERNEL void lstm_cell(GLOBAL uchar *memory, const arguments a) {
    EACH_UNIT;
    GLOBAL float *gates = REALS(GATES) + step * 4 * k + j;
    GLOBAL const float *x = REALS(IN_X) + step * 4 * k + j;
    float c = t > 0             ? REALS(CELLS)[(step - 1) * k + j]
              : HAS(STATE_C) ? REALS(STATE_C)[at]
                                : 0;
    float gate[4] = {0, 1, 0, 0}, h = 0; /* of a sequence that is over: the cells stay */
    if (t < length) {
        for (int g = 0; g < 4; g++) {
            const float sum = x[g * k] + (HAS(SUMS) ? REALS(SUMS)[(row * 4 + g) * k + j] : 0);
            gate[g] = activate(g == 2 ? TANH : SIGMOID, 0, sum);
        }
        c = gate[1] * c + gate[0] * gate[2];
        h = gate[3] * tanh(c);
    }
    for (int g = 0; g < 4; g++)
        gates[g * k] = gate[g];
    REALS(CELLS)[step * k + j] = c;
    REALS(OUT_Y)[step * k + j] = h;
    if (t == length - 1) {
        REALS(LAST_H)[at] = h;
        REALS(LAST_C)[at] = c;
    }
}

/* dx may lie where the gates do. */
KERNEL void lstm_cell_backward(GLOBAL uchar *memory, const arguments a) {
    EACH_UNIT;
    GLOBAL const float *gates = REALS(GATES) + step * 4 * k + j;
    GLOBAL float *dx = REALS(OUT_DX) + step * 4 * k + j;
    float gate[4] = {0, 0, 0, 0};
    float dc = t < a.n[STEPS] - 1 ? REALS(RUNNING_DC)[at] : HAS(IN_DC) ? REALS(IN_DC)[at] : 0;
    if (t < length) {
        const float i = gates[0], f = gates[k], g = gates[2 * k], o = gates[3 * k];
        const float before = t > 0             ? REALS(CELLS)[(step - 1) * k + j]
                             : HAS(STATE_C) ? REALS(STATE_C)[at]
                                               : 0;
        const float size = tanh(REALS(CELLS)[step * k + j]);
        const float dy = HAS(IN_DY) ? REALS(IN_DY)[step * k + j] : 0;
        const float last = HAS(IN_DH) && t == length - 1 ? REALS(IN_DH)[at] : 0;
        const float dh = dy + last + (HAS(SUMS) ? REALS(SUMS)[at] : 0);
        dc = dc + dh * o * (1 - size * size);
        gate[0] = dc * g * (i * (1 - i));
        gate[1] = dc * before * (f * (1 - f));
        gate[2] = dc * i * (1 - g * g);
        gate[3] = dh * size * (o * (1 - o));
        dc = dc * f;
    }
    for (int g = 0; g < 4; g++)
        dx[g * k] = gate[g];
    REALS(RUNNING_DC)[at] = dc;
    if (t == 0 && HAS(OUT_DC))
        REALS(OUT_DC)[at] = dc;
}

/* h before each step: operands y, h before the first (n3: there is one), to. x: n0 of a row. */
KERNEL void lstm_before(GLOBAL uchar *memory, const arguments a) {
    const int j = ID(0), row = ID(1), all = a.n[0], k = a.n[2];
    if (j >= all || row >= a.n[1])
        return;
    const float first = a.n[3] && j < k ? REALS(1)[row * k + j] : 0;
    REALS(2)[row * all + j] = j < k ? first : REALS(0)[row * all + j - k];
}
