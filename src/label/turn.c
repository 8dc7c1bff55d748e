/* See turn.h. */
#include "label/turn.h"

#include "base/fmath.h"
#include "label/clusters.h"
#include "quern/label.h"

static const float most = 1e4f;   /* of the map's numbers */
static const double shared = 0.8; /* of a covariance: the map hardly widens what is narrowest */

void qn_turn_apply(const float *lower, int d, float *x) {
    for (int i = d - 1; i >= 0; i--) {
        float sum = 0;
        for (int j = 0; j <= i; j++)
            sum += lower[i * d + j] * x[j];
        x[i] = sum;
    }
}

void qn_turn_undo(const float *lower, int d, float *x) {
    for (int i = 0; i < d; i++) {
        float rest = x[i];
        for (int j = 0; j < i; j++)
            rest -= lower[i * d + j] * x[j];
        x[i] = rest / lower[i * d + i];
    }
}

/* Products to covariances, those between two features made smaller. A feature that hardly changes
 * counts like the others. */
static void shrink(double *c, double n, int d) {
    const double kept = shared * n / (n + d);
    double mean = 0.0;
    for (int i = 0; i < d; i++)
        mean += c[i * d + i] / n / d;
    for (int i = 0; i < d; i++)
        for (int j = 0; j <= i; j++)
            c[i * d + j] *= (i == j ? 1.0 : kept) / n;
    for (int i = 0; i < d; i++) {
        if (c[i * d + i] > 1e-3 * mean)
            continue;
        for (int j = 0; j < d; j++)
            c[i > j ? i * d + j : j * d + i] = i == j ? mean : 0.0;
    }
}

/* The lower triangle to that of its root (Cholesky). */
static bool take_root(double *c, int d) {
    for (int i = 0; i < d; i++)
        for (int j = 0; j <= i; j++) {
            double sum = c[i * d + j];
            for (int k = 0; k < j; k++)
                sum -= c[i * d + k] * c[j * d + k];
            if (i == j && !(sum > 1e-12))
                return false;
            c[i * d + j] = i == j ? __builtin_sqrt(sum) : sum / c[j * d + j];
        }
    return true;
}

/* Column j of the inverse of the root. */
static void invert_column(const double *c, int d, int j, double scale, float *lower) {
    double column[QN_LABEL_MAX_FEATURES];
    for (int i = j; i < d; i++) {
        double sum = i == j ? 1.0 : 0.0;
        for (int k = j; k < i; k++)
            sum -= c[i * d + k] * column[k];
        column[i] = sum / c[i * d + i];
        lower[i * d + j] = (float)(column[i] * scale);
    }
    for (int i = 0; i < j; i++)
        lower[i * d + j] = 0;
}

bool qn_turn_make(double *products, double n, int d, float *lower) {
    double scale = 0.0;
    if (!(n > 0))
        return false;
    shrink(products, n, d);
    for (int i = 0; i < d; i++)
        scale += 0.5 * (double)qn_ln((float)products[i * d + i]) / d;
    if (!take_root(products, d))
        return false;
    for (int j = 0; j < d; j++)
        invert_column(products, d, j, qn_exp_f64(scale), lower);
    for (int i = 0; i < d * d; i++)
        if (!(lower[i] <= most && lower[i] >= -most) || (i % (d + 1) == 0 && !(lower[i] > 1e-6f)))
            return false;
    return true;
}

float qn_turn_log_volume(const float *lower, int d) {
    float sum = 0;
    for (int i = 0; i < d; i++)
        sum += qn_ln(lower[i * d + i]);
    return sum;
}
