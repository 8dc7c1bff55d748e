/* Matrix products and implicit convolutions: one body, four kinds of operands. A group makes a tile
 * of TILE_M x TILE_N sums. Blocks of TILE_K of both operands are brought to local memory; each of
 * LX x LY items owns PARTS_M x PARTS_N parts of MICRO_M rows and MICRO_V vectors. A block's sums are
 * made first and then added to those before, so that rounding errors grow with the blocks. */

#define TILE_M (LY * PARTS_M * MICRO_M)
#define TILE_N (LX * PARTS_N * MICRO_N)
#define MICRO_N (MICRO_V * LANES)
#define ITEMS  (LX * LY)

/* Numbers of a convolution in n. */
enum { N_, H_, W_, C_, K_, R_, S_, P_, Q_, STRIDE_H, STRIDE_W, PAD_H, PAD_W, DILATION_H, DILATION_W,
       GROUPS, Y_STEP, ACTIVATION, HAS_BIAS, CHUNK, GROUP_C, GROUP_K };

/* Numbers of a plain product in n: op(a) (M, K) has its elements ROW_A and COLUMN_A apart. */
enum { M_P, N_P, K_P, ROW_A, COLUMN_A, ROW_B, COLUMN_B, STEP_C, MATRIX_A, MATRIX_B, MATRIX_C,
       CHUNK_P, ACTIVATION_P = ACTIVATION, HAS_BIAS_P = HAS_BIAS };

enum { PLAIN, FORWARD, DATA, FILTER };

/* A place in one operand: where it begins, and the row and column that it is at; of an index that is
 * summed over, also where it begins in the other operand. */
typedef struct {
    int base, h, w, other;
} place;

/* The pixel of an image batch of rows x columns. */
INLINE place pixel_of(int pixel, int rows, int columns) {
    const int j = pixel % columns, i = pixel / columns % rows;
    const place p = {pixel / columns / rows, i, j, 0};
    return p;
}

/* Of a row of the left operand, or where `is_depth` of an index that is summed over, and of a column
 * of the right one: places that are added up to an element's. */
INLINE place row_place(int kind, const arguments *a, int m, int group) {
    place p = {0, 0, 0, 0};
    const int *n = a->n;
    if (kind == PLAIN) {
        p.base = m * n[ROW_A];
    } else if (kind == FORWARD) {
        p = pixel_of(m, n[P_], n[Q_]);
        p.h = p.h * n[STRIDE_H] - n[PAD_H];
        p.w = p.w * n[STRIDE_W] - n[PAD_W];
        p.base = ((p.base * n[H_] + p.h) * n[W_] + p.w) * n[C_] + group * n[GROUP_C];
    } else if (kind == DATA) {
        p = pixel_of(m, n[H_], n[W_]);
        p.h += n[PAD_H];
        p.w += n[PAD_W];
        p.base *= n[P_] * n[Q_];
    } else {
        p.base = group * n[GROUP_K] + m;
    }
    return p;
}

INLINE place depth_place(int kind, const arguments *a, int k) {
    place p = {0, 0, 0, 0};
    const int *n = a->n;
    if (kind == PLAIN) {
        p.base = k * n[COLUMN_A];
        p.other = k * n[ROW_B];
    } else if (kind == FORWARD) {
        const int tap = k / n[GROUP_C];
        p.h = tap / n[S_] * n[DILATION_H];
        p.w = tap % n[S_] * n[DILATION_W];
        p.base = (p.h * n[W_] + p.w) * n[C_] + k % n[GROUP_C];
        p.other = k;
    } else if (kind == DATA) {
        const int tap = k / n[GROUP_K];
        p.h = tap / n[S_] * n[DILATION_H];
        p.w = tap % n[S_] * n[DILATION_W];
        p.base = k % n[GROUP_K];
        p.other = (p.base * n[R_] * n[S_] + tap) * n[GROUP_C];
    } else {
        p = pixel_of(k, n[P_], n[Q_]);
        p.h = p.h * n[STRIDE_H] - n[PAD_H];
        p.w = p.w * n[STRIDE_W] - n[PAD_W];
        p.base = ((p.base * n[H_] + p.h) * n[W_] + p.w) * n[C_];
    }
    return p;
}

