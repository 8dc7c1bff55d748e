/* The labeller: densities against formulas, labels against the best there can be, the same labels
 * however a stream is cut, hostile samples, memory that runs out, files that were damaged. */
#include "quern/label.h"

#include "base/rng.h"
#include "check.h"
#include "failing.h"
#include "label/bench/rbf.h"
#include "label/bench/score.h"
#include "label/clusters.h"

#include <stdlib.h>
#include <unistd.h>

enum { N_LABELLED = 600, N_STREAM = 1500, FEATURES = 5 };

/* A made stream, and what is labelled of it. */
typedef struct made {
    qn_rbf rbf;
    float x[N_LABELLED * QN_RBF_FEATURES];
    int32_t label[N_LABELLED];
} made;

static qn_label_options make(made *m, uint64_t seed) {
    qn_rbf_init(
        &m->rbf,
        &(qn_rbf_options){.seed = seed, .n_features = FEATURES, .n_classes = 4, .n_centroids = 10});
    for (int i = 0; i < N_LABELLED; i++)
        m->label[i] = qn_rbf_draw(&m->rbf, true, m->x + i * FEATURES);
    return (qn_label_options){QN_OPTIONS_INIT(qn_label_options),
                              .n_features = FEATURES,
                              .n_classes = 2,
                              .n_samples = N_LABELLED,
                              .x = m->x,
                              .label = m->label,
                              .seed = 1};
}

/* A cluster of shape d/2 is a normal law; one of 1/2 has lengths of a half normal law. */
static void test_densities(void) {
    enum { D = 3 };
    float block[8 * (D + 5)];
    qn_clusters set;
    qn_cluster_view view;
    const float x[D] = {0.3f, -0.4f, 1.2f};
    const double square = 0.3 * 0.3 + 0.4 * 0.4 + 1.2 * 1.2, s = 0.7, pi = 3.14159265358979;
    qn_clusters_lay(&set, D, 8, block);
    for (int i = 0; i < 2; i++) {
        const double a = i ? 0.5 : 0.5 * D;
        qn_clusters_clear(&set);
        set.n = 1;
        set.weight[0] = 1.0f;
        set.shape[0] = (float)a;
        const qn_cluster_prior prior = {.smooth = 1e-9f, .least = 1e-9f};
        qn_cluster_set(&set, 0, (float)(2 * s * s * a), qn_cluster_spread(&set, 0), &prior);
        const double sum = (double)qn_clusters_look(&set, x, -80.0f, &view);
        const double got = log(sum) + (double)view.base;
        const double normal = -square / (2 * s * s) - 1.5 * log(2 * pi * s * s);
        const double spike =
            log(2 / (s * sqrt(2 * pi))) - square / (2 * s * s) - log(4 * pi * square);
        /* The shape is found from the spread but for 1.5 %. */
        CHECK(fabs(got - (i ? spike : normal)) < 0.05);
        CHECK(fabs((double)set.shape[0] - a) < 0.02 * a);
    }
    for (float v = 1e-6f; v < 1e6f; v *= 1.7f)
        CHECK(fabs((double)qn_ln(v) - log((double)v)) < 3e-6);
}

static void test_near_the_best(void) {
    double excess = 0.0;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        static made m;
        const qn_label_options options = make(&m, seed);
        qn_labeller *l;
        qn_label_score ours = {0}, best = {0};
        CHECK_OK(qn_labeller_create(&options, &l));
        for (int i = 0; i < N_STREAM; i++) {
            float x[FEATURES];
            double p[QN_RBF_CLASSES];
            qn_label_answer answer = {0};
            const int class = qn_rbf_draw(&m.rbf, false, x);
            qn_rbf_densities(&m.rbf, x, p);
            CHECK_OK(qn_labeller_add(l, x, &answer));
            CHECK(answer.confidence >= 0 && answer.confidence <= 1.001f);
            const bool is_known = answer.label >= 0 && answer.label < 2;
            qn_label_score_add(&ours, 2, class, is_known ? (int)answer.label : -1);
            qn_label_score_add(&best, 2, class, p[2] + p[3] > p[0] + p[1] ? -1 : p[1] > p[0]);
        }
        excess += (qn_label_error(&ours) - qn_label_error(&best)) / 3;
        CHECK(qn_labeller_samples(l) == N_STREAM && qn_labeller_kept(l) == 1000);
        qn_labeller_destroy(l);
    }
    printf("excess of errors over the best: %.2f points\n", excess);
    CHECK(excess < 5.0);
}

