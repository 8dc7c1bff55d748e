/* A labeller with a network: a class that appears in the stream is found, the same labels however a
 * stream is cut, hostile samples, damaged files, and matching found classes with true ones. */
#include "quern/label.h"

#include "base/rng.h"
#include "check.h"
#include "label/bench/others.h"
#include "label/matching.h"
#include "label/network/arrivals.h"
#include "label/network/groups.h"
#include "label/network/head.h"
#include "label/network/pose.h"
#include "label/network/views.h"
#include "os/heap.h"
#include "os/os.h"
#include "quern/data.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 8, VALUES = SIDE * SIDE, N_LABELLED = 60, N_STREAM = 700, NEW_FROM = 310 };

/* A picture of a class: a bright bar at its third of the height, on a dark and noisy ground. */
static void draw(int class, uint64_t number, float *x) {
    const qn_rng rng = qn_rng_make(7, 1, number);
    for (int i = 0; i < VALUES; i++) {
        const int row = i / SIDE, from = class * 3;
        const bool is_bright = row >= from && row < from + 2;
        x[i] = (float)qn_rng_below(rng, (uint64_t)i, 50) + (is_bright ? 180.0f : 0.0f);
    }
}

static int class_at(int i) {
    return i < NEW_FROM ? i % 2 : i % 3;
}

static qn_labeller *make(void) {
    static float x[N_LABELLED * VALUES];
    static int32_t label[N_LABELLED];
    qn_labeller *l = NULL;
    for (int i = 0; i < N_LABELLED; i++) {
        label[i] = i % 2;
        draw(i % 2, 10000 + (uint64_t)i, x + i * VALUES);
    }
    CHECK_OK(qn_labeller_create(&(qn_label_options){QN_OPTIONS_INIT(qn_label_options),
                                                    .n_features = VALUES, .n_classes = 2,
                                                    .n_samples = N_LABELLED, .x = x, .label = label,
                                                    .seed = 1, .sample = QN_SHAPE(SIDE, SIDE, 1)},
                                &l));
    return l;
}

static void label(qn_labeller *l, int from, int to, qn_label_answer *answers) {
    for (int i = from; i < to; i++) {
        float x[VALUES];
        draw(class_at(i), (uint64_t)i, x);
        CHECK_OK(qn_labeller_add(l, x, &answers[i]));
    }
}

static void test_a_class_appears(qn_labeller *l, const qn_label_answer *answers) {
    int right = 0, n_new = 0, found = 0;
    for (int i = 0; i < N_STREAM; i++) {
        qn_label_answer now;
        CHECK_OK(qn_labeller_revise(l, N_STREAM - 1 - i, NULL, &now));
        n_new += class_at(i) == 2;
        found += class_at(i) == 2 && now.label >= 2 && now.is_new > 0.5f;
        right += class_at(i) < 2 && answers[i].label == class_at(i);
    }
    CHECK(found > 0.8 * n_new);
    CHECK(right > 0.9 * (N_STREAM - n_new));
    const int n = qn_labeller_class_count(l);
    double share = 0;
    CHECK(n >= 3);
    for (int i = 0; i < n; i++)
        share += qn_labeller_class_at(l, i).share;
    CHECK(fabs(share - 1) < 1e-9);
    CHECK(qn_labeller_sample(l).dims[0] == SIDE && qn_labeller_features(l) == VALUES);
    CHECK(qn_labeller_get_cost(l).bytes > 100000);
}

/* Saved and loaded before, while and after there is a lesson, labels and file are the same; also if
 * some of its pieces are done while nothing else is. */
