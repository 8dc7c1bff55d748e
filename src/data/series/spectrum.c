/* The spectrum of a sound; see wav.h. */
#include "base/status.h"
#include "data/series/wav.h"

#include <math.h>
#include <string.h>

enum { BANDS = QN_SOUND_BANDS, STEPS = QN_SOUND_STEPS };
static const double lowest = 60, highest = 7600, step_seconds = 0.016, quiet = 1e-6;

/* What the steps of a wave are made with. */
typedef struct spectrum {
    int n, window, hop;    /* numbers of a transform, those of them that are not 0, and of a step */
    float *turn;           /* (n) cos and sin of the n / 2 parts of a turn */
    float *shape;          /* (window) of Hann */
    float *z;              /* (2 n) complex numbers */
    float edge[BANDS + 2]; /* where bands begin, are highest and end, in places of a transform */
} spectrum;

static double mel_of(double hz) {
    return log(1 + hz / 700);
}

static void prepare(spectrum *s, int rate) {
    const double pi = 3.14159265358979323846;
    for (int i = 0; i < s->n / 2; i++) {
        s->turn[2 * i] = (float)cos(2 * pi * i / s->n);
        s->turn[2 * i + 1] = (float)-sin(2 * pi * i / s->n);
    }
    for (int i = 0; i < s->window; i++)
        s->shape[i] = (float)(0.5 - 0.5 * cos(2 * pi * (i + 0.5) / s->window));
    const double from = mel_of(lowest), to = mel_of(highest);
    for (int b = 0; b < BANDS + 2; b++)
        s->edge[b] = (float)(700 * (exp(from + (to - from) * b / (BANDS + 1)) - 1) * s->n / rate);
}

/* Complex numbers to their Fourier transform in place (Cooley and Tukey 1965). */
static void transform(const spectrum *s) {
    float *z = s->z;
    for (int i = 1, j = 0; i < s->n; i++) {
        int bit = s->n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        for (int part = 0; part < 2 && i < j; part++) {
            const float held = z[2 * i + part];
            z[2 * i + part] = z[2 * j + part];
            z[2 * j + part] = held;
        }
    }
    for (int half = 1; half < s->n; half *= 2)
        for (int i = 0; i < s->n; i += 2 * half)
            for (int k = 0; k < half; k++) {
                const float *t = s->turn + 2 * (k * (s->n / 2 / half));
                float *a = z + 2 * (i + k), *b = a + 2 * half;
                const float re = b[0] * t[0] - b[1] * t[1], im = b[0] * t[1] + b[1] * t[0];
                b[0] = a[0] - re;
                b[1] = a[1] - im;
                a[0] += re;
                a[1] += im;
            }
}

/* Power of every band: triangles that overlap by half. A band between two places has a part of
 * both. */
static void weigh_bands(const spectrum *s, float *power) {
    for (int b = 0; b < BANDS; b++) {
        const float begin = s->edge[b], middle = s->edge[b + 1], end = s->edge[b + 2];
        const float least = middle - begin < 1 ? middle - 1 : begin;
        const float most = end - middle < 1 ? middle + 1 : end;
        power[b] = 0;
        for (int i = (int)ceilf(least); i <= (int)most && i <= s->n / 2; i++) {
            const float at = (float)i;
            const float part =
                at < middle ? (at - least) / (middle - least) : (most - at) / (most - middle);
            const float re = s->z[2 * i], im = s->z[2 * i + 1];
            if (i >= 0 && part > 0)
                power[b] += part * (re * re + im * im);
        }
    }
}

static void measure_step(const spectrum *s, const float *wave, size_t n, size_t begin,
                         float *power) {
    memset(s->z, 0, 2 * (size_t)s->n * sizeof *s->z);
    for (size_t i = 0; i < (size_t)s->window && begin + i < n; i++)
        s->z[2 * i] = wave[begin + i] * s->shape[i];
    transform(s);
    weigh_bands(s, power);
}

/* The first of the STEPS steps that have most power together. */
static size_t find_loudest(const float *power, size_t n_steps) {
    double sum = 0, most = -1;
    size_t best = 0;
    for (size_t i = 0; i < n_steps; i++)
        for (int b = 0; b < BANDS; b++) {
            sum += (double)power[i * BANDS + (size_t)b];
            sum -= i >= STEPS ? (double)power[(i - STEPS) * BANDS + (size_t)b] : 0;
            if (b == BANDS - 1 && sum > most * (1 + 1e-9)) {
                most = sum;
                best = i + 1 > STEPS ? i + 1 - STEPS : 0;
            }
        }
    return best;
}

static void to_bytes(const float *power, size_t n_steps, uint8_t *bytes) {
    double most = 0;
    for (size_t i = 0; i < n_steps * BANDS; i++)
        most = (double)power[i] > most ? (double)power[i] : most;
    memset(bytes, 0, STEPS * BANDS);
    for (size_t i = 0; i < n_steps * BANDS && most > 1e-20; i++) {
        const double part = (double)power[i] / most;
        bytes[i] = part > quiet ? (uint8_t)(255 * (1 - log(part) / log(quiet)) + 0.5) : 0;
    }
}

static qn_status describe(qn_arena *arena, const float *wave, size_t n, int rate, uint8_t *bytes) {
    spectrum s = {.n = 1,
                  .window = (int)(2 * step_seconds * rate + 0.5),
                  .hop = (int)(step_seconds * rate + 0.5)};
    while (s.n < s.window)
        s.n *= 2;
    const size_t n_steps = (n + (size_t)s.hop - 1) / (size_t)s.hop;
    s.turn = qn_arena_allocate(arena, (size_t)s.n, sizeof *s.turn);
    s.shape = qn_arena_allocate(arena, (size_t)s.window, sizeof *s.shape);
    s.z = qn_arena_allocate(arena, 2 * (size_t)s.n, sizeof *s.z);
    float *power = qn_arena_allocate(arena, n_steps, BANDS * sizeof *power);
    if (!s.turn || !s.shape || !s.z || !power)
        return QN_ERROR_MEMORY;
    prepare(&s, rate);
    for (size_t i = 0; i < n_steps; i++)
        measure_step(&s, wave, n, i * (size_t)s.hop, power + i * BANDS);
    const size_t first = find_loudest(power, n_steps);
    to_bytes(power + first * BANDS, n_steps - first < STEPS ? n_steps - first : STEPS, bytes);
    return QN_OK;
}

qn_status qn_sound_describe(const qn_allocator *allocator, const float *wave, size_t n, int rate,
                            uint8_t *bytes) {
    qn_arena arena;
    qn_arena_init(&arena, allocator);
    const qn_status status = describe(&arena, wave, n, rate, bytes);
    qn_arena_deinit(&arena);
    return status;
}