/* Sample i of two arms of a spiral, classes 0 and 1, for which clusters are too coarse, and of a
 * class 2 between them in a third dimension. */
static int draw_spiral(int64_t i, bool known_only, float *x) {
    const qn_rng rng = qn_rng_make(11, 5, (uint64_t)i);
    const int class = (int)qn_rng_below(rng, 0, known_only ? 2 : 3);
    const double turn = 9.0 * sqrt((double)qn_rng_below(rng, 1, 1 << 20) / (1 << 20));
    const double side = class == 1 ? -turn : turn;
    for (int j = 0; j < FEATURES; j++)
        x[j] = j < 3 ? 0.2f * (float)qn_rng_normal(rng, (uint64_t)(2 + j)) : 1.0f;
    x[0] += (float)(class == 2 ? 3.0 : side * cos(turn));
    x[1] += (float)(class == 2 ? 0.0 : side * sin(turn));
    x[2] += class == 2 ? 4.0f : 0.0f;
    return class;
}

static qn_label_options make_spiral(made *m, int n) {
    for (int i = 0; i < n; i++)
        m->label[i] = draw_spiral(i, true, m->x + i * FEATURES);
    return (qn_label_options){QN_OPTIONS_INIT(qn_label_options),
                              .n_features = FEATURES,
                              .n_classes = 2,
                              .n_samples = n,
                              .x = m->x,
                              .label = m->label,
                              .seed = 1};
}

static bool has_text(const char *path, const char *text) {
    char header[1024] = {0};
    FILE *file = fopen(path, "rb");
    size_t n = fread(header, 1, sizeof header - 1, file);
    fclose(file);
    for (size_t i = 0; i + strlen(text) < n; i++)
        if (memcmp(header + i, text, strlen(text)) == 0)
            return true;
    return false;
}

/* Classes of no simple shape: kept as examples, which tell them apart and from what is new. */
static void test_examples(const char *path) {
    static made m;
    const qn_label_options options = make_spiral(&m, N_LABELLED);
    qn_label_score ours = {0};
    qn_labeller *l;
    CHECK_OK(qn_labeller_create(&options, &l));
    CHECK_OK(qn_labeller_save(l, path));
    CHECK(has_text(path, "\"examples\""));
    for (int i = 0; i < N_STREAM; i++) {
        float x[FEATURES];
        qn_label_answer answer = {0};
        const int class = draw_spiral(N_LABELLED + i, false, x);
        CHECK_OK(qn_labeller_add(l, x, &answer));
        const bool is_known = answer.label >= 0 && answer.label < 2;
        if (i >= 200)
            qn_label_score_add(&ours, 2, class, is_known ? (int)answer.label : -1);
    }
    printf("errors beside examples: %.2f %%\n", qn_label_error(&ours));
    CHECK(qn_label_error(&ours) < 5.0);
    qn_labeller_destroy(l);
}

/* Classes that are long and slanted, side by side: 1.2 apart and, across, of a deviation of 0.2.
 * The third one is new. */
static int draw_slanted(int64_t i, bool known_only, float *x) {
    const qn_rng rng = qn_rng_make(31, 7, (uint64_t)i);
    const int class = (int)qn_rng_below(rng, 0, known_only ? 2 : 3);
    const double along = 3.0 * qn_rng_normal(rng, 1), across = 0.2 * qn_rng_normal(rng, 2);
    for (int j = 0; j < FEATURES; j++)
        x[j] = (float)(along + 0.2 * qn_rng_normal(rng, (uint64_t)(3 + j)));
    x[0] += (float)(across + 1.2 * class);
    return class;
}

