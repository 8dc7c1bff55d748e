/* Elementwise kernels over rows (n1 of n0 elements), whose operands lie n2, n3 and n4 elements from
 * row to row; and those that move elements. Item x is a column, item y a row. */

enum { COLUMNS, ROWS, STEP0, STEP1, STEP2, KIND };

#define EACH_ELEMENT                                                                               \
    const int j = ID(0), i = ID(1);                                                                \
    if (j >= a.n[COLUMNS] || i >= a.n[ROWS])                                                       \
        return;                                                                                    \
    const int at0 = i * a.n[STEP0] + j, at1 = i * a.n[STEP1] + j, at2 = i * a.n[STEP2] + j

KERNEL void activation(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    (void)at2;
    REALS(1)[at1] = activate(a.n[KIND], a.f[0], REALS(0)[at0]);
}

KERNEL void activation_backward(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    REALS(2)[at2] = derive(a.n[KIND], a.f[0], REALS(0)[at0], REALS(1)[at1]);
}

KERNEL void add(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    REALS(2)[at2] = activate(a.n[KIND], a.f[0], REALS(0)[at0] + REALS(1)[at1]);
}

KERNEL void multiply_all(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    REALS(2)[at2] = REALS(0)[at0] * REALS(1)[at1];
}

KERNEL void scale(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    (void)at2;
    REALS(1)[at1] = a.f[0] * REALS(0)[at0];
}

/* A row is added to every row. */
KERNEL void bias(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    REALS(2)[at2] = REALS(0)[at0] + REALS(1)[j];
    (void)at1;
}

/* The number of operand 0, or, without one, f0, in every element. */
KERNEL void broadcast(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    REALS(1)[at1] = a.n[KIND] ? a.f[0] * REALS(0)[0] : a.f[0];
    (void)at0;
    (void)at2;
}

INLINE float normal_below(float x) {
    return 0.5f * erfc(-x * 0.70710678118654752440f);
}

KERNEL void gelu(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    const float x = REALS(0)[at0];
    REALS(1)[at1] = x * normal_below(x);
    (void)at2;
}

KERNEL void gelu_backward(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    const float x = REALS(0)[at0];
    REALS(2)[at2] =
        REALS(1)[at1] * (normal_below(x) + x * (0.39894228040143267794f * exp(-0.5f * x * x)));
}

/* Philox 4x32 with 10 rounds (Salmon et al. 2011), as on the host: word `at` of the stream. */
INLINE uint random_word(uint2 key, uint2 step, ulong at) {
    const ulong block = at / 4;
    uint x0 = (uint)block, x1 = (uint)(block >> 32), x2 = step.x, x3 = step.y;
    for (int round = 0; round < 10; round++) {
        const uint high0 = mul_hi(0xd2511f53u, x0), low0 = 0xd2511f53u * x0;
        const uint high1 = mul_hi(0xcd9e8d57u, x2), low1 = 0xcd9e8d57u * x2;
        x0 = high1 ^ x1 ^ key.x;
        x1 = low1;
        x2 = high0 ^ x3 ^ key.y;
        x3 = low0;
        key.x += 0x9e3779b9u;
        key.y += 0xbb67ae85u;
    }
    const uint words[4] = {x0, x1, x2, x3};
    return words[at % 4];
}

/* p2, p3, p4: key and step of the stream, its first word. */
KERNEL void dropout(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    const uint2 key = {(uint)a.p[2], (uint)(a.p[2] >> 32)};
    const uint2 step = {(uint)a.p[3], (uint)(a.p[3] >> 32)};
    const uint word = random_word(key, step, a.p[4] + (ulong)at0);
    const float uniform = (float)(word >> 8) * 5.9604644775390625e-8f;
    REALS(1)[at1] = uniform < a.f[0] ? 0 : REALS(0)[at0] * a.f[1];
    (void)at2;
}

/* Rows of bytes from one place to another, 4 bytes or 1 at a time (n5). */
KERNEL void copy_rows(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    if (a.n[KIND])
        INTS(1)[at1] = INTS(0)[at0];
    else
        BYTES(1)[at1] = BYTES(0)[at0];
    (void)at2;
}

/* Columns n6 to n7 of wider rows, zero outside of them. */
KERNEL void widen(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    const int inside = j >= a.n[6] && j < a.n[7];
    REALS(1)[at1] = inside ? REALS(0)[i * a.n[STEP0] + j - a.n[6]] : 0;
    (void)at0;
    (void)at2;
}

/* y in the order of x's axes: n1 axes, their extents in n2 to n7, strides in x in n8 to n13. */
KERNEL void transpose(GLOBAL uchar *memory, const arguments a) {
    const int i = ID(0);
    int from = 0, rest = i;
    if (i >= a.n[0])
        return;
    for (int axis = a.n[1] - 1; axis >= 0; axis--) {
        from += rest % a.n[2 + axis] * a.n[8 + axis];
        rest /= a.n[2 + axis];
    }
    REALS(1)[i] = REALS(0)[from];
}

/* Rows of a table of n6 rows; an index of INT_MIN is none. */
KERNEL void embed(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    const int index = INTS(1)[i];
    REALS(2)[at2] =
        index == INT_MIN ? NAN : REALS(0)[clamp(index, 0, a.n[6] - 1) * a.n[COLUMNS] + j];
    (void)at0;
    (void)at1;
}

/* A column of the table's gradient (n0 columns, n1 rows of the table) from n6 rows. */
KERNEL void embed_backward(GLOBAL uchar *memory, const arguments a) {
    EACH_ELEMENT;
    float sum = 0;
    for (int row = 0; row < a.n[6]; row++) {
        const int index = INTS(1)[row];
        if (index != INT_MIN && clamp(index, 0, a.n[ROWS] - 1) == i)
            sum += REALS(0)[row * a.n[COLUMNS] + j];
    }
    REALS(2)[at2] = sum;
    (void)at0;
    (void)at1;
}
