/* See score.h. */
#include "label/bench/score.h"

void qn_label_score_add(qn_label_score *score, int n_known, int class, int taken_for) {
    if (class < n_known) {
        score->n_known++;
        score->known_as_new += taken_for < 0;
        score->known_as_other += taken_for >= 0 && taken_for != class;
    } else {
        score->n_new++;
        score->new_as_known += taken_for >= 0;
    }
}

static double part(int64_t some, int64_t all) {
    return all > 0 ? 100.0 * (double)some / (double)all : 0.0;
}

double qn_label_missed_new(const qn_label_score *score) {
    return part(score->new_as_known, score->n_new);
}

double qn_label_false_new(const qn_label_score *score) {
    return part(score->known_as_new, score->n_known);
}

double qn_label_balanced(const qn_label_score *score) {
    return 0.5 * (qn_label_missed_new(score) + qn_label_false_new(score));
}

double qn_label_error(const qn_label_score *score) {
    return part(score->known_as_new + score->new_as_known + score->known_as_other,
                score->n_known + score->n_new);
}
