/* See groups.h. */
#include "label/network/groups.h"

#include "base/fmath.h"
#include "base/rng.h"

#include <string.h>

enum { ROUNDS = 3, K = QN_GROUPS_MOST };
static const float least_part = 0.35f, most_chance = 0.03f, dense_part = 0.6f;

/* The same for clusters that were there before: with at least that part of what their size among
 * the latest samples foretells. */
static const float there_before = 0.5f, least_part_before = 0.2f, most_chance_before = 0.003f;
enum { LEAST_HISTORY = 250 }; /* samples before the latest ones, to tell */

float qn_square_distance(const float *a, const float *b, int d) {
    float sum[4] = {0};
    for (int j = 0; j + 3 < d; j += 4)
        for (int i = 0; i < 4; i++)
            sum[i] += (a[j + i] - b[j + i]) * (a[j + i] - b[j + i]);
    for (int j = d & ~3; j < d; j++)
        sum[0] += (a[j] - b[j]) * (a[j] - b[j]);
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* ---- clusters ---- */

/* Draws the next centre, far from those before (k-means++: Arthur and Vassilvitskii 2007). near
 * (n): squared distance to the nearest one so far. */
static void draw_centre(qn_groups *g, const qn_group_samples *s, float *near) {
    const qn_rng rng = qn_rng_make(s->seed, qn_hash_text("label.groups"), 0);
    const int k = g->n_drawn++;
    double left = 0;
    int at = 0;
    for (int i = 0; i < s->n && k > 0; i++)
        left += (double)near[i];
    left *= (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)(3 + k)));
    for (; k > 0 && at < s->n - 1 && left >= (double)near[at]; at++)
        left -= (double)near[at];
    at = k == 0 ? (int)qn_rng_below(rng, 0, (uint64_t)s->n) : at;
    memcpy(g->centre + k * s->d, s->z + at * s->d, (size_t)s->d * sizeof *s->z);
    for (int i = 0; i < s->n; i++) {
        const float far = qn_square_distance(s->z + i * s->d, g->centre + k * s->d, s->d);
        near[i] = k == 0 || far < near[i] ? far : near[i];
    }
}

static void assign(qn_groups *g, const qn_group_samples *s, int begin, int end) {
    for (int i = begin; i < end; i++) {
        float least = 1e30f;
        int32_t best = 0;
        for (int k = 0; k < g->k; k++) {
            const float far = qn_square_distance(s->z + i * s->d, g->centre + k * s->d, s->d);
            best = far < least ? k : best;
            least = far < least ? far : least;
        }
        g->has_changed |= g->move == 0 || g->of[i] != best;
        g->of[i] = best;
    }
}

static void move_centres(qn_groups *g, const qn_group_samples *s) {
    int count[K] = {0};
    for (int i = 0; i < s->n; i++)
        count[g->of[i]]++;
    for (int k = 0; k < g->k; k++)
        if (count[k] > 0)
            memset(g->centre + k * s->d, 0, (size_t)s->d * sizeof *g->centre);
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->d; j++)
            g->centre[g->of[i] * s->d + j] += s->z[i * s->d + j] / (float)count[g->of[i]];
}

/* ---- which are new ---- */

static void count_members(qn_groups *g, const qn_group_samples *s, float *labels) {
    memset(labels, 0, (size_t)(s->n_classes * K) * sizeof *labels);
    memset(g->size, 0, sizeof g->size);
    memset(g->labelled, 0, sizeof g->labelled);
    memset(g->latest, 0, sizeof g->latest);
    memset(g->before, 0, sizeof g->before);
    for (int i = 0; i < s->n; i++) {
        if (i < s->n_labelled) {
            g->labelled[g->of[i]]++;
            labels[s->label[i] * K + g->of[i]] += 1.0f;
        } else {
            g->size[g->of[i]]++;
            if (!s->history)
                continue;
            g->latest[g->of[i]] += s->history[i] == QN_HISTORY_LATEST;
            g->before[g->of[i]] += s->history[i] == QN_HISTORY_KNOWN;
        }
    }
}

/* A cluster is of the class with most labels in it; one without, of the nearest with some. */
static void find_classes(qn_groups *g, const qn_group_samples *s, const float *labels) {
    for (int k = 0; k < g->k; k++) {
        float least = 1e30f;
        int from = k;
        for (int o = 0; o < g->k && g->labelled[k] == 0; o++) {
            const float far = qn_square_distance(g->centre + k * s->d, g->centre + o * s->d, s->d);
            from = g->labelled[o] > 0 && far < least ? o : from;
            least = g->labelled[o] > 0 && far < least ? far : least;
        }
        g->class[k] = 0;
        for (int c = 1; c < s->n_classes; c++)
            if (labels[c * K + from] > labels[g->class[k] * K + from])
                g->class[k] = c;
    }
}

/* Labelled samples of a class for each unlabelled one, in the clusters with most of them for their
 * size that together have a part of its labels. */
