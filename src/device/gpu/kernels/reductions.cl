/* Sums of columns and of rows, norms, softmax and cross entropy. Sums over many rows are made of
 * chunks (n2 rows each), and the chunks' sums added in order; all carry their rounding errors. */

enum { N_ROWS = 1, CHUNK_ROWS, X_STEP, Y_STEP_, DY_STEP, WHAT, KIND_, N_CHUNKS };
enum { SUM_X, SUM_SQUARES, SUM_GRADIENTS, SUM_NORMALISED };

/* Of column x and chunk y, to parts (2, chunks, C): x; (x - mean)^2; g and g (x - mean), where g is
 * dy times the activation's derivative at y; dy (x - mean of the row) / its deviation, and dy.
 * Operands: x, y, dy, mean, inverse deviation, parts. */
KERNEL void sum_columns(GLOBAL uchar *memory, const arguments a) {
    const int j = ID(0), chunk = ID(1), c = a.n[0], what = a.n[WHAT];
    if (j >= c || chunk >= a.n[N_CHUNKS])
        return;
    const int first = chunk * a.n[CHUNK_ROWS], end = min(a.n[N_ROWS], first + a.n[CHUNK_ROWS]);
    exact sum = {0, 0}, dot = {0, 0};
    const float mean = what == SUM_SQUARES || what == SUM_GRADIENTS ? REALS(3)[j] : 0;
    for (int i = first; i < end; i++) {
        const float x = REALS(0)[i * a.n[X_STEP] + j];
        if (what == SUM_X) {
            sum = exact_add(sum, x);
        } else if (what == SUM_SQUARES) {
            sum = exact_add(sum, (x - mean) * (x - mean));
        } else if (what == SUM_GRADIENTS) {
            const float dy = REALS(2)[i * a.n[DY_STEP] + j];
            const float g = a.n[KIND_] == NONE
                                ? dy
                                : derive(a.n[KIND_], a.f[0], REALS(1)[i * a.n[Y_STEP_] + j], dy);
            sum = exact_add(sum, g);
            dot = exact_add(dot, g * (x - mean));
        } else {
            const float dy = REALS(2)[i * a.n[DY_STEP] + j];
            sum = exact_add(sum, dy);
            dot = exact_add(dot, dy * ((x - REALS(3)[i]) * REALS(4)[i]));
        }
    }
    REALS(5)[chunk * c + j] = exact_value(sum);
    if (what == SUM_GRADIENTS || what == SUM_NORMALISED)
        REALS(5)[(a.n[N_CHUNKS] + chunk) * c + j] = exact_value(dot);
}

INLINE float sum_of_parts(GLOBAL const float *parts, int n, int c) {
    exact sum = {0, 0};
    for (int i = 0; i < n; i++)
        sum = exact_add(sum, parts[i * c]);
    return exact_value(sum);
}

/* y = f0 times the sum; with n7 the inverse deviation of a variance, f1 being epsilon. */
KERNEL void finish_columns(GLOBAL uchar *memory, const arguments a) {
    const int j = ID(0);
    if (j >= a.n[0])
        return;
    const float sum = a.f[0] * sum_of_parts(REALS(0) + j, a.n[N_CHUNKS], a.n[0]);
    REALS(1)[j] = a.n[KIND_] ? 1 / sqrt(sum + a.f[1]) : sum;
}

/* Of a batch norm: parts, scale, inverse deviation; dscale, dshift, and (3, C): the numbers of
 * dx = factor * g - term - (x - mean) * tilt. f0: 1 / rows. */
KERNEL void norm_gradients(GLOBAL uchar *memory, const arguments a) {
    const int j = ID(0), c = a.n[0], n = a.n[N_CHUNKS];
    if (j >= c)
        return;
    const float total = sum_of_parts(REALS(0) + j, n, c);
    const float dot = sum_of_parts(REALS(0) + n * c + j, n, c);
    const float inv_std = REALS(2)[j], factor = REALS(1)[j] * inv_std;
    REALS(3)[j] = dot * inv_std;
    REALS(4)[j] = total;
    REALS(5)[j] = factor;
    REALS(5)[c + j] = factor * (total * a.f[0]);
    REALS(5)[2 * c + j] = factor * inv_std * inv_std * (dot * a.f[0]);
}

/* y = activation((x - mean) * deviation * scale + shift). n8: the deviation is made from a variance
 * and epsilon (f1). Operands: x, scale, shift, mean, deviation, y. */