static void test_slanted(const char *path) {
    static made m;
    qn_labeller *l;
    qn_label_score ours = {0};
    float x[FEATURES], again[FEATURES];
    for (int i = 0; i < N_LABELLED; i++)
        m.label[i] = draw_slanted(i, true, m.x + (ptrdiff_t)FEATURES * i);
    CHECK_OK(qn_labeller_create(
        &(qn_label_options){QN_OPTIONS_INIT(qn_label_options), .n_features = FEATURES,
                            .n_classes = 2, .n_samples = N_LABELLED, .x = m.x, .label = m.label},
        &l));
    CHECK_OK(qn_labeller_save(l, path));
    CHECK(has_text(path, "\"turn\""));
    qn_labeller_destroy(l);
    CHECK_OK(qn_labeller_load(NULL, path, &l));
    for (int i = 0; i < N_STREAM; i++) {
        qn_label_answer answer = {0};
        const int class = draw_slanted(N_LABELLED + i, false, x);
        CHECK_OK(qn_labeller_add(l, x, &answer));
        const bool is_known = answer.label >= 0 && answer.label < 2;
        if (i >= 300)
            qn_label_score_add(&ours, 2, class, is_known ? (int)answer.label : -1);
    }
    CHECK_OK(qn_labeller_revise(l, 0, again, &(qn_label_answer){0}));
    for (int j = 0; j < FEATURES; j++)
        CHECK(fabsf(x[j] - again[j]) < 1e-3f);
    printf("errors where classes are slanted: %.2f %%\n", qn_label_error(&ours));
    CHECK(qn_label_error(&ours) < 10.0); /* without a turn: 16 */
    qn_labeller_destroy(l);
}

/* A new class in the midst of a known one, where labelled samples lie as well, stays a new one. */
static void test_among_labelled(void) {
    enum { D = 3, N = 200 };
    static float x[N * D];
    static int32_t label[N];
    const qn_rng rng = qn_rng_make(41, 8, 0);
    uint64_t drawn = 0;
    qn_labeller *l;
    int n_new = 0, n_found = 0, n_false = 0;
    for (int i = 0; i < N * D; i++)
        x[i] = (float)qn_rng_normal(rng, drawn++) + (i % (2 * D) == D ? 8.0f : 0.0f);
    for (int i = 0; i < N; i++)
        label[i] = i % 2;
    CHECK_OK(qn_labeller_create(&(qn_label_options){QN_OPTIONS_INIT(qn_label_options),
                                                    .n_features = D, .n_classes = 2, .n_samples = N,
                                                    .x = x, .label = label},
                                &l));
    for (int i = 0; i < 4000; i++) {
        qn_label_answer answer = {0};
        const bool is_new = i > 500 && i % 12 == 5;
        for (int j = 0; j < D; j++)
            x[j] = (float)qn_rng_normal(rng, drawn++) * (is_new ? 0.15f : 1.0f);
        x[0] += is_new ? 0.3f : (float)(i % 2) * 8.0f;
        CHECK_OK(qn_labeller_add(l, x, &answer));
        const char *name = qn_labeller_name_of(l, answer.label);
        const bool is_called_new = answer.label != 0 && answer.label != 1 && name[0] == 'n';
        n_new += i >= 1500 && is_new;
        n_found += i >= 1500 && is_new && is_called_new;
        n_false += i >= 1500 && !is_new && is_called_new;
    }
    printf("among labelled samples: %d of %d found, %d false\n", n_found, n_new, n_false);
    CHECK(n_found > n_new * 9 / 10 && n_false < 100);
    qn_labeller_destroy(l);
}

/* Thirty labelled samples of each class, and numbers on steps: few samples describe a class badly,
 * and samples on points have no bounded density, but neither makes a new class. */
static void test_few_labelled(const char *path) {
    enum { D = 4, N = 60 };
    static const float centres[3][D] = {{1, 2, 0, 0}, {6, 3, 1, 4}, {3, 9, 0, 8}};
    static float x[N * D];
    static int32_t label[N];
    const qn_rng rng = qn_rng_make(5, 8, 0);
    uint64_t drawn = 0;
    qn_labeller *l, *back;
    int n_false = 0, n_missed = 0;
    float last[D], again[D];
    for (int i = 0; i < N; i++) {
        label[i] = i % 2;
        for (int j = 0; j < D; j++)
            x[i * D + j] = centres[i % 2][j] + (j < 2    ? 0.3f * (float)qn_rng_normal(rng, drawn++)
                                                : j == 3 ? i / 2 % 3
                                                         : 0);
    }
    CHECK_OK(qn_labeller_create(&(qn_label_options){QN_OPTIONS_INIT(qn_label_options),
                                                    .n_features = D, .n_classes = 2, .n_samples = N,
                                                    .x = x, .label = label},
                                &l));
    for (int i = 0; i < 1000; i++) {
        qn_label_answer answer = {0};
        const int class = i % 4 == 3 ? 2 : i % 2;
        for (int j = 0; j < D; j++)
            last[j] = centres[class][j] + (j < 2    ? 0.3f * (float)qn_rng_normal(rng, drawn++)
                                           : j == 3 ? i / 4 % 3
                                                    : 0);
        CHECK_OK(qn_labeller_add(l, last, &answer));
        n_false += i >= 100 && class < 2 && answer.label != class;
        n_missed += i >= 100 && class == 2 && answer.label >= 0 && answer.label < 2;
    }
    printf("few labelled samples: %d false, %d missed\n", n_false, n_missed);
    CHECK(n_false < 40 && n_missed < 5);
    CHECK_OK(qn_labeller_save(l, path));
    CHECK_OK(qn_labeller_load(NULL, path, &back));
    CHECK_OK(qn_labeller_revise(back, 0, again, &(qn_label_answer){0}));
    CHECK(again[2] == last[2] && again[3] == last[3]);
    qn_labeller_destroy(l);
    qn_labeller_destroy(back);
}