static float density_of(const qn_groups *g, const float *labels, int class) {
    float all = 0, some = 0, size = 0;
    bool is_taken[K] = {false};
    for (int k = 0; k < g->k; k++)
        all += labels[class * K + k];
    while (some < dense_part * all) {
        int best = -1;
        float most = -1;
        for (int k = 0; k < g->k; k++) {
            const float density = labels[class * K + k] / ((float)g->size[k] + 1.0f);
            if (!is_taken[k] && !g->is_new[k] && density > most) {
                best = k;
                most = density;
            }
        }
        if (best < 0 || !(labels[class * K + best] > 0))
            break;
        is_taken[best] = true;
        some += labels[class * K + best];
        size += (float)g->size[best];
    }
    return some / (size + 1.0f);
}

/* Chance of at most so many labels where some are expected (Poisson). */
static float chance(int labels, float expected) {
    float term = qn_exp_f32(-expected), sum = term;
    for (int i = 1; i <= labels; i++) {
        term *= expected / (float)i;
        sum += term;
    }
    return sum;
}

/* Whether the stream had about as many samples of a cluster before the latest ones, per sample of
 * each, and took them for known ones. */
static bool was_there(const qn_groups *g, const qn_group_samples *s, int k) {
    int n_latest = 0, n_before = 0;
    for (int i = s->n_labelled; i < s->n; i++)
        n_latest += s->history[i] == QN_HISTORY_LATEST;
    n_before = s->n - s->n_labelled - n_latest;
    return n_before >= LEAST_HISTORY && (float)g->before[k] * (float)n_latest >=
                                            there_before * (float)g->latest[k] * (float)n_before;
}

static void mark_new(qn_groups *g, const qn_group_samples *s, const float *labels) {
    bool is_new[K] = {false};
    for (int k = 0; k < g->k; k++) {
        const bool is_old = was_there(g, s, k);
        const float expected = (float)g->size[k] * density_of(g, labels, g->class[k]);
        const float part = is_old ? least_part_before : least_part;
        is_new[k] = (float)g->labelled[k] < part * expected &&
                    (expected >= 80.0f || chance(g->labelled[k], expected) <
                                              (is_old ? most_chance_before : most_chance));
    }
    memcpy(g->is_new, is_new, sizeof is_new);
}

/* ---- joining ---- */

/* The distance of centres below which pairs are of one class, with fewest mistakes among pairs of
 * known clusters; both kinds of mistakes weigh alike. */
static float joining_distance(const qn_groups *g, const qn_group_samples *s) {
    float far[K * K / 2];
    bool is_same[K * K / 2];
    int n = 0, n_same = 0;
    for (int a = 0; a < g->k; a++)
        for (int b = 0; b < a; b++) {
            if (g->is_new[a] || g->is_new[b] || !g->labelled[a] || !g->labelled[b])
                continue;
            far[n] = qn_square_distance(g->centre + a * s->d, g->centre + b * s->d, s->d);
            is_same[n] = g->class[a] == g->class[b];
            n_same += is_same[n++];
        }
    float best = 0, least = 1e30f;
    for (int i = 0; i < n; i++) {
        int joined_wrong = 0, left_apart = 0;
        for (int j = 0; j < n; j++) {
            joined_wrong += !is_same[j] && far[j] <= far[i];
            left_apart += is_same[j] && far[j] > far[i];
        }
        const float wrong =
            (float)joined_wrong / (float)(n - n_same + 1) + (float)left_apart / (float)(n_same + 1);
        best = wrong < least ? far[i] : best;
        least = wrong < least ? wrong : least;
    }
    return best;
}

/* Mean distance of the clusters of two groups. */
static float apart(const qn_groups *g, const qn_group_samples *s, int a, int b) {
    float sum = 0;
    int n = 0;
    for (int i = 0; i < g->k; i++)
        for (int j = 0; j < g->k; j++)
            if (g->group[i] == a && g->group[j] == b) {
                sum += qn_square_distance(g->centre + i * s->d, g->centre + j * s->d, s->d);
                n++;
            }
    return n > 0 ? sum / (float)n : 1e30f;
}

static void rename_group(qn_groups *g, int from, int to) {
    for (int k = 0; k < g->k; k++)
        if (g->group[k] == from)
            g->group[k] = to;
}

/* Joins the nearest two groups until all are too far from each other. */
static void join(qn_groups *g, const qn_group_samples *s) {
    const float most = joining_distance(g, s);
    for (int k = 0; k < g->k; k++)
        g->group[k] = g->is_new[k] ? k : -1;
    for (;;) {
        float least = most;
        int first = -1, second = -1;
        for (int a = 0; a < g->k; a++)
            for (int b = 0; b < a; b++) {
                const float far = apart(g, s, a, b);
                if (far <= least) {
                    least = far;
                    first = b;
                    second = a;
                }
            }
        if (first < 0)
            break;
        rename_group(g, second, first);
    }
}