KERNEL void norm_apply(GLOBAL uchar *memory, const arguments a) {
    const int j = ID(0), i = ID(1);
    if (j >= a.n[0] || i >= a.n[N_ROWS])
        return;
    const float given = REALS(4)[j], deviation = a.n[N_CHUNKS] ? 1 / sqrt(given + a.f[1]) : given;
    const float x = REALS(0)[i * a.n[X_STEP] + j];
    REALS(5)[i * a.n[Y_STEP_] + j] =
        activate(a.n[KIND_], a.f[0],
                 (x - REALS(3)[j]) * (deviation * REALS(1)[j]) + REALS(2)[j]);
}

/* Operands: x, y, dy, mean, numbers (3, C), dx. */
KERNEL void norm_backward(GLOBAL uchar *memory, const arguments a) {
    const int j = ID(0), i = ID(1), c = a.n[0];
    if (j >= c || i >= a.n[N_ROWS])
        return;
    const float x = REALS(0)[i * a.n[X_STEP] + j], dy = REALS(2)[i * a.n[DY_STEP] + j];
    const float g = a.n[KIND_] == NONE
                        ? dy
                        : derive(a.n[KIND_], a.f[0], REALS(1)[i * a.n[Y_STEP_] + j], dy);
    REALS(5)[i * c + j] =
        REALS(4)[j] * g - REALS(4)[c + j] - (x - REALS(3)[j]) * REALS(4)[2 * c + j];
}

/* ---- an item is a row of n0 elements ---- */

#define EACH_ROW                                                                                   \
    const int row = ID(0), c = a.n[0];                                                             \
    if (row >= a.n[N_ROWS])                                                                        \
        return

/* Operands: x, scale, shift; y, mean, inverse deviation. f0: epsilon. */
KERNEL void layer_norm(GLOBAL uchar *memory, const arguments a) {
    EACH_ROW;
    GLOBAL const float *x = REALS(0) + row * c;
    exact sum = {0, 0}, squares = {0, 0};
    for (int j = 0; j < c; j++)
        sum = exact_add(sum, x[j]);
    const float mean = exact_value(sum) / (float)c;
    for (int j = 0; j < c; j++)
        squares = exact_add(squares, (x[j] - mean) * (x[j] - mean));
    const float inv_std = 1 / sqrt(exact_value(squares) / (float)c + a.f[0]);
    for (int j = 0; j < c; j++)
        REALS(3)[row * c + j] = (x[j] - mean) * inv_std * REALS(1)[j] + REALS(2)[j];
    REALS(4)[row] = mean;
    REALS(5)[row] = inv_std;
}

/* Operands: x, dy, scale, mean, inverse deviation; dx, which may lie where dy does. */
KERNEL void layer_norm_backward(GLOBAL uchar *memory, const arguments a) {
    EACH_ROW;
    GLOBAL const float *x = REALS(0) + row * c;
    GLOBAL float *dy = REALS(1) + row * c;
    const float mean = REALS(3)[row], inv_std = REALS(4)[row];
    exact sum = {0, 0}, dot = {0, 0};
    for (int j = 0; j < c; j++) {
        const float g = dy[j] * REALS(2)[j];
        sum = exact_add(sum, g);
        dot = exact_add(dot, g * (x[j] - mean));
    }
    const float term = exact_value(sum) / (float)c;
    const float tilt = exact_value(dot) / (float)c * inv_std * inv_std;
    for (int j = 0; j < c; j++)
        REALS(5)[row * c + j] = inv_std * (dy[j] * REALS(2)[j] - term - (x[j] - mean) * tilt);
}

/* y = softmax(x); what the logarithm of the sum of e^x is besides the largest x. */
INLINE float softmax_row(int c, GLOBAL const float *x, GLOBAL float *y, float *largest) {
    float most = -INFINITY;
    exact sum = {0, 0};
    for (int j = 0; j < c; j++)
        most = x[j] > most || isnan(x[j]) ? x[j] : most;
    for (int j = 0; j < c; j++) {
        const float e = exp(x[j] - most);
        y[j] = e;
        sum = exact_add(sum, e);
    }
    const float total = exact_value(sum);
    for (int j = 0; j < c; j++)
        y[j] *= 1 / total;
    *largest = most;
    return log(total);
}

KERNEL void softmax(GLOBAL uchar *memory, const arguments a) {
    EACH_ROW;
    float largest;
    (void)softmax_row(c, REALS(0) + row * c, REALS(1) + row * c, &largest);
}

