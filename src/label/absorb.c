/* Found clusters that are none: they only mend what the known clusters describe badly. Labelled
 * samples tell: if the known classes have members in a found cluster that the known clusters do not
 * foretell, labelled samples lie in it as often as those of the stream. Such a cluster becomes one
 * of the class whose samples they are. */
#include "base/fmath.h"
#include "label/labeller.h"

#include <string.h>

static const float least_part = 0.3f; /* of what a class has in a cluster of its own */
static const float least_labelled = 3.0f;
static const float most_errors = 2.0f; /* standard errors */

/* A found cluster beside the known class that has most labelled samples in it. */
typedef struct finding {
    int class;
    float n_labelled, labelled; /* samples of the class, and those of them in the cluster */
    /* Parts of all samples: of the class, in both, and in the cluster alone. */
    float of_class, both, own;
} finding;

/* Looks at labelled sample i; where labelled samples are part of the known density, by all others.
 * The density of everything comes back. */
static float look_at_labelled(const qn_labeller *l, int i, qn_label_view *view) {
    float x[QN_LABEL_MAX_FEATURES];
    qn_examples_get(&l->examples, i, x);
    qn_labeller_look(l, &l->origin, x, view);
    if (view->has_examples) {
        const float off = l->examples.alone[i] - view->fresh.base;
        view->known_part = *l->known_weight * qn_exp_f32(off < 80.0f ? off : 80.0f);
    }
    return view->known_part + view->fresh_part + 1e-30f;
}

/* Keeps what a class has in each cluster where no class before had more. */
static void keep_most(finding *f, int n, const finding *class) {
    for (int k = 0; k < n; k++)
        if (class[k].labelled > f[k].labelled)
            f[k] = class[k];
}

/* Labelled samples in each cluster, of the class that has most of them. Classes come one after
 * another. */
static void count_labelled(const qn_labeller *l, finding *f) {
    qn_label_view view;
    finding now[QN_LABEL_FRESH];
    for (int i = 0; i < l->examples.n; i++) {
        const int class = (int)l->examples.class_of[i];
        const float all = look_at_labelled(l, i, &view);
        if (i == 0 || class != now->class) {
            keep_most(f, i == 0 ? 0 : l->fresh.n, now);
            for (int k = 0; k < l->fresh.n; k++)
                now[k] = (finding){.class = class};
        }
        for (int k = 0; k < l->fresh.n; k++) {
            now[k].labelled += view.fresh.density[k] / all;
            now[k].n_labelled++;
        }
    }
    keep_most(f, l->fresh.n, now);
}

static void count_members(const qn_labeller *l, finding *f) {
    qn_label_view view;
    float of_class[QN_LABEL_MAX_KNOWN];
    for (int i = 0; i < l->n_window; i++) {
        qn_labeller_look(l, &l->origin, l->window + (size_t)i * (size_t)l->d, &view);
        const float all = view.known_part + view.fresh_part + 1e-30f;
        const float known = qn_labeller_class_parts(l, &view, of_class) + 1e-30f;
        const float scale = view.known_part / all / known / (float)l->n_window;
        for (int k = 0; k < l->fresh.n; k++) {
            const float part = view.fresh.density[k] / all;
            f[k].of_class += of_class[f[k].class] * scale;
            f[k].both += of_class[f[k].class] * scale * part;
            f[k].own += part * part / (float)l->n_window;
        }
    }
}

/* Whether the labelled samples lie in cluster k as often as if it was their class's: by a part of
 * that, or as far as so few samples tell. */
static bool is_of_class(const qn_labeller *l, int k, const finding *f) {
    const float found = f->labelled / f->n_labelled;
    const float as_new = f->both / (f->of_class + 1e-30f);
    const float as_own = (f->both + f->own) / (f->of_class + l->fresh.weight[k]);
    const float error = __builtin_sqrtf(as_own * (1.0f - as_own) / f->n_labelled);
    if (f->labelled < least_labelled || !(as_own > as_new))
        return false;
    return found > as_new + least_part * (as_own - as_new) || found > as_own - most_errors * error;
}

static void add_known(qn_labeller *l, qn_clusters *set, int k, float share) {
    for (int i = 0; i < set->n; i++)
        set->weight[i] *= 1.0f - share;
    qn_cluster_copy(&l->fresh, k, set, set->n);
    set->weight[set->n++] = share;
}

static void make_known(qn_labeller *l, int k, int class) {
    qn_label_record *r = qn_labeller_found(l, l->place[k]);
    const float weight = l->fresh.weight[k], share = weight / (*l->known_weight + weight);
    float of_clusters = share;
    if (qn_labeller_has_examples(l)) { /* clusters are the rest of the known density */
        *l->examples.share *= 1.0f - share;
        of_clusters = share / (1.0f - *l->examples.share);
    }
    l->owner[l->known.n] = class;
    add_known(l, &l->origin, k, of_clusters);
    add_known(l, &l->known, k, share);
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
    finding f[QN_LABEL_FRESH] = {{0}};
    if (l->fresh.n < 2)
        return;
    count_labelled(l, f);
    count_members(l, f);
    for (int k = l->fresh.n - 1; k > 0 && l->known.n < l->capacity; k--) {
        if (!is_of_class(l, k, &f[k]))
            continue;
        make_known(l, k, f[k].class);
        look_again(l);
        return; /* one at a time: its members are counted anew */
    }
}