/* Labels of a stream that is saved and loaded after the samples that `cuts` says. */
static void run_cut(const char *path, bool is_spiral, uint64_t cuts, int64_t *labels) {
    static made m;
    const qn_label_options options = is_spiral ? make_spiral(&m, N_LABELLED) : make(&m, 7);
    qn_labeller *l;
    CHECK_OK(qn_labeller_create(&options, &l));
    for (int i = 0; i < N_STREAM; i++) {
        float x[FEATURES];
        qn_label_answer answer;
        if (is_spiral)
            draw_spiral(N_LABELLED + i, false, x);
        else
            qn_rbf_draw(&m.rbf, false, x);
        CHECK_OK(qn_labeller_add(l, x, &answer));
        labels[i] = answer.label * 1000000 + (int64_t)(answer.confidence * 1e5f);
        if (cuts && qn_rng_below(qn_rng_make(cuts, 0, 0), (uint64_t)i, 40) == 0) {
            CHECK_OK(qn_labeller_save(l, path));
            qn_labeller_destroy(l);
            CHECK_OK(qn_labeller_load(NULL, path, &l));
        }
    }
    qn_labeller_destroy(l);
}

static void test_cut_anywhere(const char *path) {
    static int64_t whole[N_STREAM], cut[N_STREAM];
    const int n_kinds = getenv("QUERN_SLOW") ? 1 : 2;
    for (int is_spiral = 0; is_spiral < n_kinds; is_spiral++) {
        run_cut(path, is_spiral, 0, whole);
        for (uint64_t cuts = 1; cuts <= 2; cuts++) {
            run_cut(path, is_spiral, cuts, cut);
            CHECK(memcmp(whole, cut, sizeof whole) == 0);
        }
    }
}

static void test_refused(void) {
    static made m;
    qn_label_options options = make(&m, 3);
    qn_labeller *l;
    qn_label_answer answer = {0}, again = {0};
    float x[FEATURES] = {0, 0, 0, 0, 0}, bad[FEATURES] = {0, NAN, 0, 0, 0};
    options.n_classes = 10000;
    CHECK_FAILS(qn_labeller_create(&options, &l), QN_ERROR_ARGUMENT, "1 to 1000");
    options.n_classes = 2;
    options.n_samples = 1;
    CHECK_FAILS(qn_labeller_create(&options, &l), QN_ERROR_ARGUMENT, "at least 2");
    options.n_samples = N_LABELLED;
    m.x[7] = INFINITY;
    CHECK_FAILS(qn_labeller_create(&options, &l), QN_ERROR_ARGUMENT, "labelled sample 2: number 3");
    options = make(&m, 3);
    CHECK_OK(qn_labeller_create(&options, &l));
    CHECK_OK(qn_labeller_add(l, x, &answer));
    CHECK_FAILS(qn_labeller_add(l, bad, &again), QN_ERROR_ARGUMENT, "number 2 is not finite");
    CHECK(qn_labeller_samples(l) == 1);
    CHECK_FAILS(qn_labeller_revise(l, 1, NULL, &again), QN_ERROR_ARGUMENT, "1 are kept");
    CHECK_FAILS(qn_labeller_rename(l, "nobody", "x"), QN_ERROR_ARGUMENT, "no class is named");
    CHECK_FAILS(qn_labeller_rename(l, "0", "a\nb"), QN_ERROR_ARGUMENT, "line break");
    CHECK_FAILS(qn_labeller_rename(l, "0", "new-7"), QN_ERROR_ARGUMENT, "found in the stream");
    CHECK_FAILS(qn_labeller_rename(l, "0", ""), QN_ERROR_ARGUMENT, "1 to 63");
    CHECK_OK(qn_labeller_rename(l, "0", "a, \"b\""));
    qn_labeller_destroy(l);
}