INLINE place column_place(int kind, const arguments *a, int j, int group) {
    place p = {0, 0, 0, 0};
    const int *n = a->n;
    if (kind == PLAIN) {
        p.base = j * n[COLUMN_B];
    } else if (kind == FORWARD) {
        p.base = (group * n[GROUP_K] + j) * n[R_] * n[S_] * n[GROUP_C];
    } else if (kind == DATA) {
        p.base = group * n[GROUP_K] * n[R_] * n[S_] * n[GROUP_C] + j;
    } else {
        const int tap = j / n[GROUP_C];
        p.h = tap / n[S_] * n[DILATION_H];
        p.w = tap % n[S_] * n[DILATION_W];
        p.base = (p.h * n[W_] + p.w) * n[C_] + group * n[GROUP_C] + j % n[GROUP_C];
    }
    return p;
}

/* An element of the left operand. */
INLINE float left(int kind, const arguments *a, GLOBAL const float *x, place row, place depth,
                  int k) {
    const int *n = a->n;
    if (kind == PLAIN)
        return x[row.base + depth.base];
    if (kind == FORWARD) {
        const int h = row.h + depth.h, w = row.w + depth.w;
        return h >= 0 && h < n[H_] && w >= 0 && w < n[W_] ? x[row.base + depth.base] : 0;
    }
    if (kind == DATA) {
        int p = row.h - depth.h, q = row.w - depth.w;
        if (p < 0 || q < 0)
            return 0;
        if (n[STRIDE_H] > 1 || n[STRIDE_W] > 1) {
            if (p % n[STRIDE_H] != 0 || q % n[STRIDE_W] != 0)
                return 0;
            p /= n[STRIDE_H];
            q /= n[STRIDE_W];
        }
        return p < n[P_] && q < n[Q_]
                   ? x[(row.base + p * n[Q_] + q) * n[Y_STEP] + depth.base]
                   : 0;
    }
    return x[k * n[Y_STEP] + row.base];
}

/* An element of the right operand. */
INLINE float right(int kind, const arguments *a, GLOBAL const float *y, place depth, place column) {
    const int *n = a->n;
    if (kind != FILTER)
        return y[column.base + depth.other];
    const int h = depth.h + column.h, w = depth.w + column.w;
    return h >= 0 && h < n[H_] && w >= 0 && w < n[W_] ? y[depth.base + column.base] : 0;
}

typedef struct {
    int m, n, first, end; /* extents of the result; of what is summed over */
    int group;
    int is_row_fast; /* neighbours of the left operand are along its rows' numbers */
    int is_column_fast;
} extents;

/* out gets row, column and sum: see the kernels below. */
INLINE void store(int kind, const arguments *a, GLOBAL float *c, GLOBAL const float *bias,
                  const extents *e, int m, int j, float sum, int part) {
    const int *n = a->n;
    if (kind == PLAIN) {
        if (n[HAS_BIAS_P])
            sum += bias[j];
        c[m * n[STEP_C] + j] = activate(n[ACTIVATION_P], a->f[0], sum);
    } else if (kind == FORWARD) {
        const int k = e->group * n[GROUP_K] + j;
        if (n[HAS_BIAS])
            sum += bias[k];
        c[m * n[Y_STEP] + k] = activate(n[ACTIVATION], a->f[0], sum);
    } else if (kind == DATA) {
        c[m * n[C_] + e->group * n[GROUP_C] + j] = sum;
    } else {
        c[((part * n[GROUPS] + e->group) * e->m + m) * e->n + j] = sum;
    }
}

