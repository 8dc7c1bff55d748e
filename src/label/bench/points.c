/* See points.h. */
#include "label/bench/points.h"

#include "label/select.h"

#include <stddef.h>
#include <string.h>

static const float *point_at(const qn_points *p, int i) {
    return p->x + (ptrdiff_t)i * p->d;
}

int qn_largest(const float *v, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        best = v[i] > v[best] ? i : best;
    return best;
}

int qn_points_nearest(const qn_points *p, const float *x, float *square) {
    int best = -1;
    *square = 3e38f;
    for (int i = 0; i < p->n; i++) {
        if (!qn_point_counts(p, i))
            continue;
        const float s = qn_square_distance(point_at(p, i), x, p->d);
        best = s < *square ? i : best;
        *square = s < *square ? s : *square;
    }
    return best;
}

void qn_points_neighbours(const qn_points *p, int i, int n_near, int32_t *near) {
    float least[QN_POINTS_MOST_NEAR];
    for (int k = 0; k < n_near; k++) {
        near[k] = -1;
        least[k] = 3e38f;
    }
    for (int o = 0; o < p->n; o++) {
        if (o == i || !qn_point_counts(p, o))
            continue;
        const float s = qn_square_distance(point_at(p, i), point_at(p, o), p->d);
        int k = n_near - 1;
        if (s >= least[k])
            continue;
        for (; k > 0 && least[k - 1] > s; k--) {
            least[k] = least[k - 1];
            near[k] = near[k - 1];
        }
        least[k] = s;
        near[k] = o;
    }
}

float qn_points_reach(const qn_points *p, float *room) {
    for (int i = 0; i < p->n; i++) {
        int32_t other;
        qn_points_neighbours(p, i, 1, &other);
        room[i] = other < 0 ? 3e38f : qn_square_distance(point_at(p, i), point_at(p, other), p->d);
    }
    return qn_select_smallest(room, p->n, p->n - 1 - p->n / 20);
}

void qn_points_assign(const qn_points *p, const qn_points *centres, int32_t *of) {
    float square;
    for (int i = 0; i < p->n; i++)
        of[i] = qn_point_counts(p, i) ? qn_points_nearest(centres, point_at(p, i), &square) : -1;
}

void qn_points_average(const qn_points *p, const int32_t *of, int k, float *means) {
    for (int c = 0; c < k; c++) {
        float *mean = means + (ptrdiff_t)c * p->d;
        int count = 0;
        for (int i = 0; i < p->n; i++) {
            if (of[i] != c)
                continue;
            for (int j = 0; j < p->d; j++)
                mean[j] = (count > 0 ? mean[j] : 0) + point_at(p, i)[j];
            count++;
        }
        for (int j = 0; j < p->d && count > 0; j++)
            mean[j] /= (float)count;
    }
}

void qn_points_name(int n, const int32_t *of, const int32_t *label, int n_classes, int k,
                    int32_t *name) {
    for (int cluster = 0; cluster < k; cluster++) {
        int most = 0;
        name[cluster] = -1;
        for (int c = 0; c < n_classes; c++) {
            int count = 0;
            for (int i = 0; i < n; i++)
                count += of[i] == cluster && label[i] == c;
            name[cluster] = count > most ? c : name[cluster];
            most = count > most ? count : most;
        }
    }
}

void qn_spread_step(const qn_spread *s, const float *before, float *now) {
    for (int i = 0; i < s->n; i++)
        for (int c = 0; c < s->n_classes; c++) {
            float sum = 0;
            for (int k = 0; k < s->n_near; k++) {
                const int o = s->near[i * s->n_near + k];
                sum += o >= 0 ? before[o * s->n_classes + c] : 0.0f;
            }
            const bool is_own = i < s->n_labelled && s->label[i] == c;
            now[i * s->n_classes + c] = 0.9f * sum / (float)s->n_near + (is_own ? 0.1f : 0.0f);
        }
}
