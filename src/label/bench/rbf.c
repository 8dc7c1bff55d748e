/* See rbf.h. */
#include "label/bench/rbf.h"

#include <math.h>

static double uniform(qn_rbf *r) {
    return ((double)qn_rng_word(r->rng, r->drawn++) + 0.5) * 0x1p-32;
}

static double normal(qn_rbf *r) {
    const double length = sqrt(-2.0 * log(uniform(r)));
    return length * cos(6.283185307179586 * uniform(r));
}

static int drawn_count(qn_rbf *r, int given, int least, int most) {
    const double u = uniform(r);
    return given ? given : least + (int)(u * (most - least + 1));
}

/* Draws all centroids; false: the known classes are too rare or too common. */
static bool draw_centroids(qn_rbf *r) {
    bool has[QN_RBF_CLASSES] = {false};
    double all = 0.0, known = 0.0;
    for (int k = 0; k < r->n_centroids; k++) {
        for (int j = 0; j < r->n_features; j++)
            r->centre[k][j] = uniform(r);
        r->class_of[k] = (int)(uniform(r) * r->n_classes);
        r->deviation[k] = uniform(r);
        r->weight[k] = uniform(r);
        has[r->class_of[k]] = true;
        all += r->weight[k];
        known += r->class_of[k] < QN_RBF_KNOWN ? r->weight[k] : 0.0;
    }
    for (int k = 0; k < r->n_centroids; k++)
        r->weight[k] /= all;
    r->new_share = 1.0 - known / all;
    return has[0] && has[1] && r->new_share > 0.1 && r->new_share < 0.9;
}

static void draw_direction(qn_rbf *r, double *to) {
    double square = 0.0;
    for (int j = 0; j < r->n_features; j++) {
        to[j] = normal(r);
        square += to[j] * to[j];
    }
    for (int j = 0; j < r->n_features; j++)
        to[j] /= sqrt(square);
}

void qn_rbf_init(qn_rbf *rbf, const qn_rbf_options *options) {
    *rbf = (qn_rbf){.rng = qn_rng_make(options->seed, 4242, 0), .speed = options->speed};
    rbf->n_features = drawn_count(rbf, options->n_features, 3, QN_RBF_FEATURES);
    rbf->n_classes = drawn_count(rbf, options->n_classes, 4, QN_RBF_CLASSES);
    rbf->n_centroids = drawn_count(rbf, options->n_centroids, 10, QN_RBF_CENTROIDS);
    while (!draw_centroids(rbf))
        ;
    for (int k = 0; k < rbf->n_centroids; k++)
        draw_direction(rbf, rbf->heading[k]);
}

int qn_rbf_draw(qn_rbf *rbf, bool known_only, float *x) {
    int k;
    do {
        double u = uniform(rbf);
        for (k = 0; k < rbf->n_centroids - 1 && u > rbf->weight[k]; k++)
            u -= rbf->weight[k];
    } while (known_only && rbf->class_of[k] >= QN_RBF_KNOWN);
    double direction[QN_RBF_FEATURES];
    draw_direction(rbf, direction);
    const double length = normal(rbf) * rbf->deviation[k];
    for (int j = 0; j < rbf->n_features; j++)
        x[j] = (float)(rbf->centre[k][j] + length * direction[j]);
    return rbf->class_of[k];
}

void qn_rbf_move(qn_rbf *rbf) {
    for (int k = 0; rbf->speed > 0 && k < rbf->n_centroids; k++)
        for (int j = 0; j < rbf->n_features; j++) {
            double *at = &rbf->centre[k][j];
            *at += rbf->speed * rbf->heading[k][j];
            if (*at < 0.0 || *at > 1.0)
                rbf->heading[k][j] = -rbf->heading[k][j];
            *at = *at < 0.0 ? -*at : *at > 1.0 ? 2.0 - *at : *at;
        }
}

/* Logarithms first: in 20 dimensions densities leave the range of doubles. */
void qn_rbf_densities(const qn_rbf *rbf, const float *x, double *density) {
    double logs[QN_RBF_CENTROIDS], most = -INFINITY;
    for (int k = 0; k < rbf->n_centroids; k++) {
        double square = 1e-18;
        for (int j = 0; j < rbf->n_features; j++)
            square += ((double)x[j] - rbf->centre[k][j]) * ((double)x[j] - rbf->centre[k][j]);
        const double s = rbf->deviation[k];
        logs[k] = log(rbf->weight[k] / s) - square / (2 * s * s) -
                  0.5 * (rbf->n_features - 1) * log(square);
        most = logs[k] > most ? logs[k] : most;
    }
    for (int c = 0; c < rbf->n_classes; c++)
        density[c] = 0.0;
    for (int k = 0; k < rbf->n_centroids; k++)
        density[rbf->class_of[k]] += exp(logs[k] - most);
}