static void test_cuts(const char *path, const qn_label_answer *whole, const char *file,
                      size_t n_file) {
    static qn_label_answer answers[N_STREAM];
    qn_labeller *l = make();
    char *text;
    size_t bytes;
    bool is_left = false;
    const int cuts[] = {0, 250, 345, 601, 680, N_STREAM};
    for (int i = 0; i < 5; i++) {
        label(l, cuts[i], cuts[i + 1], answers);
        for (int piece = 0; piece < 5 && i % 3 == 0; piece++) {
            CHECK_OK(qn_labeller_work(l, &is_left));
            CHECK(is_left == (i == 3));
        }
        CHECK_OK(qn_labeller_save(l, path));
        qn_labeller_destroy(l);
        CHECK_OK(qn_labeller_load(NULL, path, &l));
    }
    CHECK(memcmp(answers, whole, sizeof answers) == 0);
    CHECK_OK(qn_labeller_save(l, path));
    CHECK_OK(qn_file_read_whole(NULL, path, &text, &bytes));
    CHECK(bytes == n_file && memcmp(text, file, bytes) == 0);
    qn_release(qn_allocator_default(), text, bytes + 1, 1);
    qn_labeller_destroy(l);
}

static void test_mistakes(qn_labeller *l, const char *path, const char *file, size_t n_file) {
    float x[VALUES];
    qn_label_answer answer;
    qn_labeller *other;
    const int64_t before = qn_labeller_samples(l);
    draw(0, 1, x);
    x[3] = NAN;
    CHECK_FAILS(qn_labeller_add(l, x, &answer), QN_ERROR_ARGUMENT, "number 4 is not finite");
    CHECK(qn_labeller_samples(l) == before);
    CHECK_FAILS(qn_labeller_revise(l, 5000, x, &answer), QN_ERROR_ARGUMENT, "not available");
    const int32_t labels[2] = {0, 1};
    const qn_label_options wrong = {QN_OPTIONS_INIT(qn_label_options),
                                    .n_features = VALUES,
                                    .n_classes = 2,
                                    .n_samples = 2,
                                    .x = x,
                                    .label = labels,
                                    .sample = QN_SHAPE(SIDE, SIDE, 2)};
    x[3] = 0;
    CHECK_FAILS(qn_labeller_create(&wrong, &other), QN_ERROR_ARGUMENT, "(H, W, C)");
    /* A file of which any part is missing is refused. */
    for (size_t n = 0; n < n_file; n += 1 + n_file / 16) {
        FILE *to = fopen(path, "wb");
        fwrite(file, 1, n, to);
        fclose(to);
        CHECK(qn_labeller_load(NULL, path, &other) != QN_OK);
    }
}

/* More new names than there are places for: an error, and the file that follows is the same. */
static void test_full(qn_labeller *l, const char *path) {
    enum { N = QN_LABEL_MAX_NEW + 1 };
    int64_t ages[N];
    char texts[N][16], *before, *after;
    const char *names[N];
    size_t n_before, n_after;
    for (int i = 0; i < N; i++) {
        ages[i] = 300 + i;
        snprintf(texts[i], sizeof texts[i], "told-%d", i);
        names[i] = texts[i];
    }
    CHECK_OK(qn_labeller_save(l, path));
    CHECK_OK(qn_file_read_whole(NULL, path, &before, &n_before));
    CHECK_FAILS(qn_labeller_tell(l, N, ages, names), QN_ERROR_ARGUMENT, "no room for the class");
    CHECK_OK(qn_labeller_save(l, path));
    CHECK_OK(qn_file_read_whole(NULL, path, &after, &n_after));
    CHECK(n_before == n_after && memcmp(before, after, n_before) == 0);
    qn_release(qn_allocator_default(), before, n_before + 1, 1);
    qn_release(qn_allocator_default(), after, n_after + 1, 1);
}

/* Answers label the samples like theirs, and stay when a lesson comes; saved and loaded, the same
 * follows from them. */