KERNEL void softmax_backward(GLOBAL uchar *memory, const arguments a) {
    EACH_ROW;
    GLOBAL const float *y = REALS(0) + row * c;
    GLOBAL float *dy = REALS(1) + row * c;
    exact dot = {0, 0};
    for (int j = 0; j < c; j++)
        dot = exact_add(dot, y[j] * dy[j]);
    for (int j = 0; j < c; j++)
        REALS(2)[row * c + j] = y[j] * (dy[j] - exact_value(dot));
}

/* Operands: logits, labels; losses, probabilities. f0: smoothing. A label below 0 is none. */
KERNEL void cross_entropy(GLOBAL uchar *memory, const arguments a) {
    EACH_ROW;
    GLOBAL const float *x = REALS(0) + row * c;
    const int label = INTS(1)[row];
    float largest;
    exact mean = {0, 0};
    const float rest = softmax_row(c, x, REALS(3) + row * c, &largest);
    for (int j = 0; a.f[0] != 0 && j < c; j++)
        mean = exact_add(mean, x[j] - largest);
    const float at_label = label < 0 ? 0 : x[label] - largest;
    const float loss = rest - (1 - a.f[0]) * at_label - a.f[0] * (exact_value(mean) / (float)c);
    REALS(2)[row] = label < 0 ? 0 : loss;
}

/* Operands: probabilities, labels, dloss; dlogits. f1: smoothing / C. */
KERNEL void cross_entropy_backward(GLOBAL uchar *memory, const arguments a) {
    EACH_ROW;
    const int label = INTS(1)[row];
    const float dloss = label < 0 ? 0 : REALS(2)[row];
    for (int j = 0; j < c; j++) {
        const float p = REALS(0)[row * c + j];
        const float target = j == label ? (1 - a.f[0]) + a.f[1] : a.f[1];
        REALS(3)[row * c + j] = label < 0 ? 0 : (p - target) * dloss;
    }
}

/* Element x of chunk y: sums of n2 elements each, of n1. */
KERNEL void sum_chunks(GLOBAL uchar *memory, const arguments a) {
    const int chunk = ID(0);
    exact sum = {0, 0};
    if (chunk >= a.n[N_CHUNKS])
        return;
    for (int i = chunk * a.n[CHUNK_ROWS]; i < min(a.n[N_ROWS], (chunk + 1) * a.n[CHUNK_ROWS]); i++)
        sum = exact_add(sum, REALS(0)[i]);
    REALS(1)[chunk] = exact_value(sum);
}

/* The mean of losses whose labels are not below 0. */
KERNEL void mean_valid(GLOBAL uchar *memory, const arguments a) {
    exact sum = {0, 0};
    int n = 0;
    if (ID(0) > 0)
        return;
    for (int i = 0; i < a.n[0]; i++) {
        sum = exact_add(sum, INTS(1)[i] >= 0 ? REALS(0)[i] : 0);
        n += INTS(1)[i] >= 0;
    }
    REALS(2)[0] = exact_value(sum) / (float)max(n, 1);
}

/* Along the middle axis of (outer, n0, inner): f0 times the sum, or the largest and where it is. */
KERNEL void reduce_sum(GLOBAL uchar *memory, const arguments a) {
    const int j = ID(0), outer = ID(1), inner = a.n[2];
    exact sum = {0, 0};
    if (j >= inner || outer >= a.n[1])
        return;
    for (int i = 0; i < a.n[0]; i++)
        sum = exact_add(sum, REALS(0)[(outer * a.n[0] + i) * inner + j]);
    REALS(1)[outer * inner + j] = a.f[0] * exact_value(sum);
}

KERNEL void reduce_most(GLOBAL uchar *memory, const arguments a) {
    const int j = ID(0), outer = ID(1), inner = a.n[2];
    int at = 0;
    if (j >= inner || outer >= a.n[1])
        return;
    GLOBAL const float *x = REALS(0) + outer * a.n[0] * inner + j;
    float best = x[0];
    for (int i = 1; i < a.n[0]; i++) {
        const int is_better = x[i * inner] > best || (isnan(x[i * inner]) && !isnan(best));
        best = is_better ? x[i * inner] : best;
        at = is_better ? i : at;
    }
    REALS(1)[outer * inner + j] = best;
    INTS(2)[outer * inner + j] = at;
}

/* n3: only where the index says. */
KERNEL void reduce_backward(GLOBAL uchar *memory, const arguments a) {
    const int j = ID(0), i = ID(1), inner = a.n[2];
    if (j >= inner || i >= a.n[1] * a.n[0])
        return;
    const int at = i / a.n[0] * inner + j;
    const int is_passed = !a.n[3] || INTS(1)[at] == i % a.n[0];
    REALS(2)[i * inner + j] = is_passed ? a.f[0] * REALS(0)[at] : 0;
}