/* Numbers groups from 0; those with too few samples are none. */
static void number_groups(qn_groups *g) {
    g->n = 0;
    for (int a = 0; a < K; a++) {
        int size = 0;
        for (int k = 0; k < g->k; k++)
            size += g->group[k] == a ? g->size[k] : 0;
        if (size == 0 && a >= g->k)
            continue;
        rename_group(g, a, size >= QN_GROUPS_LEAST ? -2 - g->n++ : -1);
    }
    for (int k = 0; k < g->k; k++)
        g->group[k] = g->group[k] <= -2 ? -2 - g->group[k] : -1;
}

void qn_groups_begin(qn_groups *g, const qn_group_samples *s) {
    g->k = s->k > 0 ? s->k : QN_GROUPS_CLUSTERS;
    g->k = s->n < g->k ? s->n : g->k;
    g->n_drawn = g->move = g->n_assigned = 0;
    g->has_changed = false;
}

bool qn_groups_go_on(qn_groups *g, const qn_group_samples *s, float *room) {
    if (g->n_drawn < g->k) {
        for (int i = 0; g->n_drawn < g->k && (i == 0 || i * s->n < QN_GROUPS_PIECE); i++)
            draw_centre(g, s, room);
        return true;
    }
    const int end = g->n_assigned + QN_GROUPS_PIECE / g->k;
    assign(g, s, g->n_assigned, end < s->n ? end : s->n);
    g->n_assigned = end;
    if (end < s->n)
        return true;
    const bool has_changed = g->has_changed;
    if (has_changed)
        move_centres(g, s);
    g->n_assigned = 0;
    g->has_changed = false;
    return has_changed && ++g->move < (s->moves > 0 ? s->moves : QN_GROUPS_MOVES);
}

void qn_groups_finish(qn_groups *g, const qn_group_samples *s, float *room) {
    float *labels = room + s->n;
    memset(g->is_new, 0, sizeof g->is_new);
    count_members(g, s, labels);
    find_classes(g, s, labels);
    for (int i = 0; i < ROUNDS; i++)
        mark_new(g, s, labels);
    join(g, s);
    number_groups(g);
}

void qn_groups_find(qn_groups *g, const qn_group_samples *s, float *room) {
    qn_groups_begin(g, s);
    while (qn_groups_go_on(g, s, room)) {
    }
    qn_groups_finish(g, s, room);
}

/* The part of a cluster that belongs to no known class, as far as its labelled samples tell: the
 * mean of parts from 0 to 1, by the chance of so many labels (Poisson) and by what is believed
 * before: half of all clusters have none. */
static float new_part(float labelled, float expected) {
    enum { PARTS = 10 };
    static const float least = 0.05f; /* expected where all is new: labels may be wrong */
    float sum = 0, mean = 0;
    for (int i = 0; i <= PARTS; i++) {
        const float part = (float)i / PARTS, absent = expected * part;
        const float ratio = qn_log_f32(1.0f - absent / (expected + least));
        const float before = i == 0 ? 0.5f : 0.5f / PARTS;
        const float chance = before * qn_exp_f32(labelled * ratio + absent);
        sum += chance;
        mean += chance * part;
    }
    return sum > 0 && sum < 1e30f ? mean / sum : 1.0f;
}

void qn_groups_doubt(qn_groups *g, const qn_group_samples *s, float *room, float *doubt,
                     float *joining) {
    float *labels = room + s->n;
    memset(g->is_new, 0, sizeof g->is_new);
    count_members(g, s, labels);
    find_classes(g, s, labels);
    for (int k = 0; k < g->k; k++) {
        const float size = (float)g->size[k], expected = size * density_of(g, labels, g->class[k]);
        doubt[k] = size * new_part(labels[g->class[k] * K + k], expected);
    }
    *joining = joining_distance(g, s);
}

/* ---- likeness ---- */

void qn_groups_compare(int k, int d, const float *centre, int stride, float *likeness) {
    enum { NEIGHBOURS = 6 };
    double sum = 0;
    for (int i = 0; i < k; i++) {
        float near[NEIGHBOURS + 1];
        int n = 0;
        for (int o = 0; o < k; o++) {
            const float far = qn_square_distance(centre + i * d, centre + o * d, d);
            likeness[i * stride + o] = far;
            int at = n <= NEIGHBOURS ? n++ : far < near[NEIGHBOURS] ? NEIGHBOURS : -1;
            for (; at > 0 && near[at - 1] > far; at--)
                near[at] = near[at - 1];
            if (at >= 0)
                near[at] = far;
        }
        sum += (double)near[n - 1];
    }
    const float width = sum > 0 ? (float)(sum / k) : 1.0f;
    for (int i = 0; i < k; i++)
        for (int o = 0; o < k; o++)
            likeness[i * stride + o] = qn_exp_f32(-likeness[i * stride + o] / width);
}