static void test_answers(const char *path, const char *file, size_t n_file) {
    qn_labeller *l;
    qn_label_question questions[4];
    qn_label_answer answers[2][N_STREAM + 600];
    int64_t ages[4];
    const char *names[4];
    int n, right = 0, n_new = 0;
    FILE *to = fopen(path, "wb");
    fwrite(file, 1, n_file, to);
    fclose(to);
    CHECK_OK(qn_labeller_load(NULL, path, &l));
    CHECK_OK(qn_labeller_ask(l, 4, questions, &n));
    CHECK(n >= 1 && questions[0].n_members > 10);
    for (int i = 0; i < n; i++) {
        static const char *const of[3] = {"low", "middle", "high"};
        ages[i] = questions[i].age;
        names[i] = of[class_at((int)(qn_labeller_samples(l) - 1 - ages[i]))];
        CHECK(i == 0 || ages[i] != ages[i - 1]);
    }
    CHECK_FAILS(qn_labeller_tell(l, 1, &(int64_t){5000}, names), QN_ERROR_ARGUMENT,
                "not available");
    CHECK_FAILS(qn_labeller_tell(l, 1, ages, &(const char *){"a\nb"}), QN_ERROR_ARGUMENT,
                "line break");
    test_full(l, path);
    CHECK_OK(qn_labeller_tell(l, n, ages, names));
    for (int i = NEW_FROM; i < N_STREAM; i++) {
        qn_label_answer now;
        CHECK_OK(qn_labeller_revise(l, qn_labeller_samples(l) - 1 - i, NULL, &now));
        n_new += class_at(i) == 2;
        right += class_at(i) == 2 && strcmp(qn_labeller_name_of(l, now.label), "high") == 0;
    }
    CHECK(right > 0.9 * n_new);
    CHECK_OK(qn_labeller_save(l, path));
    for (int round = 0; round < 2; round++) {
        qn_label_answer now;
        for (int i = N_STREAM; i < N_STREAM + 600; i++) {
            float x[VALUES];
            draw(class_at(i), (uint64_t)i, x);
            CHECK_OK(qn_labeller_add(l, x, &answers[round][i]));
        }
        for (int i = 0; i < n; i++) { /* a lesson later */
            CHECK_OK(qn_labeller_revise(l, ages[i] + 600, NULL, &now));
            CHECK(strcmp(qn_labeller_name_of(l, now.label), names[i]) == 0 && now.confidence == 1);
        }
        qn_labeller_destroy(l);
        if (round == 0)
            CHECK_OK(qn_labeller_load(NULL, path, &l));
    }
    CHECK(memcmp(answers[0] + N_STREAM, answers[1] + N_STREAM, 600 * sizeof **answers) == 0);
}

enum { LATE_FROM = 700, N_LATE = 1310 };

static int late_class_at(int i) {
    return i < LATE_FROM ? i % 2 : i % 3;
}

/* Labels of two labellers for all samples that are kept are the same. */
static void check_same_labels(const qn_labeller *a, const qn_labeller *b) {
    CHECK(qn_labeller_kept(a) == qn_labeller_kept(b));
    for (int64_t age = 0; age < qn_labeller_kept(a); age++) {
        qn_label_answer x, y;
        CHECK_OK(qn_labeller_revise(a, age, NULL, &x));
        CHECK_OK(qn_labeller_revise(b, age, NULL, &y));
        CHECK(memcmp(&x, &y, sizeof x) == 0);
    }
}

/* A review after n samples, of a labeller and of what its file says of it. Both go on alike. */
static void review(qn_labeller *l, const char *path, int n) {
    qn_labeller *other;
    int64_t n_changed = -1, n_other = -1;
    int right = 0, n_new = 0;
    CHECK_OK(qn_labeller_save(l, path));
    CHECK_OK(qn_labeller_load(NULL, path, &other));
    check_same_labels(l, other);
    CHECK_OK(qn_labeller_review(l, &n_changed));
    CHECK_OK(qn_labeller_review(other, &n_other));
    CHECK(n_changed >= 0 && n_changed == n_other);
    check_same_labels(l, other);
    for (int i = LATE_FROM; i < n; i++) {
        qn_label_answer now;
        CHECK_OK(qn_labeller_revise(l, n - 1 - i, NULL, &now));
        n_new += late_class_at(i) == 2;
        right += late_class_at(i) == 2 ? now.label >= 2 : now.label == late_class_at(i);
    }
    CHECK(n_new > 100 && right > 0.9 * (n - LATE_FROM));
    CHECK_OK(qn_labeller_save(other, path));
    qn_labeller_destroy(other);
    CHECK_OK(qn_labeller_load(NULL, path, &other));
    for (int i = n; i < n + 60; i++) { /* the lesson that was under way ends */
        qn_label_answer x, y;
        float picture[VALUES];
        draw(late_class_at(i), (uint64_t)i, picture);
        CHECK_OK(qn_labeller_add(l, picture, &x));
        CHECK_OK(qn_labeller_add(other, picture, &y));
        CHECK(memcmp(&x, &y, sizeof x) == 0);
    }
    check_same_labels(l, other);
    qn_labeller_destroy(other);
}