/* Constant columns, one class, duplicates without end, far outliers: answers stay numbers. */
static void test_hostile(void) {
    enum { D = 3, N = 40 };
    float x[N * D];
    int32_t label[N] = {0};
    for (int i = 0; i < N; i++) {
        x[i * D] = 5.0f;
        x[i * D + 1] = (float)(i % 7);
        x[i * D + 2] = i == 3 ? 1e30f : (float)(i % 2);
    }
    qn_labeller *l;
    CHECK_OK(qn_labeller_create(&(qn_label_options){QN_OPTIONS_INIT(qn_label_options),
                                                    .n_features = D, .n_classes = 1, .n_samples = N,
                                                    .x = x, .label = label},
                                &l));
    const qn_label_cost cost = qn_labeller_get_cost(l);
    CHECK(cost.bytes < 100000 && cost.mean_flops < 1e6);
    int n_unsound = 0;
    const int n = getenv("QUERN_SLOW") ? 4000 : 20000;
    for (int i = 0; i < n; i++) {
        const float far[D] = {5.0f, 1e38f, i % 3 ? -1e38f : 1e30f}, same[D] = {5.0f, 2.0f, 1.0f};
        qn_label_answer answer = {0};
        n_unsound += qn_labeller_add(l, i < n / 2 || i % 50 ? same : far, &answer) != QN_OK;
        n_unsound += !(answer.confidence >= 0 && answer.confidence <= 1.001f);
    }
    CHECK(n_unsound == 0);
    CHECK(qn_labeller_class_count(l) <= 1 + QN_LABEL_MAX_NEW);
    qn_labeller_destroy(l);
}

/* A thousand known classes on a grid, and a new one far from it. */
static void test_many_classes(const char *path) {
    enum { N = QN_LABEL_MAX_KNOWN, D = 2, SIDE = 32 };
    static float x[3 * N * D];
    static int32_t label[3 * N];
    const qn_rng rng = qn_rng_make(51, 9, 0);
    qn_labeller *l;
    int n_right = 0, n_new = 0;
    for (int i = 0; i < 3 * N; i++) {
        label[i] = i % N;
        x[i * D] = (float)(i % N / SIDE) + 0.08f * (float)qn_rng_normal(rng, (uint64_t)i * 2);
        x[i * D + 1] =
            (float)(i % N % SIDE) + 0.08f * (float)qn_rng_normal(rng, (uint64_t)i * 2 + 1);
    }
    CHECK_OK(qn_labeller_create(&(qn_label_options){QN_OPTIONS_INIT(qn_label_options),
                                                    .n_features = D, .n_classes = N,
                                                    .n_samples = 3 * N, .x = x, .label = label},
                                &l));
    CHECK_OK(qn_labeller_save(l, path));
    qn_labeller_destroy(l);
    CHECK_OK(qn_labeller_load(NULL, path, &l));
    for (int i = 0; i < 600; i++) {
        const float far[D] = {-9.0f, (float)(i % 7) * 0.1f};
        qn_label_answer answer = {0};
        CHECK_OK(qn_labeller_add(l, i % 3 ? x + (ptrdiff_t)i * D : far, &answer));
        n_right += i % 3 && answer.label == label[i];
        n_new += i % 3 == 0 && (answer.label < 0 || answer.label >= N);
    }
    printf("of many classes: %d of 400 right, %d of 200 new\n", n_right, n_new);
    CHECK(n_right > 360 && n_new > 180);
    qn_labeller_destroy(l);
}

