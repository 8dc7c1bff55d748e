/* What all kernels share. Every kernel gets the memory of its space and one structure: p are bytes
 * from the memory's begin, n whole numbers, f reals (device/gpu/state.h). The order of every sum
 * follows from the shapes alone. The words in capitals are those of a language's prelude. */

typedef struct {
    ulong p[12];
    int n[32];
    float f[8];
} arguments;

#define REALS(i) ((GLOBAL float *)(memory + a.p[i]))
#define INTS(i)  ((GLOBAL int *)(memory + a.p[i]))
#define TAPS(i)  ((GLOBAL ushort *)(memory + a.p[i]))
#define BYTES(i) ((GLOBAL uchar *)(memory + a.p[i]))

/* qn_activation_kind. */
enum { NONE, RELU, RELU6, LEAKY_RELU, TANH, SIGMOID };

/* NaN stays NaN. */
INLINE float activate(int kind, float slope, float x) {
    switch (kind) {
    case RELU:
        return x < 0 ? 0 : x;
    case RELU6:
        x = x < 0 ? 0 : x;
        return x > 6 ? 6 : x;
    case LEAKY_RELU:
        return x > 0 ? x : slope * x;
    case TANH:
        return tanh(x);
    case SIGMOID:
        return 1 / (1 + exp(-x));
    }
    return x;
}

/* dy times the derivative where the output is y. */
INLINE float derive(int kind, float slope, float y, float dy) {
    switch (kind) {
    case RELU:
        return y > 0 ? dy : 0;
    case RELU6:
        return y > 0 && y < 6 ? dy : 0;
    case LEAKY_RELU:
        return y > 0 ? dy : slope * dy;
    case TANH:
        return dy * (1 - y * y);
    case SIGMOID:
        return dy * (y * (1 - y));
    }
    return dy;
}

/* A sum that carries its rounding errors along (Neumaier 1974). */
typedef struct {
    float sum, rest;
} exact;

INLINE exact exact_add(exact e, float x) {
    const float sum = e.sum + x;
    e.rest += fabs(e.sum) >= fabs(x) ? (e.sum - sum) + x : (x - sum) + e.sum;
    e.sum = sum;
    return e;
}

INLINE float exact_value(exact e) {
    return isfinite(e.sum) ? e.sum + e.rest : e.sum;
}
