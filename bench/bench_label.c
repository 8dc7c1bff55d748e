/* What labelling pictures costs in processor time, as quern does it and as a plain implementation
 * would, one sample at a time. Usage: bench_label [SAMPLES [WATTS]]
 * SAMPLES (3000) pictures of 28 x 28 with drawn contents, of which 6 classes are known, are
 * labelled; per sample are printed the answer, the lessons' pieces and the longest of them. The
 * same work one at a time: each pair of views a training step of its own, each picture embedded
 * alone, as many as the lessons had, the first one's included; all else costs what it costs here.
 * A plain implementation besides takes twice the steps in later lessons, at half of the rate, as
 * quern did before: its labels are no better (docs/labelling.md).
 * Energy is processor time times WATTS of a busy core (default 4), so it is modelled; the ratio
 * does not depend on them. */
#include "base/rng.h"
#include "label/network/net.h"
#include "os/heap.h"
#include "os/os.h"
#include "quern/label.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 28, N = SIDE * SIDE, KNOWN = 6, EACH = 50, TRIES = 60 };

/* A picture of a class: a bar at an angle of its own, with noise. */
static void draw(uint64_t number, int class, float *x) {
    const qn_rng rng = qn_rng_make(7, 1, number);
    float u[N + 4];
    qn_rng_uniforms(rng, 0, N + 4, u);
    const float a = 0.7f * (float)class + 0.2f * u[0], c = 14 + 6 * (u[1] - 0.5f);
    for (int i = 0; i < N; i++) {
        const float h = (float)(i / SIDE) - c, w = (float)(i % SIDE) - 14;
        const float off = h - w * (a - 2);
        x[i] =
            (float)(int)((off * off < 6 ? 200.0f : 20.0f) * (0.7f + 0.3f * u[2]) + 30 * u[4 + i]);
    }
}

typedef struct cost {
    double answer_ns, work_ns, longest_ns;
    double pairs, embedded; /* a sample: pairs of views learned, pictures embedded */
} cost;

static void fail(void) {
    fprintf(stderr, "bench_label: %s\n", qn_error_message());
    exit(1);
}

static qn_labeller *make(void) {
    static float x[KNOWN * EACH * N];
    static int32_t label[KNOWN * EACH];
    qn_labeller *l;
    for (int i = 0; i < KNOWN * EACH; i++) {
        label[i] = i % KNOWN;
        draw((uint64_t)i, label[i], x + (size_t)i * N);
    }
    const qn_label_options o = {QN_OPTIONS_INIT(qn_label_options),
                                .n_features = N,
                                .n_classes = KNOWN,
                                .n_samples = KNOWN * EACH,
                                .x = x,
                                .label = label,
                                .seed = 1,
                                .sample = {.rank = 3, .dims = {SIDE, SIDE, 1}},
                                .n_threads = 1};
    if (qn_labeller_create(&o, &l) != QN_OK)
        fail();
    return l;
}

/* Labels n samples; between two of them all work that is due is done. */
static cost label(qn_labeller *l, int n) {
    cost c = {.embedded = (double)l->net->n_labelled / n};
    float x[N];
    qn_label_answer answer;
    for (int s = 0; s < n; s++) {
        draw((uint64_t)(1000000 + s), s % (KNOWN + (s > n / 2)), x);
        int64_t begin = qn_thread_cpu_ns();
        if (qn_labeller_add(l, x, &answer) != QN_OK)
            fail();
        c.answer_ns += (double)(qn_thread_cpu_ns() - begin) / n;
        if (qn_lesson_before(s + 1) == s + 1)
            c.embedded += (double)qn_net_used(l->net) / n;
        for (bool is_left = true; is_left;) {
            begin = qn_thread_cpu_ns();
            if (qn_labeller_work(l, &is_left) != QN_OK)
                fail();
            const double ns = (double)(qn_thread_cpu_ns() - begin);
            c.work_ns += ns / n;
            c.longest_ns = ns > c.longest_ns ? ns : c.longest_ns;
        }
    }
    c.pairs = (double)l->net->lesson.n_drawn / n;
    return c;
}

