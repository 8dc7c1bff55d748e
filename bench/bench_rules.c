/* Derives the table of rules (docs/rules.md) for this machine's instruction set: every algorithm
 * that can is timed on every convolution of the suite's classifiers, in all passes, in turn; then
 * the numbers in the conditions of the built-in rules are moved, one by one, as long as what the
 * table chooses gets faster. Prints the table in the format of --rules, and as comments what it
 * loses against the fastest algorithm of each convolution, beside the built-in table and the
 * product alone. A number moves only where that saves a thousandth of the time: others are noise.
 *     bench_rules [BATCHES [ROUNDS [MODEL...]]]    as bench_rules 4,16 5 lenet5 resnet18
 * A time is the fastest call of all rounds. With RULES_CSV=FILE each goes there, too. */
#include "device/cpu/cpu.h"
#include "kernels/rules.h"

#include "ops/shared.h"
#include "quern/quern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CASES = 2048, N_THREADS = 2, TURN_NS = 3000000 };

/* One pass of one convolution, and the seconds of the algorithms that can do it. */
typedef struct timed {
    qn_conv2d_shape d;
    qn_conv2d_pass pass;
    unsigned possible;
    double seconds[QN_ALGORITHM_COUNT];
} timed;

static timed cases[MOST_CASES];
static int n_cases, n_rounds = 3;
static qn_isa isa;
static qn_team *team;
static const qn_kernels *table;
static FILE *csv;

static void stop(const char *what) {
    fprintf(stderr, "bench_rules: %s\n", what);
    exit(2);
}

/* ---- the convolutions ---- */

static const void *attribute_of(const qn_node *node, const char *name) {
    const qn_attribute *a = node->op->attributes;
    while (strcmp(a->name, name) != 0)
        a++;
    return (const char *)node->attributes + a->offset;
}

static qn_conv2d_shape shape_of(const qn_graph *graph, const qn_node *node) {
    const qn_window *w = attribute_of(node, "window");
    const qn_shape x = qn_graph_shape(graph, node->inputs[0]);
    const qn_shape filter = qn_graph_shape(graph, node->inputs[1]);
    qn_convolution c;
    if (qn_window_apply(w, x, filter.dims[0], filter.dims[1], filter.dims[2],
                        *(const int *)attribute_of(node, "groups"), &c) != QN_OK)
        stop(qn_error_message());
    return qn_cpu_window(&c, 0);
}

static bool is_known(const timed *t) {
    for (int i = 0; i < n_cases; i++) {
        if (cases[i].pass == t->pass && memcmp(&cases[i].d, &t->d, sizeof t->d) == 0)
            return true;
    }
    return false;
}

static void add_model(const char *name, int64_t batch) {
    const qn_model *model = qn_model_find(name);
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .real = QN_F32};
    qn_graph *graph;
    if (!model || !model->build || qn_graph_create(&options, &graph) != QN_OK)
        stop("no such classifier");
    qn_shape shape = {.rank = model->input.rank + 1, .dims = {batch}};
    for (int i = 0; i < model->input.rank; i++)
        shape.dims[i + 1] = model->input.dims[i];
    const qn_value x = qn_input(graph, "x", shape);
    model->build(graph, model->user, x, qn_model_classes(model, model->input));
    if (qn_graph_finish(graph) != QN_OK)
        stop(qn_error_message());
    for (int i = 0; i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        if (strcmp(node->op->name, "conv2d") != 0)
            continue;
        for (int pass = 0; pass < 3; pass++) {
            const timed t = {.d = shape_of(graph, node), .pass = (qn_conv2d_pass)pass};
            const bool is_needed = pass != QN_CONV2D_BACKWARD_DATA || node->inputs[0].id != x.id;
            if (is_needed && t.d.groups == 1 && !is_known(&t) && n_cases < MOST_CASES)
                cases[n_cases++] = t;
        }
    }
    qn_graph_destroy(graph);
}

/* ---- timing ---- */

static float *floats(int64_t n) {
    float *values = NULL;
    if (posix_memalign((void **)&values, QN_ALIGNMENT, (size_t)n * sizeof *values) != 0)
        stop("out of memory");
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(i * 7 % 13 - 6) / 16;
    return values;
}

