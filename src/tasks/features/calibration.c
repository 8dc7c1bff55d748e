/* See calibration.h. */
#include "tasks/features/calibration.h"

#include <math.h>

void qn_calibration_add(qn_calibration *c, double chance, bool is_right) {
    const int at = chance > 0 && chance < 1 ? (int)(chance * QN_CALIBRATION_BINS) : 0;
    const int bin = chance >= 1 ? QN_CALIBRATION_BINS - 1 : at;
    c->chance[bin] += chance;
    c->right[bin] += is_right;
    c->n++;
    c->n_sure += chance >= c->unsure;
    c->n_sure_right += chance >= c->unsure && is_right;
}

double qn_calibration_error(const qn_calibration *c) {
    double sum = 0;
    for (int b = 0; b < QN_CALIBRATION_BINS; b++)
        sum += fabs(c->right[b] - c->chance[b]);
    return c->n > 0 ? sum / (double)c->n : 0;
}