/* A class that is found gets a name, keeps it while it is away, and has it when it comes back. */
static void test_names(const char *path) {
    static made m;
    const qn_label_options options = make(&m, 5);
    qn_labeller *l;
    qn_label_answer answer;
    float x[FEATURES];
    qn_rng rng = qn_rng_make(9, 9, 9);
    uint64_t drawn = 0;
    CHECK_OK(qn_labeller_create(&options, &l));
    int n_boots = 0;
    for (int i = 0; i < 4200; i++) {
        const bool is_there = i < 900 || i > 3000;
        qn_rbf_draw(&m.rbf, true, x);
        if (is_there && i % 3 == 0)
            for (int j = 0; j < FEATURES; j++)
                x[j] = 6.0f + 0.05f * (float)qn_rng_normal(rng, drawn++);
        CHECK_OK(qn_labeller_add(l, x, &answer));
        if (i == 900)
            for (int k = 2; k < qn_labeller_class_count(l); k++) {
                const qn_label_class c = qn_labeller_class_at(l, k);
                if (c.n_members > 100)
                    CHECK_OK(qn_labeller_rename(l, c.name, "boots"));
            }
        n_boots +=
            i > 3000 && i % 3 == 0 && strcmp(qn_labeller_name_of(l, answer.label), "boots") == 0;
    }
    CHECK(n_boots > 350);
    CHECK_OK(qn_labeller_save(l, path));
    qn_labeller_destroy(l);
    CHECK_OK(qn_labeller_load(NULL, path, &l));
    bool is_named = false;
    for (int k = 0; k < qn_labeller_class_count(l); k++)
        is_named |= strcmp(qn_labeller_class_at(l, k).name, "boots") == 0;
    CHECK(is_named);
    qn_labeller_destroy(l);
}

/* Rows of a number and two texts: which class a row is of, is said by its texts. The new class has
 * texts of its own (number 3, which no labelled sample has, or -1). */
static int draw_texts(int64_t i, bool known_only, float *x) {
    const qn_rng rng = qn_rng_make(21, 6, (uint64_t)i);
    const int class = (int)qn_rng_below(rng, 0, known_only ? 2 : 3);
    x[0] = (float)qn_rng_normal(rng, 1);
    x[1] = (float)(qn_rng_below(rng, 2, 10) == 0 ? 1 - (class & 1) : class & 1);
    x[2] = class == 2 ? (float)((int)qn_rng_below(rng, 3, 2) * 4 - 1) : 0.0f;
    return class;
}

static qn_label_options make_texts(made *m, int n) {
    static const char *const colours[] = {"red", "blue"}, *const shapes[] = {"a", "b", "c", "d"};
    static const qn_data_column columns[] = {
        {"size", 0, NULL}, {"colour", 2, colours}, {"shape", 4, shapes}};
    for (int i = 0; i < n; i++)
        m->label[i] = draw_texts(i, true, m->x + (ptrdiff_t)3 * i);
    return (qn_label_options){QN_OPTIONS_INIT(qn_label_options),
                              .n_features = 3,
                              .n_classes = 2,
                              .n_samples = n,
                              .x = m->x,
                              .label = m->label,
                              .seed = 1,
                              .columns = columns};
}

static void test_texts(const char *path) {
    static made m;
    const qn_label_options options = make_texts(&m, N_LABELLED);
    qn_label_score ours = {0};
    qn_labeller *l, *back;
    float x[3], again[3];
    CHECK_OK(qn_labeller_create(&options, &l));
    CHECK(qn_labeller_features(l) == 3 && !qn_labeller_has_texts(l, 0));
    CHECK(qn_labeller_has_texts(l, 1) && qn_labeller_number_of(l, 1, "blue") == 1);
    CHECK(qn_labeller_number_of(l, 2, "b") == -1); /* no labelled sample has it */
    for (int i = 0; i < N_STREAM; i++) {
        qn_label_answer answer = {0}, other = {0};
        const int class = draw_texts(N_LABELLED + i, false, x);
        CHECK_OK(qn_labeller_add(l, x, &answer));
        if (i == 300) {
            CHECK_OK(qn_labeller_save(l, path));
            CHECK_OK(qn_labeller_load(NULL, path, &back));
        }
        if (i > 300) {
            CHECK_OK(qn_labeller_add(back, x, &other));
            CHECK(memcmp(&answer, &other, sizeof answer) == 0);
        }
        const bool is_known = answer.label >= 0 && answer.label < 2;
        if (i >= 100)
            qn_label_score_add(&ours, 2, class, is_known ? (int)answer.label : -1);
    }
    CHECK_OK(qn_labeller_revise(back, 0, again, &(qn_label_answer){0}));
    CHECK(fabsf(x[0] - again[0]) < 1e-5f && x[1] == again[1] && again[2] == (x[2] ? -1 : 0));
    CHECK(strcmp(qn_labeller_text_of(back, 1, 1), "blue") == 0 && !*qn_labeller_text_of(l, 2, 3));
    printf("errors with texts: %.2f %%\n", qn_label_error(&ours));
    CHECK(qn_label_error(&ours) < 12.0); /* a tenth of the known ones has the other's colour */
    CHECK(qn_label_missed_new(&ours) < 1.0);
    qn_labeller_destroy(l);
    qn_labeller_destroy(back);
}