INLINE void multiply(int kind, const arguments *a, GLOBAL const float *x, GLOBAL const float *y,
                     GLOBAL const float *bias, GLOBAL float *c, const extents *e, int part,
                     LOCAL float *xs, LOCAL VECTOR *ys, LOCAL place *rows, LOCAL place *columns,
                     LOCAL place *depths) {
    const int lx = LOCAL_ID(0), ly = LOCAL_ID(1), item = ly * LX + lx;
    const int m0 = GROUP_ID(1) * TILE_M, n0 = GROUP_ID(0) * TILE_N;
    VECTOR totals[PARTS_M][PARTS_N][MICRO_M][MICRO_V];
    for (int u = 0; u < PARTS_M; u++)
        for (int v = 0; v < PARTS_N; v++)
            for (int i = 0; i < MICRO_M; i++)
                for (int j = 0; j < MICRO_V; j++)
                    totals[u][v][i][j] = VECTOR_ZERO;
    for (int i = item; i < TILE_M; i += ITEMS)
        rows[i] = row_place(kind, a, m0 + i, e->group);
    for (int i = item; i < TILE_N; i += ITEMS)
        columns[i] = column_place(kind, a, n0 + i, e->group);
    for (int k0 = e->first; k0 < e->end; k0 += TILE_K) {
        const int depth = min(TILE_K, e->end - k0);
        for (int i = item; i < TILE_K; i += ITEMS)
            depths[i] = depth_place(kind, a, k0 + i);
        BARRIER;
#if ITEMS == 1 /* in the operands' order, so that a compiler makes vectors of it */
        for (int m = 0; m < TILE_M; m++) {
            const place row = rows[m];
            for (int k = 0; k < TILE_K; k++)
                xs[k * TILE_M + m] =
                    m0 + m < e->m && k < depth ? left(kind, a, x, row, depths[k], k0 + k) : 0;
        }
        for (int j = 0; j < TILE_N && n0 + j < e->n; j++) {
            const place column = columns[j];
            for (int k = 0; k < TILE_K; k++)
                ((LOCAL float *)ys)[k * TILE_N + j] =
                    k < depth ? right(kind, a, y, depths[k], column) : 0;
        }
#else
        for (int i = item; i < TILE_M * TILE_K; i += ITEMS) {
            const int m = e->is_row_fast ? i % TILE_M : i / TILE_K;
            const int k = e->is_row_fast ? i / TILE_M : i % TILE_K;
            xs[k * TILE_M + m] =
                m0 + m < e->m && k < depth ? left(kind, a, x, rows[m], depths[k], k0 + k) : 0;
        }
        for (int i = item; i < TILE_N * TILE_K; i += ITEMS) {
            const int j = e->is_column_fast ? i % TILE_N : i / TILE_K;
            const int k = e->is_column_fast ? i / TILE_N : i % TILE_K;
            ((LOCAL float *)ys)[k * TILE_N + j] =
                n0 + j < e->n && k < depth ? right(kind, a, y, depths[k], columns[j]) : 0;
        }
#endif
        BARRIER;
        for (int u = 0; u < PARTS_M; u++) {
            for (int v = 0; v < PARTS_N; v++) {
                const int row = (u * LY + ly) * MICRO_M, column = (v * LX + lx) * MICRO_V;
                if (m0 + row >= e->m || n0 + column * LANES >= e->n)
                    continue;
                VECTOR sums[MICRO_M][MICRO_V];
#pragma unroll
                for (int i = 0; i < MICRO_M; i++)
#pragma unroll
                    for (int j = 0; j < MICRO_V; j++)
                        sums[i][j] = VECTOR_ZERO;
                for (int k = 0; k < depth; k++) {
#pragma unroll
                    for (int i = 0; i < MICRO_M; i++)
#pragma unroll
                        for (int j = 0; j < MICRO_V; j++)
                            sums[i][j] = VECTOR_SCALED(
                                xs[k * TILE_M + row + i], ys[k * (TILE_N / LANES) + column + j],
                                sums[i][j]);
                }
#pragma unroll
                for (int i = 0; i < MICRO_M; i++)
#pragma unroll
                    for (int j = 0; j < MICRO_V; j++)
                        totals[u][v][i][j] = VECTOR_ADD(totals[u][v][i][j], sums[i][j]);
            }
        }
        BARRIER;
    }
    for (int u = 0; u < PARTS_M; u++) {
        for (int v = 0; v < PARTS_N; v++) {
            for (int i = 0; i < MICRO_M; i++) {
                const int m = m0 + (u * LY + ly) * MICRO_M + i;
                const int j = n0 + (v * LX + lx) * MICRO_N;
                const float *sums = (const float *)totals[u][v][i];
                for (int l = 0; m < e->m && l < MICRO_N && j + l < e->n; l++)
                    store(kind, a, c, bias, e, m, j + l, sums[l], part);
            }
        }
    }
}

