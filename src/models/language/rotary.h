/* Rotary positions (Su et al. 2021) of language models: the angles by which pairs of a head's
 * numbers are turned, with the scalings of longer contexts that files ask for: linear, Llama 3's
 * (frequencies below a wavelength divided), and factors of each frequency (GGUF's rope_freqs, and
 * longrope with its short and long ones). Angles are computed in double precision. Leaves out:
 * yarn and dynamic scaling, which are refused. */
#ifndef QN_MODELS_LANGUAGE_ROTARY_H
#define QN_MODELS_LANGUAGE_ROTARY_H

#include "quern/base.h"

struct qn_language;

typedef enum qn_rotary_scaling {
    QN_ROTARY_PLAIN,
    QN_ROTARY_LINEAR,
    QN_ROTARY_LLAMA3,
    QN_ROTARY_LONG, /* factors of short texts up to the original context, else those of long ones */
} qn_rotary_scaling;

typedef struct qn_rotary {
    int64_t width;                   /* numbers of a head that are turned, from the first */
    double base, local_base;         /* of layers that attend to all; to a window */
    qn_rotary_scaling scaling;       /* of the former only, where the two differ */
    bool is_local_scaled;            /* of the latter too */
    double factor, low, high;        /* of the scalings above */
    double original;                 /* tokens of context before scaling; 0: unknown */
    double attention;                /* cosines and sines are multiplied by it */
    const float *short_by, *long_by; /* (width / 2) or null: frequencies are divided by them */
} qn_rotary;

/* Fills language->rotary by the files; what it cannot be told or done is a problem of the model. */
qn_status qn_rotary_read(struct qn_language *language);

/* Cosines and sines (n, width / 2) of positions from first on, in texts of so many tokens. */
void qn_rotary_fill(const qn_rotary *rotary, bool is_local, int64_t first, int64_t n,
                    int64_t length, float *cosines, float *sines);

#endif
