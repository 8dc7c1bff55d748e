/* Rotary positions (Su et al. 2021) of language models: the angles by which pairs of a head's
 * numbers are turned, with the scalings of longer contexts that files ask for: linear, Llama 3's
 * (frequencies below a wavelength divided), and factors of each frequency (GGUF's rope_freqs, and
 * longrope with its short and long ones). Angles are computed in double precision. Leaves out:
 * yarn and dynamic scaling, which are refused. */
#ifndef QN_MODELS_LANGUAGE_ROTARY_H
#define QN_MODELS_LANGUAGE_ROTARY_H

#include "quern/base.h"

struct qn_language;

typedef enum qn_language_scaling {
    QN_SCALED_PLAIN,
    QN_SCALED_LINEAR,
    QN_SCALED_LLAMA3,
    QN_SCALED_LONG, /* factors of short texts up to the original context, else those of long ones */
} qn_language_scaling;

typedef struct qn_language_rotary {
    int64_t width;                   /* numbers of a head that are turned, from the first */
    double base, local_base;         /* of layers that attend to all; to a window */
    qn_language_scaling scaling;     /* of the former only, where the two differ */
    bool is_local_scaled;            /* of the latter too */
    double factor, low, high;        /* of the scalings above */
    double original;                 /* tokens of context before scaling; 0: unknown */
    double attention;                /* cosines and sines are multiplied by it */
    const float *short_by, *long_by; /* (width / 2) or null: frequencies are divided by them */
} qn_language_rotary;

/* Fills language->rotary by the files; what it cannot be told or done is a problem of the model. */
qn_status qn_language_read_rotary(struct qn_language *language);

/* Cosines and sines (n, width / 2) of positions from first on, in texts of so many tokens. */
void qn_language_fill_rotary(const qn_language_rotary *rotary, bool is_local, int64_t first,
                             int64_t n, int64_t length, float *cosines, float *sines);

#endif