#define TILES                                                                                      \
    LOCAL_ARRAY float xs[TILE_M * TILE_K];                                                         \
    LOCAL_ARRAY VECTOR ys[TILE_N / LANES * TILE_K];                                                \
    LOCAL_ARRAY place rows[TILE_M], columns[TILE_N], depths[TILE_K]

/* c = op(a) op(b) + bias, then the activation; matrix z of each operand. */
TILED_KERNEL void product(GLOBAL uchar *memory, const arguments a) {
    TILES;
    const int z = GROUP_ID(2);
    const extents e = {a.n[M_P], a.n[N_P], 0, a.n[K_P], 0, a.n[ROW_A] == 1, a.n[COLUMN_B] == 1};
    multiply(PLAIN, &a, REALS(0) + z * a.n[MATRIX_A], REALS(1) + z * a.n[MATRIX_B], REALS(2),
             REALS(3) + z * a.n[MATRIX_C], &e, 0, xs, ys, rows, columns, depths);
}

TILED_KERNEL void convolve(GLOBAL uchar *memory, const arguments a) {
    TILES;
    const extents e = {a.n[N_] * a.n[P_] * a.n[Q_], a.n[GROUP_K], 0,
                       a.n[R_] * a.n[S_] * a.n[GROUP_C], GROUP_ID(2), 0, 0};
    multiply(FORWARD, &a, REALS(0), REALS(1), REALS(2), REALS(3), &e, 0, xs, ys, rows, columns,
             depths);
}

TILED_KERNEL void convolve_data(GLOBAL uchar *memory, const arguments a) {
    TILES;
    const extents e = {a.n[N_] * a.n[H_] * a.n[W_], a.n[GROUP_C], 0,
                       a.n[R_] * a.n[S_] * a.n[GROUP_K], GROUP_ID(2), 0, 1};
    const int group = GROUP_ID(2) * a.n[GROUP_K];
    multiply(DATA, &a, REALS(0) + group, REALS(1), REALS(2), REALS(3), &e, 0, xs, ys, rows, columns,
             depths);
}

/* The sum of a chunk of pixels; parts (chunks, K, R * S * C / groups). */
TILED_KERNEL void convolve_filter(GLOBAL uchar *memory, const arguments a) {
    TILES;
    const int part = GROUP_ID(2) / a.n[GROUPS], pixels = a.n[N_] * a.n[P_] * a.n[Q_];
    const extents e = {a.n[GROUP_K], a.n[R_] * a.n[S_] * a.n[GROUP_C], part * a.n[CHUNK],
                       min(pixels, (part + 1) * a.n[CHUNK]), GROUP_ID(2) % a.n[GROUPS], 1, 1};
    multiply(FILTER, &a, REALS(1), REALS(0), REALS(2), REALS(3), &e, part, xs, ys, rows, columns,
             depths);
}

/* y (n0) = the sum of n1 parts, in order. */
KERNEL void add_parts(GLOBAL uchar *memory, const arguments a) {
    const int i = ID(0);
    exact sum = {0, 0};
    if (i >= a.n[0])
        return;
    for (int part = 0; part < a.n[1]; part++)
        sum = exact_add(sum, REALS(0)[part * a.n[0] + i]);
    REALS(1)[i] = exact_value(sum);
}

/* ---- windows: item x is a channel of a column of an image, y a row of one ---- */

/* Image, row, column and channel of an item; false: there is none. */
typedef struct {
    int image, h, w, c;
} spot;

INLINE int spot_of(int columns, int channels, int rows, int images, spot *at) {
    at->c = ID(0) % channels;
    at->w = ID(0) / channels;
    at->h = ID(1) % rows;
    at->image = ID(1) / rows;
    return at->w < columns && at->image < images;
}

#define OUTPUT_SPOT(channels)                                                                      \
    spot at;                                                                                       \
    if (!spot_of(a.n[Q_], channels, a.n[P_], a.n[N_], &at))                                        \
        return;                                                                                    \
    const int h0 = at.h * a.n[STRIDE_H] - a.n[PAD_H], w0 = at.w * a.n[STRIDE_W] - a.n[PAD_W];      \
    const int out = (at.image * a.n[P_] + at.h) * a.n[Q_] + at.w