/* While a lesson is under way, and while none is; where nothing is new nothing changes. */
static void test_review(const char *path) {
    qn_labeller *l = make();
    int64_t n_changed = -1;
    for (int i = 0; i < N_LATE; i++) {
        qn_label_answer answer;
        float x[VALUES];
        if (i == LATE_FROM) {
            CHECK_OK(qn_labeller_review(l, &n_changed));
            CHECK(n_changed == 0);
        }
        draw(late_class_at(i), (uint64_t)i, x);
        CHECK_OK(qn_labeller_add(l, x, &answer));
        if (i + 1 == N_LATE - 60) {
            review(l, path, N_LATE - 60);
            i += 60;
        }
    }
    review(l, path, N_LATE);
    qn_labeller_destroy(l);
}

/* The samples of the file as a data set: the labelled ones, and those of the stream with what they
 * were labelled as; classes of one name are one. */
static void test_data_set(qn_labeller *l, const char *path) {
    char name[64];
    qn_data_source source;
    int n_right = 0;
    snprintf(name, sizeof name, "labelled:%s", path);
    for (int i = qn_labeller_class_count(l) - 1; i >= 2; i--)
        CHECK_OK(qn_labeller_rename(l, qn_labeller_class_at(l, i).name, "bar"));
    CHECK_OK(qn_labeller_save(l, path));
    CHECK_OK(qn_data_open(
        name, &(qn_data_options){QN_OPTIONS_INIT(qn_data_options), .holdout = 0.1}, &source));
    CHECK(source.preparation.n_classes == 3 && source.dtype == QN_U8);
    CHECK(strcmp(source.preparation.class_names[2], "bar") == 0);
    CHECK(source.n_samples[QN_TRAIN] + source.n_samples[QN_TEST] == N_LABELLED + N_STREAM);
    CHECK(llabs(source.n_samples[QN_TEST] - (N_LABELLED + N_STREAM) / 10) <
          (N_LABELLED + N_STREAM) / 25);
    for (int64_t i = 0; i < source.n_samples[QN_TRAIN]; i++) {
        uint8_t x[VALUES];
        int32_t class, alone = -1;
        float weight = -1;
        CHECK_OK(source.read(source.self, QN_TRAIN, i, x, &class));
        CHECK_OK(source.read_class(source.self, QN_TRAIN, i, &alone));
        CHECK_OK(source.read_weight(source.self, QN_TRAIN, i, &weight));
        CHECK(alone == class && weight >= 0 && weight <= 1);
        n_right += x[(3 * class) * SIDE] > 150;
    }
    CHECK(n_right > 0.8 * (double)source.n_samples[QN_TRAIN]);
    qn_data_close(&source);
}

/* ---- parts ---- */

static void test_matching(void) {
    const int32_t count[3 * 2] = {5, 4, 6, 1, 0, 0};
    int32_t of[3];
    qn_match(3, 2, count, of);
    CHECK(of[0] == 1 && of[1] == 0 && of[2] == -1);
    qn_match(1, 2, count, of);
    CHECK(of[0] == 0);
}