static qn_embedder *make_embedder(int n_pairs) {
    qn_embedder *e;
    const qn_embedder_options o = {.allocator = qn_allocator_or_default(NULL),
                                   .sample = {.rank = 3, .dims = {SIDE, SIDE, 1}},
                                   .n_outputs = 80,
                                   .n_pairs = n_pairs,
                                   .seed = 1,
                                   .n_threads = 1};
    if (qn_embedder_create(&o, &e) != QN_OK)
        fail();
    return e;
}

/* Nanoseconds of two views, of a training step for each of its pairs, and of embedding n for each:
 * the least of some tries. */
static double time_views(const qn_label_net *net) {
    static float x[N], room[N];
    double least = 1e30;
    for (int i = 0; i < TRIES; i++) {
        const int64_t begin = qn_thread_cpu_ns();
        for (int view = 0; view < 2 * QN_NET_PAIRS; view++)
            qn_view_make(net->sample, net->scale, 1, (uint64_t)view, net->bytes, x, room);
        const double ns = (double)(qn_thread_cpu_ns() - begin);
        least = ns < least ? ns : least;
    }
    return least / QN_NET_PAIRS;
}

static double time_step(qn_embedder *e, int n_pairs, const float *x) {
    int32_t taught[2 * QN_NET_PAIRS] = {0};
    double least = 1e30;
    float loss;
    for (int i = 0; i < TRIES; i++) {
        const int64_t begin = qn_thread_cpu_ns();
        if (qn_embedder_step(e, x, taught, &loss) != QN_OK)
            fail();
        const double ns = (double)(qn_thread_cpu_ns() - begin);
        least = ns < least ? ns : least;
    }
    return least / n_pairs;
}

static double time_embedding(qn_embedder *e, int n, const float *x) {
    static float z[QN_EMBEDDER_MANY * QN_EMBEDDER_WIDTH];
    double least = 1e30;
    for (int i = 0; i < TRIES; i++) {
        const int64_t begin = qn_thread_cpu_ns();
        if (qn_embedder_embed(e, x, n, z) != QN_OK)
            fail();
        const double ns = (double)(qn_thread_cpu_ns() - begin);
        least = ns < least ? ns : least;
    }
    return least / n;
}

int main(int argc, char **argv) {
    static float x[QN_EMBEDDER_MANY * N];
    const int n = argc > 1 ? atoi(argv[1]) : 3000;
    const double watts = argc > 2 ? atof(argv[2]) : 4;
    qn_labeller *l = make();
    const cost c = label(l, n);
    qn_embedder *many = make_embedder(QN_NET_PAIRS), *one = make_embedder(1);
    for (int i = 0; i < QN_EMBEDDER_MANY; i++)
        draw((uint64_t)i, i % KNOWN, x + (size_t)i * N);
    const double step = time_step(many, QN_NET_PAIRS, x), step_one = time_step(one, 1, x);
    const double embedding = time_embedding(many, QN_EMBEDDER_MANY, x);
    const double embedding_one = time_embedding(many, 1, x);
    const double views = time_views(l->net), all = c.answer_ns + c.work_ns;
    const double plain =
        all + c.pairs * (step_one - step) + c.embedded * (embedding_one - embedding);
    const double first = (double)QN_NET_FIRST_STEPS * QN_NET_PAIRS / n;
    const double twice = plain + (c.pairs - first) * (step_one + views);
    printf("a sample: answer %.3f ms, learning %.3f ms, longest piece %.2f ms\n",
           c.answer_ns * 1e-6, c.work_ns * 1e-6, c.longest_ns * 1e-6);
    printf("a pair: views %.3f ms, learned %.3f ms of %d at once, %.3f ms alone; a picture "
           "embedded: %.3f ms of %d at once, %.3f ms alone\n",
           views * 1e-6, step * 1e-6, QN_NET_PAIRS, step_one * 1e-6, embedding * 1e-6,
           QN_EMBEDDER_MANY, embedding_one * 1e-6);
    printf("for a sample: %.1f pairs learned, %.1f pictures embedded\n", c.pairs, c.embedded);
    printf("energy of a sample at %.1f W (modelled): %.2f mJ; one at a time %.2f mJ: %.2f of it; "
           "besides with twice the steps %.2f mJ: %.2f of it\n",
           watts, all * watts * 1e-6, plain * watts * 1e-6, all / plain, twice * watts * 1e-6,
           all / twice);
    qn_embedder_destroy(many);
    qn_embedder_destroy(one);
    qn_labeller_destroy(l);
    return 0;
}