/* The windows that hold an input are rows p0 to p1 and columns q0 to q1 of the output, of which
 * dilated windows skip some. */
#define INPUT_SPOT                                                                                 \
    spot at;                                                                                       \
    if (!spot_of(a.n[W_], a.n[C_], a.n[H_], a.n[N_], &at))                                         \
        return;                                                                                    \
    const int h0 = at.h + a.n[PAD_H], w0 = at.w + a.n[PAD_W];                                      \
    const int p0 = max(0, h0 - (a.n[R_] - 1) * a.n[DILATION_H] + a.n[STRIDE_H] - 1) /              \
                   a.n[STRIDE_H];                                                                  \
    const int q0 = max(0, w0 - (a.n[S_] - 1) * a.n[DILATION_W] + a.n[STRIDE_W] - 1) /              \
                   a.n[STRIDE_W];                                                                  \
    const int p1 = min(h0 / a.n[STRIDE_H], a.n[P_] - 1);                                           \
    const int q1 = min(w0 / a.n[STRIDE_W], a.n[Q_] - 1)

#define INPUT_TAP(tap)                                                                             \
    const int r = h0 - p * a.n[STRIDE_H], s = w0 - q * a.n[STRIDE_W];                              \
    if ((a.n[DILATION_H] > 1 && r % a.n[DILATION_H]) || (a.n[DILATION_W] > 1 && s % a.n[DILATION_W])) \
        continue;                                                                                  \
    const int tap = r / a.n[DILATION_H] * a.n[S_] + s / a.n[DILATION_W]

#define EACH_TAP                                                                                   \
    for (int r = 0, tap = 0; r < a.n[R_]; r++)                                                     \
        for (int s = 0; s < a.n[S_]; s++, tap++)

/* Where a tap meets the image of channel `channel`; -1: outside of it. */
INLINE int input_at(const arguments *a, int image, int h, int w, int channel) {
    const int *n = a->n;
    return h >= 0 && h < n[H_] && w >= 0 && w < n[W_]
               ? ((image * n[H_] + h) * n[W_] + w) * n[C_] + channel
               : -1;
}

/* Depthwise: a channel a group, one filter each. */
KERNEL void depthwise(GLOBAL uchar *memory, const arguments a) {
    OUTPUT_SPOT(a.n[K_]);
    const int channel = at.c / a.n[GROUP_K], taps = a.n[R_] * a.n[S_];
    float sum = 0;
    EACH_TAP {
        const int i = input_at(&a, at.image, h0 + r * a.n[DILATION_H], w0 + s * a.n[DILATION_W],
                               channel);
        if (i >= 0)
            sum = fma(REALS(0)[i], REALS(1)[at.c * taps + tap], sum);
    }
    if (a.n[HAS_BIAS])
        sum += REALS(2)[at.c];
    REALS(3)[out * a.n[Y_STEP] + at.c] = activate(a.n[ACTIVATION], a.f[0], sum);
}

KERNEL void depthwise_data(GLOBAL uchar *memory, const arguments a) {
    INPUT_SPOT;
    const int taps = a.n[R_] * a.n[S_];
    float sum = 0;
    for (int p = p0; p <= p1; p++) {
        for (int q = q0; q <= q1; q++) {
            INPUT_TAP(tap);
            const int out = ((at.image * a.n[P_] + p) * a.n[Q_] + q) * a.n[Y_STEP];
            for (int k = at.c * a.n[GROUP_K]; k < (at.c + 1) * a.n[GROUP_K]; k++)
                sum = fma(REALS(0)[out + k], REALS(1)[k * taps + tap], sum);
        }
    }
    REALS(3)[input_at(&a, at.image, at.h, at.w, at.c)] = sum;
}