/* Features of three classes, the third without labels: its clusters are new, and one group. */
static void test_groups(void) {
    enum { N = 700, D = 4, N_KNOWN = 100 };
    static float z[N * D], room[N + 2 * QN_GROUPS_MOST], centre[QN_GROUPS_CLUSTERS * D];
    static int32_t label[N], of[N], history[N];
    const qn_rng rng = qn_rng_make(3, 1, 0);
    for (int i = 0; i < N; i++) {
        label[i] = i < N_KNOWN ? i % 2 : i % 3;
        for (int j = 0; j < D; j++)
            z[i * D + j] =
                (float)qn_rng_normal(rng, (uint64_t)(i * D + j)) + (j == label[i] ? 8.0f : 0.0f);
    }
    qn_groups g = {.centre = centre, .of = of};
    qn_groups_find(&g, &(qn_group_samples){N, N_KNOWN, D, 2, 0, 0, z, label, history, 1}, room);
    int wrong = 0;
    for (int i = N_KNOWN; i < N; i++)
        wrong += (g.group[of[i]] == 0) != (label[i] == 2);
    CHECK(g.n == 1);
    CHECK(wrong < N / 50);
}

/* Two known classes, each in half of the cells, and from a period on a new one in cells of both. */
static void fill_arrivals(qn_arrivals *a, int n_known, int onset) {
    const qn_rng rng = qn_rng_make(8, 1, 0);
    uint64_t drawn = 0;
    a->n_cells = 40;
    a->n_periods = qn_arrivals_periods(3000);
    memset(a->count, 0, QN_ARRIVALS_CELLS * QN_ARRIVALS_PERIODS * sizeof *a->count);
    memset(a->labelled, 0, (size_t)n_known * QN_ARRIVALS_CELLS * sizeof *a->labelled);
    for (int i = 0; i < 400; i++)
        a->labelled[i % 2 * QN_ARRIVALS_CELLS + i % 2 * 20 + (int)qn_rng_below(rng, drawn++, 20)]++;
    for (int i = 0; i < 3000; i++) {
        const int period = i * a->n_periods / 3000, n = period < onset ? 2 : 3;
        const int class = (int)qn_rng_below(rng, drawn++, (uint64_t)n);
        const int cell =
            (class == 2 ? 15 : class * 20) + (int)qn_rng_below(rng, drawn++, class == 2 ? 10 : 20);
        a->count[cell * QN_ARRIVALS_PERIODS + period]++;
    }
}

static void test_arrivals(void) {
    enum { ONSET = 8 };
    float centre[40 * 4] = {0}, p;
    qn_arrivals a;
    for (int k = 0; k < 40; k++)
        centre[4 * k] = (float)k;
    CHECK_OK(qn_arrivals_make(qn_allocator_default(), 2, &a));
    for (int is_there = 0; is_there < 2; is_there++) {
        fill_arrivals(&a, 2, is_there ? ONSET : QN_ARRIVALS_PERIODS);
        qn_arrivals_begin(&a, centre, 4);
        while (qn_arrivals_go_on(&a)) {
        }
        CHECK(a.now.n == is_there);
        CHECK(qn_arrivals_class(&a, 2, ONSET + 4, &p) == 0 && p > 0.6f);
        CHECK(qn_arrivals_class(&a, 37, ONSET + 4, &p) == 1 && p > 0.6f);
        CHECK(qn_arrivals_class(&a, 20, ONSET + 4, &p) == (is_there ? 2 : 1));
        CHECK(qn_arrivals_class(&a, 20, ONSET - 3, &p) == 1);
    }
    CHECK(a.now.onset[0] >= ONSET - 1 && a.now.onset[0] <= ONSET + 1);
    CHECK(qn_arrivals_ratio(&a, 2, 0) < 0.01f && qn_arrivals_ratio(&a, 2, ONSET + 4) > 1.2f);
    qn_arrivals_destroy(&a);
}