typedef struct buffers {
    float *x, *w, *y;
} buffers;

static void run_once(const timed *t, const qn_conv2d_shape *d, const buffers *b, void *space) {
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    if (t->pass == QN_CONV2D_FORWARD)
        table->conv2d_forward(team, d, b->x, b->w, NULL, none, b->y, space);
    else if (t->pass == QN_CONV2D_BACKWARD_DATA)
        table->conv2d_backward_data(team, d, b->y, b->w, b->x, space);
    else
        table->conv2d_backward_filter(team, d, b->x, b->y, b->w, space);
}

/* The fastest call of a turn; what it finds in the caches is its own. */
static double take_turn(const timed *t, const qn_conv2d_shape *d, const buffers *b, void *space) {
    double best = 1e9;
    run_once(t, d, b, space);
    const int64_t begin_ns = qn_clock_ns();
    for (int i = 0; i < 3 || qn_clock_ns() - begin_ns < TURN_NS; i++) {
        const int64_t call_ns = qn_clock_ns();
        run_once(t, d, b, space);
        const double seconds = (double)(qn_clock_ns() - call_ns) * 1e-9;
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* An algorithm that cannot do a shape leaves it to the product, whose workspace shows that. */
static void time_case(timed *t) {
    const qn_conv2d_shape *d = &t->d;
    const buffers b = {floats(d->n * d->h * d->w * d->c), floats(d->k * d->r * d->s * d->c),
                       floats(d->n * d->p * d->q * d->k)};
    qn_conv2d_shape forced[QN_ALGORITHM_COUNT];
    qn_rule rows[QN_ALGORITHM_COUNT];
    qn_rules rules[QN_ALGORITHM_COUNT];
    void *spaces[QN_ALGORITHM_COUNT] = {NULL};
    size_t product_bytes = 0;
    for (int a = 0; a < QN_ALGORITHM_COUNT; a++) {
        rows[a] = (qn_rule){QN_ALL_SETS, QN_ALL_PASSES, (uint8_t)a, 0, {{0}}};
        rules[a] = (qn_rules){1, &rows[a]};
        forced[a] = *d;
        forced[a].rules = &rules[a];
        const size_t bytes = table->conv2d_workspace(&forced[a], t->pass, N_THREADS);
        if (a == QN_ALGORITHM_PRODUCT)
            product_bytes = bytes;
        else if (bytes == product_bytes)
            continue;
        t->possible |= 1u << a;
        t->seconds[a] = 1e9;
        spaces[a] = floats((int64_t)(bytes / sizeof(float)) + 1);
    }
    for (int round = 0; round < n_rounds; round++) {
        for (int a = 0; a < QN_ALGORITHM_COUNT; a++) {
            if (spaces[a])
                t->seconds[a] = fmin(t->seconds[a], take_turn(t, &forced[a], &b, spaces[a]));
        }
    }
    for (int a = 0; a < QN_ALGORITHM_COUNT; a++) {
        if (csv && spaces[a])
            fprintf(csv, "%s,%s,%lld,%lldx%lldx%lld,%lldx%lldx%lld,%s,%.6f\n", qn_isa_name(isa),
                    qn_pass_names[t->pass], (long long)d->n, (long long)d->h, (long long)d->w,
                    (long long)d->c, (long long)d->k, (long long)d->r, (long long)d->s,
                    qn_algorithm_names[a], t->seconds[a] * 1e3);
        free(spaces[a]);
    }
    free(b.x);
    free(b.w);
    free(b.y);
}

/* ---- the table ---- */

/* Mean over the cases of log(time by the rules / least time). */
static double loss_of(const qn_rules *rules) {
    double sum = 0;
    for (int i = 0; i < n_cases; i++) {
        const timed *t = &cases[i];
        const qn_algorithm chosen = qn_rules_choose(rules, isa, t->pass, &t->d, t->possible);
        double least = t->seconds[QN_ALGORITHM_PRODUCT];
        for (int a = 0; a < QN_ALGORITHM_COUNT; a++)
            least = t->possible >> a & 1 ? fmin(least, t->seconds[a]) : least;
        sum += log(t->seconds[chosen] / least);
    }
    return sum / n_cases;
}

/* Whether another number in the condition saves time; it is kept then. */
static bool move(const qn_rules *rules, qn_condition *c, double *loss) {
    static const double factors[] = {0, 0.25, 0.5, 0.75, 1.25, 1.5, 2, 4};
    const int32_t before = c->value;
    int32_t best = before;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        c->value = (int32_t)(before * factors[i] + 0.5);
        const double now = loss_of(rules);
        if (now < *loss - 0.001) {
            *loss = now;
            best = c->value;
        }
    }
    c->value = best;
    return best != before;
}

static void print_rule(const qn_rule *rule) {
    const char *set = "*", *pass = "*";
    for (int i = QN_ISA_REF; i <= QN_ISA_AVX512; i++)
        set = rule->sets == 1 << i ? qn_isa_name((qn_isa)i) : set;
    for (int i = 0; i < 3; i++)
        pass = rule->passes == 1 << i ? qn_pass_names[i] : pass;
    printf("%-8s  %-15s  %-9s", set, pass, qn_algorithm_names[rule->algorithm]);
    for (int i = 0; i < rule->n; i++)
        printf(" %s%s=%d", qn_feature_names[rule->conditions[i].feature],
               rule->conditions[i].is_most ? "<" : ">", rule->conditions[i].value);
    putchar('\n');
}

static double percent(double loss) {
    return 100 * (exp(loss) - 1);
}

static void derive(void) {
    qn_rule rows[QN_MAX_RULES];
    const qn_rules none = {0, rows}, found = {qn_rules_built_in.n, rows};
    memcpy(rows, qn_rules_built_in.rules, (size_t)found.n * sizeof *rows);
    double loss = loss_of(&found);
    const double built_in = loss;
    bool has_moved = true;
    for (int pass = 0; pass < 4 && has_moved; pass++) {
        has_moved = false;
        for (int i = 0; i < found.n; i++) {
            for (int c = 0; c < rows[i].n; c++)
                has_moved |= move(&found, &rows[i].conditions[c], &loss);
        }
    }
    printf("quern rules 1\n# on %s, %d threads, %d convolutions; time above that of the fastest "
           "algorithm of each:\n# product alone %.1f %%, built-in %.1f %%, this table %.1f %%\n",
           qn_isa_name(isa), N_THREADS, n_cases, percent(loss_of(&none)), percent(built_in),
           percent(loss));
    for (int i = 0; i < found.n; i++)
        print_rule(&rows[i]);
}

int main(int argc, char **argv) {
    static const char *const suite[] = {"lenet5",       "alexnet",   "vgg11",      "vgg16",
                                        "resnet18",     "resnet50",  "squeezenet", "mobilenet-v1",
                                        "mobilenet-v2", "googlenet", "xception",   "densenet40"};
    const int n_suite = (int)(sizeof suite / sizeof *suite);
    const char *batches = argc > 1 ? argv[1] : "4,16";
    n_rounds = argc > 2 ? atoi(argv[2]) : n_rounds;
    if (qn_cpu_isa(&isa) != QN_OK || qn_team_create(NULL, N_THREADS, &team) != QN_OK)
        stop(qn_error_message());
    table = qn_kernels_get(QN_F32, isa);
    if (getenv("RULES_CSV") && !(csv = fopen(getenv("RULES_CSV"), "w")))
        stop("RULES_CSV cannot be written");
    for (char *end; *batches; batches = *end ? end + 1 : end) {
        const int64_t batch = strtoll(batches, &end, 10);
        if (end == batches || batch < 1)
            stop("batches are numbers with commas between");
        for (int i = 0; i < (argc > 3 ? argc - 3 : n_suite); i++)
            add_model(argc > 3 ? argv[3 + i] : suite[i], batch);
    }
    for (int i = 0; i < n_cases; i++)
        time_case(&cases[i]);
    derive();
    if (csv)
        fclose(csv);
    qn_team_destroy(team);
    return 0;
}
