/* Updates in place, by the same formulas as on the host (kernels/ref/optimizers.h), and the factor
 * that clips gradients. n0: elements; the numbers of a step are operand 0, with the learning rate
 * times f0. */

/* kernels/arithmetic.h has the same order. */
enum { RATE, MOMENTUM, DECAY, BETA1, BETA2, EPSILON, CORRECTION1, CORRECTION2, OF_GRADIENT };
enum { HAS_FACTOR = 1, HAS_STATE, IS_OTHER }; /* IS_OTHER: Nesterov's; decoupled decay */

INLINE float gradient_factor(GLOBAL const float *hyper, GLOBAL const float *factor, int has) {
    return has ? factor[0] * hyper[OF_GRADIENT] : hyper[OF_GRADIENT];
}

/* Operands: hyper, factor, gradient, w, momentum. */
KERNEL void sgd(GLOBAL uchar *memory, const arguments a) {
    const int i = ID(0);
    if (i >= a.n[0])
        return;
    GLOBAL const float *hyper = REALS(0);
    const float factor = gradient_factor(hyper, REALS(1), a.n[HAS_FACTOR]);
    const float rate = hyper[RATE] * a.f[0], momentum = hyper[MOMENTUM];
    const float w = REALS(3)[i], g = REALS(2)[i] * factor + hyper[DECAY] * w;
    float step = g;
    if (a.n[HAS_STATE]) {
        const float m = momentum * REALS(4)[i] + g;
        REALS(4)[i] = m;
        step = a.n[IS_OTHER] ? g + momentum * m : m;
    }
    REALS(3)[i] = w - rate * step;
}

/* Operands: hyper, factor, gradient, w, m, v. */
KERNEL void adam(GLOBAL uchar *memory, const arguments a) {
    const int i = ID(0);
    if (i >= a.n[0])
        return;
    GLOBAL const float *hyper = REALS(0);
    const float factor = gradient_factor(hyper, REALS(1), a.n[HAS_FACTOR]);
    const float rate = hyper[RATE] * a.f[0], decay = hyper[DECAY];
    const float shrink = a.n[IS_OTHER] ? rate * decay : 0, coupled = a.n[IS_OTHER] ? 0 : decay;
    const float spread = 1 / sqrt(hyper[CORRECTION2]);
    const float w = REALS(3)[i], g = REALS(2)[i] * factor + coupled * w;
    const float m = hyper[BETA1] * REALS(4)[i] + (1 - hyper[BETA1]) * g;
    const float v = hyper[BETA2] * REALS(5)[i] + (1 - hyper[BETA2]) * g * g;
    REALS(4)[i] = m;
    REALS(5)[i] = v;
    REALS(3)[i] = w - shrink * w -
                  rate / hyper[CORRECTION1] * m / (sqrt(v) * spread + hyper[EPSILON]);
}

/* Running mean and variance (2, 3) towards the batch's mean and inverse deviation (0, 1). f: epsilon,
 * momentum, what makes the variance unbiased. */
KERNEL void move_statistics(GLOBAL uchar *memory, const arguments a) {
    const int i = ID(0);
    if (i >= a.n[0])
        return;
    const float deviation = REALS(1)[i], momentum = a.f[1];
    const float variance = fmax(1 / (deviation * deviation) - a.f[0], 0.0f) * a.f[2];
    REALS(2)[i] = (1 - momentum) * REALS(2)[i] + momentum * REALS(0)[i];
    REALS(3)[i] = (1 - momentum) * REALS(3)[i] + momentum * variance;
}

/* Sums of the squares of every n1-th of n0 numbers (operand 0), to column n2 of rows of n3. */
KERNEL void sum_squares(GLOBAL uchar *memory, const arguments a) {
    const int first = ID(0);
    exact sum = {0, 0};
    if (first >= a.n[1])
        return;
    for (int i = first; i < a.n[0]; i += a.n[1])
        sum = exact_add(sum, REALS(0)[i] * REALS(0)[i]);
    REALS(1)[first * a.n[3] + a.n[2]] = exact_value(sum);
}

/* min(1, f0 / norm): operands: hyper, n0 sums of squares, the factor. NaN is no reason to clip. */
KERNEL void clip_factor(GLOBAL uchar *memory, const arguments a) {
    exact sum = {0, 0};
    if (ID(0) > 0)
        return;
    for (int i = 0; i < a.n[0]; i++)
        sum = exact_add(sum, REALS(1)[i]);
    const float norm = sqrt(exact_value(sum)) * fabs(REALS(0)[OF_GRADIENT]);
    REALS(2)[0] = norm > a.f[0] ? a.f[0] / norm : 1;
}