/* What is whitened has the covariance 1 within classes; the classifier learns classes of it. */
static void test_head(void) {
    enum { N = 2000, D = 3, OUT = 16 };
    static float z[N * D], weight[N], room[2 * OUT * (D + 1) + 1], w[OUT * (D + 1)];
    static int32_t label[N];
    const qn_rng rng = qn_rng_make(4, 1, 0);
    double sum[D][D] = {{0}}, mean[2][D] = {{0}};
    qn_whitening v;
    const uint8_t is_open[OUT] = {1, 1, 1};
    qn_head head = {D, OUT, w, is_open, 0};
    for (int i = 0; i < N; i++) {
        const float a = (float)qn_rng_normal(rng, 3 * (uint64_t)i),
                    b = (float)qn_rng_normal(rng, 3 * (uint64_t)i + 1);
        label[i] = i % 2;
        weight[i] = 1;
        z[i * D] = 5 * a + 30 * (float)label[i];
        z[i * D + 1] = 3 * a + b;
        z[i * D + 2] = (float)qn_rng_normal(rng, 3 * (uint64_t)i + 2) - b;
    }
    qn_whitening_measure(&v, N, D, z, label, 2, 0, room);
    qn_whitening_apply(&v, N, z);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D; j++)
            mean[label[i]][j] += (double)z[i * D + j] * 2 / N;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D; j++)
            for (int k = 0; k < D; k++)
                sum[j][k] += ((double)z[i * D + j] - mean[label[i]][j]) *
                             ((double)z[i * D + k] - mean[label[i]][k]) / N;
    for (int j = 0; j < D; j++)
        for (int k = 0; k < D; k++)
            CHECK(fabs(sum[j][k] - (j == k)) < 1e-2);
    qn_head_fit(&head, N, z, label, weight, 50, room);
    int right = 0;
    for (int i = 0; i < N; i++) {
        float p[OUT];
        qn_head_look(&head, z + i * D, p);
        right += p[label[i]] > 0.5f;
        CHECK(p[5] == 0);
    }
    CHECK(right > 0.97 * N);
}

/* A view of a sample is a function of its number; without noise and turning, a drift of 0 changes
 * nothing. */
static void test_views(void) {
    uint8_t bytes[VALUES], out[VALUES];
    float x[VALUES], first[VALUES], second[VALUES], room[VALUES];
    const qn_shape s = QN_SHAPE(SIDE, SIDE, 1);
    draw(1, 3, x);
    for (int i = 0; i < VALUES; i++)
        bytes[i] = (uint8_t)x[i];
    qn_view_make(s, (qn_view_scale){10, 0.01f}, 1, 5, bytes, first, room);
    qn_view_make(s, (qn_view_scale){10, 0.01f}, 1, 5, bytes, second, room);
    CHECK(memcmp(first, second, sizeof first) == 0);
    qn_view_make(s, (qn_view_scale){10, 0.01f}, 1, 6, bytes, second, room);
    CHECK(memcmp(first, second, sizeof first) != 0);
    qn_view_show(s, &(qn_pose){{0}}, 1, 1, bytes, out);
    CHECK(memcmp(out, bytes, sizeof out) == 0);
    qn_view_show(s, &(qn_pose){{[QN_POSE_ANGLE] = 0.5f}}, 1, 1, bytes, out);
    CHECK(memcmp(out, bytes, sizeof out) != 0);
}

enum { WIDE = 20, AREA = WIDE * WIDE };

/* A dark picture with two bright bars, whose places depend on the class and a little on chance. */
static void draw_wide(int class, uint64_t number, uint8_t *bytes) {
    const qn_rng rng = qn_rng_make(9, 2, number);
    const int row = 3 + 3 * class + (int)qn_rng_below(rng, 0, 3),
              column = 14 - 3 * class + (int)qn_rng_below(rng, 1, 3);
    for (int i = 0; i < AREA; i++) {
        const int h = i / WIDE, w = i % WIDE;
        const bool is_bright = (h >= row && h < row + 3 && w > 3 && w < 12) ||
                               (w >= column && w < column + 3 && h > 6 && h < 17);
        bytes[i] = is_bright ? 150 : 30;
    }
}

