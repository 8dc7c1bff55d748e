/* Found clusters that are none: they only mend what the known clusters describe badly. Labelled
 * samples tell: if the known classes have members in a found cluster that the known clusters do not
 * foretell, labelled samples lie in it as often as those of the stream. Such a cluster becomes one
 * of the class whose samples they are. */
#include "base/fmath.h"
#include "label/labeller.h"

#include <string.h>

static const float most_known = 0.3f; /* of what seems new in a cluster that is one */
static const float least_labelled = 3.0f;

/* Of each found cluster, as parts of all samples: members that seem new, those that seem known
 * though the cluster has them, and labelled ones. */
typedef struct finding {
    float fresh[QN_LABEL_FRESH], known[QN_LABEL_FRESH], labelled[QN_LABEL_FRESH];
} finding;

static void count_members(const qn_labeller *l, finding *f) {
    qn_label_view view;
    for (int i = 0; i < l->n_window; i++) {
        qn_labeller_look(l, &l->origin, l->window + (size_t)i * (size_t)l->d, &view);
        const float all = view.known_part + view.fresh_part + 1e-30f;
        const float known = view.known_part / all;
        for (int k = 0; k < l->fresh.n; k++) {
            const float part = view.fresh.density[k] / all / (float)l->n_window;
            f->fresh[k] += part * (1.0f - known);
            f->known[k] += part * known;
        }
    }
}

static void count_labelled(const qn_labeller *l, finding *f) {
    qn_label_view view;
    float x[QN_LABEL_MAX_FEATURES];
    for (int i = 0; i < l->examples.n; i++) {
        qn_examples_get(&l->examples, i, x);
        qn_labeller_look(l, &l->origin, x, &view);
        const float all = view.known_part + view.fresh_part + 1e-30f;
        for (int k = 0; k < l->fresh.n; k++)
            f->labelled[k] += l->examples.weight[i] * view.fresh.density[k] / all;
    }
}

/* The class that most of the labelled samples in found cluster k have. */
static int class_in(const qn_labeller *l, int k) {
    qn_label_view view;
    float x[QN_LABEL_MAX_FEATURES], part[QN_LABEL_MAX_KNOWN] = {0};
    int best = 0;
    for (int i = 0; i < l->examples.n; i++) {
        qn_examples_get(&l->examples, i, x);
        qn_labeller_look(l, &l->origin, x, &view);
        part[(int)l->examples.class_of[i]] += l->examples.weight[i] * view.fresh.density[k] /
                                              (view.known_part + view.fresh_part + 1e-30f);
    }
    for (int c = 1; c < l->n_known; c++)
        best = part[c] > part[best] ? c : best;
    return best;
}

static void add_known(qn_labeller *l, qn_clusters *set, int k, float share) {
    for (int i = 0; i < set->n; i++)
        set->weight[i] *= 1.0f - share;
    qn_cluster_copy(&l->fresh, k, set, set->n);
    set->weight[set->n++] = share;
}

static void make_known(qn_labeller *l, int k) {
    const int class = class_in(l, k);
    qn_label_record *r = qn_labeller_found(l, l->place[k]);
    const float weight = l->fresh.weight[k];
    l->owner[l->known.n] = class;
    add_known(l, &l->origin, k, weight / (*l->known_weight + weight));
    add_known(l, &l->known, k, weight / (*l->known_weight + weight));
    *l->known_weight += weight;
    memcpy(r->name, l->records[class].name, sizeof r->name);
    qn_labeller_drop_fresh(l, k);
    l->fresh.weight[l->fresh.n] = 0;
}

/* Samples that are explained better now than when they came. */
static void look_again(qn_labeller *l) {
    qn_label_view view;
    for (int i = 0; i < l->n_window; i++) {
        qn_labeller_look(l, *l->lead > 0 ? &l->known : &l->origin,
                         l->window + (size_t)i * (size_t)l->d, &view);
        l->rest[i] = view.log_known > l->rest[i] ? view.log_known : l->rest[i];
    }
}

void qn_labeller_absorb(qn_labeller *l) {
    finding f = {{0}, {0}, {0}};
    int n_absorbed = 0;
    if (l->fresh.n < 2)
        return;
    count_members(l, &f);
    count_labelled(l, &f);
    for (int k = l->fresh.n - 1; k > 0 && l->known.n < l->capacity; k--) {
        const float unforeseen = *l->known_weight * f.labelled[k] - f.known[k];
        if (f.labelled[k] * (float)l->examples.n < least_labelled ||
            unforeseen < most_known * f.fresh[k])
            continue;
        make_known(l, k);
        n_absorbed++;
        break;
    }
    if (n_absorbed > 0)
        look_again(l);
}