/* A chunk of the pixels, for a tap of channel x: item y is chunk * taps + tap. */
KERNEL void depthwise_filter(GLOBAL uchar *memory, const arguments a) {
    const int taps = a.n[R_] * a.n[S_], k = ID(0), tap = ID(1) % taps, part = ID(1) / taps;
    const int pixels = a.n[N_] * a.n[P_] * a.n[Q_];
    if (k >= a.n[K_] || part * a.n[CHUNK] >= pixels)
        return;
    exact sum = {0, 0};
    for (int pixel = part * a.n[CHUNK]; pixel < min(pixels, (part + 1) * a.n[CHUNK]); pixel++) {
        const place at = pixel_of(pixel, a.n[P_], a.n[Q_]);
        const int i = input_at(&a, at.base,
                               at.h * a.n[STRIDE_H] - a.n[PAD_H] + tap / a.n[S_] * a.n[DILATION_H],
                               at.w * a.n[STRIDE_W] - a.n[PAD_W] + tap % a.n[S_] * a.n[DILATION_W],
                               k / a.n[GROUP_K]);
        if (i >= 0)
            sum = exact_add(sum, REALS(1)[pixel * a.n[Y_STEP] + k] * REALS(0)[i]);
    }
    REALS(3)[(part * a.n[K_] + k) * taps + tap] = exact_value(sum);
}

/* ---- pools: the filter's extents are the window's; K = C ---- */

enum { INSIDE = HAS_BIAS, BY_TAP = CHUNK };

KERNEL void pool_largest(GLOBAL uchar *memory, const arguments a) {
    OUTPUT_SPOT(a.n[C_]);
    float best = -INFINITY;
    int best_tap = -1;
    EACH_TAP {
        const int i =
            input_at(&a, at.image, h0 + r * a.n[DILATION_H], w0 + s * a.n[DILATION_W], at.c);
        const float x = i >= 0 ? REALS(0)[i] : 0;
        const int is_better = i >= 0 && (best_tap < 0 || x > best || isnan(x));
        best = is_better ? x : best;
        best_tap = is_better ? tap : best_tap;
    }
    REALS(3)[out * a.n[Y_STEP] + at.c] = best_tap < 0 ? 0 : best;
    TAPS(4)[out * a.n[C_] + at.c] = (ushort)max(best_tap, 0);
}

/* What a sum over a window is multiplied with to be its mean. */
INLINE float mean_factor(const arguments *a, int p, int q) {
    int rows = 0, columns = 0;
    if (!a->n[INSIDE])
        return 1 / (float)(a->n[R_] * a->n[S_]);
    for (int r = 0; r < a->n[R_]; r++) {
        const int h = p * a->n[STRIDE_H] - a->n[PAD_H] + r * a->n[DILATION_H];
        rows += h >= 0 && h < a->n[H_];
    }
    for (int s = 0; s < a->n[S_]; s++) {
        const int w = q * a->n[STRIDE_W] - a->n[PAD_W] + s * a->n[DILATION_W];
        columns += w >= 0 && w < a->n[W_];
    }
    return 1 / (float)max(rows * columns, 1);
}

KERNEL void pool_mean(GLOBAL uchar *memory, const arguments a) {
    OUTPUT_SPOT(a.n[C_]);
    exact sum = {0, 0};
    EACH_TAP {
        const int i =
            input_at(&a, at.image, h0 + r * a.n[DILATION_H], w0 + s * a.n[DILATION_W], at.c);
        sum = exact_add(sum, i >= 0 ? REALS(0)[i] : 0);
    }
    REALS(3)[out * a.n[Y_STEP] + at.c] = exact_value(sum) * mean_factor(&a, at.h, at.w);
}

/* Each input gathers from the windows that hold it: by taps (largest) or means. */
KERNEL void pool_backward(GLOBAL uchar *memory, const arguments a) {
    INPUT_SPOT;
    float sum = 0;
    for (int p = p0; p <= p1; p++) {
        for (int q = q0; q <= q1; q++) {
            INPUT_TAP(tap);
            const int out = (at.image * a.n[P_] + p) * a.n[Q_] + q;
            const float dy = REALS(0)[out * a.n[Y_STEP] + at.c];
            if (a.n[BY_TAP])
                sum += TAPS(1)[out * a.n[C_] + at.c] == tap ? dy : 0;
            else
                sum += mean_factor(&a, p, q) * dy;
        }
    }
    REALS(3)[input_at(&a, at.image, at.h, at.w, at.c)] = sum;
}