/* The pose of a stream is found though a third of it is of a class without labels. */
static void test_pose(void) {
    enum { N_KNOWN = 40, N = 150 };
    static uint8_t labelled[N_KNOWN * AREA], stream[N * AREA], plain[AREA];
    static int32_t order[N];
    const qn_shape s = QN_SHAPE(WIDE, WIDE, 1);
    const qn_pose poses[] = {
        {{0}},
        {{[QN_POSE_ANGLE] = 0.12f, [QN_POSE_LIGHT] = -0.3f, [QN_POSE_NOISE] = 12}},
        {{[QN_POSE_ANGLE] = -0.1f}},
    };
    float *room = malloc(qn_pose_room(s) * sizeof *room);
    for (int i = 0; i < N_KNOWN; i++)
        draw_wide(i % 2, 1000 + (uint64_t)i, labelled + i * AREA);
    for (size_t p = 0; p < sizeof poses / sizeof *poses; p++) {
        qn_pose found = {{0}};
        for (int i = 0; i < N; i++) {
            draw_wide(i % 3, (uint64_t)i, plain);
            qn_view_show(s, &poses[p], 5, (uint64_t)i, plain, stream + i * AREA);
            order[i] = i;
        }
        qn_pose_measure(&found, &(qn_pose_samples){s, N_KNOWN, N, labelled, stream, order}, room);
        CHECK(qn_pose_is_sound(&found));
        for (int part = 0; part < QN_POSE_PARTS; part++) {
            const float off = found.part[part] - poses[p].part[part];
            CHECK(fabsf(off) < (part == QN_POSE_NOISE ? 4.0f : 0.06f));
        }
    }
    free(room);
}

/* Every other method labels two classes that lie apart; those that find new ones, a third. */
static void test_others(void) {
    enum { N = 400, N_KNOWN = 60, D = 4 };
    static float z[N * D];
    static int32_t label[N], answer[N];
    const qn_rng rng = qn_rng_make(5, 1, 0);
    for (int i = 0; i < N; i++) {
        label[i] = i < N_KNOWN || i % 4 > 0 ? i % 2 : 2;
        for (int j = 0; j < D; j++)
            z[i * D + j] =
                (float)qn_rng_normal(rng, (uint64_t)(i * D + j)) + (j == label[i] ? 9.0f : 0.0f);
    }
    const qn_others others = {qn_allocator_default(), N, N_KNOWN, D, 2, 1, 1, z, label};
    for (int m = 0; qn_other_at(m); m++) {
        int right = 0, n = 0, n_found = 0;
        CHECK_OK(qn_other_at(m)->answer(&others, answer));
        for (int i = N_KNOWN; i < N; i++) {
            CHECK(answer[i] >= 0 && answer[i] < 2 + QN_GROUPS_CLUSTERS);
            n += label[i] < 2;
            right += label[i] < 2 && answer[i] == label[i];
            n_found += label[i] == 2 && answer[i] >= 2;
        }
        const bool finds = strncmp(qn_other_at(m)->name, "rejection", 9) == 0;
        CHECK(right > 0.85 * n);
        CHECK(n_found >= (finds ? 0.8 * (N - N_KNOWN - n) : 0));
    }
}

int main(void) {
    static qn_label_answer answers[N_STREAM];
    char path[] = "labeller-network-XXXXXX";
    char *file;
    size_t n_file;
    close(mkstemp(path));
    test_matching();
    test_groups();
    test_arrivals();
    test_head();
    test_views();
    test_pose();
    test_others();
    qn_labeller *l = make();
    label(l, 0, N_STREAM, answers);
    test_a_class_appears(l, answers);
    CHECK_OK(qn_labeller_save(l, path));
    CHECK_OK(qn_file_read_whole(NULL, path, &file, &n_file));
    test_cuts(path, answers, file, n_file);
    test_data_set(l, path);
    test_answers(path, file, n_file);
    test_review(path);
    test_mistakes(l, path, file, n_file);
    qn_release(qn_allocator_default(), file, n_file + 1, 1);
    qn_labeller_destroy(l);
    unlink(path);
    return checks_finish();
}