/* More texts than there are features: the rarest count as others. */
static void test_many_texts(void) {
    enum { N = 900, TEXTS = 300 };
    static float x[N * 2];
    static int32_t label[N];
    static char names[TEXTS][16];
    const char *texts[TEXTS];
    for (int i = 0; i < TEXTS; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        texts[i] = names[i];
    }
    for (int i = 0; i < N; i++) {
        x[i * 2] = (float)(i % 7);
        x[i * 2 + 1] = (float)(i % 4 < 2 ? i % 3 : i % TEXTS);
        label[i] = i % 2;
    }
    const qn_data_column columns[] = {{"n", 0, NULL}, {"t", TEXTS, texts}};
    qn_label_options options = {QN_OPTIONS_INIT(qn_label_options),
                                .n_features = 2,
                                .n_classes = 2,
                                .n_samples = N,
                                .x = x,
                                .label = label,
                                .columns = columns};
    qn_labeller *l;
    int n_told = 0;
    CHECK_OK(qn_labeller_create(&options, &l));
    for (int i = 0; i < TEXTS; i++)
        n_told += qn_labeller_number_of(l, 1, texts[i]) == i;
    CHECK(n_told == QN_LABEL_MAX_FEATURES - 1);
    CHECK(qn_labeller_number_of(l, 1, "t0") == 0 && qn_labeller_number_of(l, 1, "t2") == 2);
    qn_labeller_destroy(l);
}

/* Memory that runs out, and damage, are tried with labellers of every kind. */
enum { PLAIN, SPIRAL, TEXTS, KINDS };

static void test_memory_runs_out(const char *path, int kind) {
    static made m;
    const bool is_spiral = kind == SPIRAL;
    qn_label_options options = is_spiral       ? make_spiral(&m, 200)
                               : kind == TEXTS ? make_texts(&m, 60)
                                               : make(&m, 3);
    options.n_samples = is_spiral ? 200 : 60;
    for (int n = 0; n < 60; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        options.allocator = &allocator;
        qn_labeller *l = NULL;
        qn_status status = qn_labeller_create(&options, &l);
        if (status == QN_OK)
            status = qn_labeller_save(l, path);
        qn_labeller_destroy(l);
        l = NULL;
        if (status == QN_OK)
            status = qn_labeller_load(&allocator, path, &l);
        qn_labeller_destroy(l);
        CHECK(f.held_bytes == 0);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        if (status == QN_OK) {
            CHECK(has_text(path, "\"examples\"") || !is_spiral);
            return;
        }
    }
    CHECK(!"every allocation failed");
}

/* Every byte of the header, and some of the rest, changed: refused, or a labeller that works. */
static void test_damaged(const char *path) {
    FILE *file = fopen(path, "rb");
    static unsigned char bytes[1 << 18];
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    int n_loaded = 0;
    for (size_t at = 0; at < n; at += at < 600 ? 7 : 997) {
        bytes[at] ^= 0x55;
        file = fopen(path, "wb");
        fwrite(bytes, 1, n, file);
        fclose(file);
        bytes[at] ^= 0x55;
        qn_labeller *l = NULL;
        qn_label_answer answer;
        const float x[FEATURES] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f};
        if (qn_labeller_load(NULL, path, &l) == QN_OK && qn_labeller_features(l) <= FEATURES)
            for (int i = 0; i < 30; i++)
                n_loaded += qn_labeller_add(l, x, &answer) == QN_OK;
        qn_labeller_destroy(l);
    }
    CHECK(n_loaded >= 0);
}

int main(void) {
    char path[] = "/tmp/quern-label-XXXXXX";
    close(mkstemp(path));
    test_densities();
    test_near_the_best();
    test_examples(path);
    test_slanted(path);
    test_among_labelled();
    test_few_labelled(path);
    test_cut_anywhere(path);
    test_refused();
    test_hostile();
    test_many_classes(path);
    test_names(path);
    test_texts(path);
    test_many_texts();
    for (int kind = PLAIN; kind < KINDS; kind++) {
        test_memory_runs_out(path, kind);
        test_damaged(path);
    }
    unlink(path);
    return checks_finish();
}
