/* The operator tests of ONNX itself (Debian's libonnx-testdata): a model of one or few nodes with
 * inputs and the outputs that are right, a folder each. Each trains, too: where an output depends
 * on reals, autodiff's gradient of the whole, in double, agrees with a difference quotient along a
 * random direction. Every test whose operators are all translated must pass, but those of
 * tests/onnx/excluded.txt, a name and the reason a line, which must not. Inputs are tried as what
 * changes from step to step; where a model cannot be built so, as constants: whole numbers first,
 * then all but the first, then all. What is of rank 4 is given with channels last, too. Counts are
 * printed. */
#define _GNU_SOURCE
#include "check.h"
#include "graph_run.h"
#include "os/heap.h"

#include "base/status.h"
#include "onnx/builder.h"

#include <dirent.h>

static const char *data = "/usr/share/libonnx-testdata/data"; /* or the environment's ONNX_TESTS */
static const char *const folders[] = {"node", "simple", "pytorch-operator", "pytorch-converted"};

enum { MOST_TENSORS = 16, LEAST_PASSED = 937, LEAST_TRAINED = 690, NAME = 512 };

/* How inputs are given, each way as often as it is the first that can be built. */
typedef enum way { ALL_CHANGE, WHOLE_FIXED, FIRST_CHANGES, ALL_FIXED, N_WAYS } way;
static const char *const way_names[] = {"all inputs change", "whole numbers are constants",
                                        "all but the first are constants", "all are constants"};

/* ---- files ---- */

typedef struct node_test {
    const char *folder, *name;
    qn_onnx_file *file;
    qn_onnx_file *files[2 * MOST_TENSORS];
    const qn_onnx_tensor *inputs[MOST_TENSORS], *outputs[MOST_TENSORS];
    int n_files, n_inputs, n_outputs;
} node_test;

static int load_tensors(node_test *t, const char *kind, const qn_onnx_tensor **tensors) {
    char path[NAME];
    int n = 0;
    for (; n < MOST_TENSORS; n++) {
        snprintf(path, sizeof path, "%s/%s/%s/test_data_set_0/%s_%d.pb", data, t->folder, t->name,
                 kind, n);
        qn_onnx_file *file;
        if (qn_onnx_tensor_open(qn_allocator_or_default(NULL), path, &file, &tensors[n]) != QN_OK)
            break;
        t->files[t->n_files++] = file;
    }
    return n;
}

static qn_status load(const char *folder, const char *name, node_test *t) {
    char path[NAME];
    *t = (node_test){.folder = folder, .name = name};
    snprintf(path, sizeof path, "%s/%s/%s/model.onnx", data, folder, name);
    QN_TRY(qn_onnx_file_open(qn_allocator_or_default(NULL), path, false, &t->file));
    t->n_inputs = load_tensors(t, "input", t->inputs);
    t->n_outputs = load_tensors(t, "output", t->outputs);
    return QN_OK;
}

static void unload(node_test *t) {
    for (int i = 0; i < t->n_files; i++)
        qn_onnx_file_close(t->files[i]);
    qn_onnx_file_close(t->file);
}

/* Whether all operators are translated. */
static bool is_known(const qn_onnx_model *m) {
    bool is_known = true;
    for (int n = 0; n < m->n_nodes; n++) {
        const qn_onnx_node *node = &m->nodes[n];
        is_known = is_known && !*node->domain &&
                   (strcmp(node->type, "Constant") == 0 || qn_onnx_find_translator(node->type));
    }
    return is_known;
}

/* ---- one run ---- */

/* A model in which inputs may be initialisers, and a graph of it. */
typedef struct attempt {
    const node_test *test;
    qn_onnx_model model;
    qn_onnx_tensor fixed[2 * MOST_TENSORS];
    qn_onnx_value inputs[MOST_TENSORS];
    const qn_onnx_tensor *changing[MOST_TENSORS]; /* (model.n_inputs) */
    qn_value values[MOST_TENSORS];
    bool channels_last, trains; /* trains: in double, with inputs that have gradients */
    qn_arena kept;
    qn_graph *graph;
    qn_onnx_builder builder;
} attempt;

static bool is_fixed(const qn_onnx_tensor *tensor, way how, int input) {
    switch (how) {
    case ALL_CHANGE:
        return false;
    case WHOLE_FIXED:
        return !qn_onnx_type_is_real(tensor->type) && tensor->type != QN_ONNX_BOOL;
    case FIRST_CHANGES:
        return input > 0;
    default:
        return true;
    }
}

static bool is_image(const attempt *a, const qn_onnx_tensor *tensor) {
    return a->channels_last && tensor->n_dims == 4 && qn_onnx_type_is_real(tensor->type);
}

/* A tensor's file may be named otherwise than the input that it is for; inputs left out have none.
 */
static void share_inputs(attempt *a, way how) {
    const qn_onnx_model *m = qn_onnx_file_model(a->test->file);
    a->model = *m;
    a->model.n_initializers = 0;
    a->model.n_inputs = 0;
    for (int i = 0; i < m->n_initializers && i < MOST_TENSORS; i++)
        a->fixed[a->model.n_initializers++] = m->initializers[i];
    for (int i = 0; i < m->n_inputs && i < a->test->n_inputs; i++) {
        const qn_onnx_tensor *tensor = a->test->inputs[i];
        if (is_fixed(tensor, how, i)) {
            a->fixed[a->model.n_initializers] = *tensor;
            a->fixed[a->model.n_initializers++].name = m->inputs[i].name;
        } else {
            a->changing[a->model.n_inputs] = tensor;
            a->inputs[a->model.n_inputs++] = m->inputs[i];
        }
    }
    a->model.initializers = a->fixed;
    a->model.inputs = a->inputs;
}

/* Where element i of the file's order is, of something with channels last. */
static int64_t place_of(qn_shape file, int64_t i, bool channels_last) {
    if (!channels_last)
        return i;
    const int64_t space = qn_shape_count_range(file, 2, file.rank), c = file.dims[1];
    return (i / (space * c) * space + i % space) * c + i / space % c;
}

static qn_status give_inputs(attempt *a) {
    for (int i = 0; i < a->model.n_inputs; i++) {
        const qn_onnx_tensor *tensor = a->changing[i];
        char name[32];
        qn_shape shape;
        QN_TRY(qn_onnx_tensor_shape(tensor, &shape));
        const bool last = is_image(a, tensor);
        const bool is_real = qn_onnx_type_is_real(tensor->type) || tensor->type == QN_ONNX_BOOL;
        if (last)
            shape = QN_SHAPE(shape.dims[0], shape.dims[2], shape.dims[3], shape.dims[1]);
        snprintf(name, sizeof name, "task.input%d", i);
        if (a->trains && qn_onnx_type_is_real(tensor->type))
            a->values[i] =
                qn_parameter(a->graph, name, shape, (qn_initial){QN_INITIAL_UNIFORM, 1}, true);
        else
            a->values[i] =
                is_real ? qn_input(a->graph, name, shape) : qn_index_input(a->graph, name, shape);
        qn_onnx_item *item = qn_onnx_find_item(&a->builder, a->inputs[i].name);
        item->value = a->values[i];
        item->is_image = last;
        item->type = tensor->type;
    }
    return a->graph->status;
}

/* Values of the inputs, and of all sources that start with given ones. */
static void fill(const attempt *a, const graph_run *run) {
    run_fill_given(run);
    for (int i = 0; i < a->model.n_inputs; i++) {
        qn_arena *arena = (qn_arena *)&a->kept;
        const qn_onnx_constant *c = qn_onnx_read_constant(arena, a->changing[i]);
        for (int64_t k = 0; k < c->n; k++)
            run_set(run, a->values[i], place_of(c->shape, k, is_image(a, a->changing[i])),
                    c->reals ? c->reals[k] : (double)c->whole[k]);
    }
}

static bool is_near(double a, double b) {
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-6 + 2e-5 * fabs(b);
}

static double wanted_at(const qn_onnx_constant *c, int64_t i) {
    return c->reals ? c->reals[i] : (double)c->whole[i];
}

/* Against what is right; the text says what is wrong. */
static bool is_right(const attempt *a, const graph_run *run, const qn_onnx_item *item,
                     const qn_onnx_constant *right, char text[NAME]) {
    char is[QN_SHAPE_TEXT], wanted[QN_SHAPE_TEXT];
    const bool is_constant = item->value.id < 0;
    qn_shape shape = is_constant ? item->constant->shape : qn_graph_shape(a->graph, item->value);
    if (item->is_image && shape.rank > 2) {
        const int64_t c = shape.dims[shape.rank - 1];
        memmove(shape.dims + 2, shape.dims + 1, (size_t)(shape.rank - 2) * sizeof *shape.dims);
        shape.dims[1] = c;
    }
    if (!qn_shape_equal(shape, right->shape)) {
        snprintf(text, NAME, "shape %s, not %s", qn_shape_print(shape, is),
                 qn_shape_print(right->shape, wanted));
        return false;
    }
    for (int64_t i = 0; i < right->n; i++) {
        const double is_at = is_constant
                                 ? wanted_at(item->constant, i)
                                 : run_get(run, item->value, place_of(shape, i, item->is_image));
        snprintf(text, NAME, "element %lld is %g, not %g", (long long)i, is_at,
                 wanted_at(right, i));
        if (!is_near(is_at, wanted_at(right, i)))
            return false;
    }
    return true;
}

/* Runs what was built; whether all outputs are right. */
static bool compare(attempt *a, char text[NAME]) {
    const qn_onnx_model *m = &a->model;
    graph_run run = run_create(a->graph);
    bool right = true;
    qn_isa isa;
    CHECK_OK(qn_cpu_isa(&isa));
    fill(a, &run);
    run_all(&run, qn_kernels_get(QN_F32, isa), NULL);
    for (int i = 0; i < m->n_outputs && i < a->test->n_outputs && right; i++) {
        const qn_onnx_item *item = qn_onnx_find_item(&a->builder, m->outputs[i].name);
        const qn_onnx_constant *c = qn_onnx_read_constant(&a->kept, a->test->outputs[i]);
        if (!c) {
            snprintf(text, NAME, "%s", qn_error_message());
            right = false;
            break;
        }
        right = is_right(a, &run, item, c, text);
    }
    run_destroy(&run);
    return right;
}

static qn_status build(attempt *a) {
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options),
                                      .real = a->trains ? QN_F64 : QN_F32, .training = a->trains};
    QN_TRY(qn_graph_create(&options, &a->graph));
    QN_TRY(qn_onnx_builder_init(&a->builder, &a->model, NULL, a->graph, &a->kept));
    QN_TRY(give_inputs(a));
    if (a->model.n_inputs > 0 && qn_graph_shape(a->graph, a->values[0]).rank > 0)
        a->builder.batch = a->builder.file_batch = qn_graph_shape(a->graph, a->values[0]).dims[0];
    QN_TRY(qn_onnx_builder_run(&a->builder));
    for (int i = 0; i < a->model.n_outputs; i++) {
        qn_onnx_item *item = qn_onnx_find_item(&a->builder, a->model.outputs[i].name);
        if (!item->constant && qn_onnx_item_value(&a->builder, item).id < 0)
            return qn_fail(QN_ERROR_UNSUPPORTED, "output %d is not made: %s", i, a->graph->message);
    }
    return qn_graph_finish(a->graph);
}

/* ---- gradients ---- */

enum { MOST_SOURCES = 64 };

typedef struct differentiated {
    qn_value loss, weights;
    qn_value sources[MOST_SOURCES], gradients[MOST_SOURCES];
    int n;
} differentiated;

/* The first output that is made of reals, or QN_NO_VALUE. */
static qn_value find_output(const attempt *a) {
    for (int i = 0; i < a->model.n_outputs; i++) {
        const qn_onnx_item *item = qn_onnx_find_item(&a->builder, a->model.outputs[i].name);
        const qn_value_info *info = qn_graph_value(a->graph, item->value);
        if (info && info->producer >= 0 && qn_onnx_type_is_real(item->type))
            return item->value;
    }
    return QN_NO_VALUE;
}

/* mean(output * weights) and its gradients; false: nothing depends on reals. */
static bool differentiate(attempt *a, differentiated *d) {
    const qn_value y = find_output(a);
    if (y.id < 0)
        return false;
    for (int v = 0; v < a->graph->n_values && d->n < MOST_SOURCES; v++) {
        const qn_value_info *info = a->graph->values[v];
        if (info->producer < 0 && info->trainable && qn_dtype_is_real(info->tensor.dtype))
            d->sources[d->n++] = (qn_value){v};
    }
    d->weights =
        qn_graph_add_source(a->graph, QN_KIND_INPUT, "task.weights", qn_graph_tensor(a->graph, y),
                            (qn_initial){QN_INITIAL_UNIFORM, 1}, false);
    d->loss = qn_mean(a->graph, "task.loss", qn_multiply(a->graph, "task.weighted", y, d->weights));
    return d->n > 0;
}

/* Sources away from ties and kinks, upwards, so that roots and logarithms stay possible. */
static void move_sources(const differentiated *d, const graph_run *run) {
    for (int s = 0; s < d->n; s++) {
        const qn_value_info *info = run->graph->values[d->sources[s].id];
        const qn_rng rng = qn_rng_make(7, qn_hash_text(info->name), 0);
        for (int64_t i = 0; i < qn_shape_count(info->tensor.shape); i++) {
            const double by = (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)i));
            run_set(run, d->sources[s], i,
                    run_get(run, d->sources[s], i) * (1 + 0.01 * by) + 0.003 * by);
        }
    }
    const qn_value_info *info = run->graph->values[d->weights.id];
    const int64_t n = qn_shape_count(info->tensor.shape);
    for (int64_t i = 0; i < n; i++)
        run_set(run, d->weights, i, run_draw(info, i, n));
}

/* The loss where every source is moved by so much along a random direction, and, with slope, the
 * gradient's component along it. */
static double loss_along(const differentiated *d, const graph_run *run, double by, double *slope) {
    double loss;
    for (int pass = 0; pass < 2; pass++) {
        const double sign = pass == 0 ? 1 : -1;
        for (int s = 0; s < d->n; s++) {
            const qn_value_info *info = run->graph->values[d->sources[s].id];
            const qn_rng rng = qn_rng_make(11, qn_hash_text(info->name), 0);
            for (int64_t i = 0; i < qn_shape_count(info->tensor.shape); i++) {
                const double along = (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)i)) - 0.5;
                run_set(run, d->sources[s], i, run_get(run, d->sources[s], i) + sign * by * along);
                if (slope && pass == 1 && d->gradients[s].id >= 0)
                    *slope += along * run_get(run, d->gradients[s], i);
            }
        }
        if (pass == 0) {
            run_all(run, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
            loss = run_get(run, d->loss, 0);
        }
    }
    return loss;
}

/* Whether the gradient agrees with the difference quotient; *is_one: there was one. */
static bool has_right_gradient(attempt *a, bool *is_one, char text[NAME]) {
    const double h = 1e-6;
    differentiated d = {.n = 0};
    double slope = 0;
    *is_one = false;
    if (!differentiate(a, &d))
        return true;
    if (qn_autodiff_for(a->graph, d.loss, d.sources, d.n, d.gradients) != QN_OK) {
        snprintf(text, NAME, "%s", qn_error_message());
        return false;
    }
    for (int s = 0; s < d.n; s++)
        *is_one = *is_one || d.gradients[s].id >= 0;
    graph_run run = run_create(a->graph);
    fill(a, &run);
    move_sources(&d, &run);
    loss_along(&d, &run, 0, &slope);
    const double quotient =
        (loss_along(&d, &run, h, NULL) - loss_along(&d, &run, -h, NULL)) / (2 * h);
    run_destroy(&run);
    snprintf(text, NAME, "the gradient along a direction is %.9g, the difference quotient %.9g",
             slope, quotient);
    if (isnan(quotient)) /* the function is nowhere there */
        *is_one = false;
    return !*is_one || fabs(slope - quotient) <= 1e-7 + 1e-5 * fabs(quotient);
}

typedef enum verdict { CANNOT, WRONG, RIGHT } verdict;

/* The same model in double; *is_one: something is differentiated. */
static bool is_trainable(const node_test *t, way how, bool *is_one, char text[NAME]) {
    attempt a = {.test = t, .trains = true};
    qn_arena_init(&a.kept, qn_allocator_or_default(NULL));
    share_inputs(&a, how);
    bool right = build(&a) == QN_OK;
    if (right)
        right = has_right_gradient(&a, is_one, text);
    else
        snprintf(text, NAME, "%s", qn_error_message());
    if (a.builder.table)
        qn_onnx_builder_deinit(&a.builder);
    qn_graph_destroy(a.graph);
    qn_arena_deinit(&a.kept);
    return right;
}

static verdict try_way(const node_test *t, way how, bool channels_last, char text[NAME]) {
    attempt a = {.test = t, .channels_last = channels_last};
    verdict result = CANNOT;
    qn_arena_init(&a.kept, qn_allocator_or_default(NULL));
    share_inputs(&a, how);
    const qn_status status = build(&a);
    if (status == QN_OK)
        result = compare(&a, text) ? RIGHT : WRONG;
    else
        snprintf(text, NAME, "%s", qn_error_message());
    if (a.builder.table)
        qn_onnx_builder_deinit(&a.builder);
    qn_graph_destroy(a.graph);
    qn_arena_deinit(&a.kept);
    return result;
}

/* The first way that can be built, then again with channels last. */
static verdict run_test(const node_test *t, way *used, char text[NAME]) {
    char why[NAME];
    verdict v = CANNOT;
    for (int w = 0; w < N_WAYS && v == CANNOT; w++) {
        v = try_way(t, (way)w, false, text);
        *used = (way)w;
    }
    if (v != RIGHT)
        return v;
    v = try_way(t, *used, true, why);
    if (v == RIGHT)
        return v;
    snprintf(text, NAME, "channels last: %.480s", why);
    return WRONG;
}

/* ---- all of them ---- */

/* The reason why a test is excluded, or null. */
static const char *find_excluded(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *line = list; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == ' ')
            return line + n + 1;
    }
    return NULL;
}

static char *read_list(void) {
    char path[NAME], *text = calloc(1, 1 << 16);
    const char *source = getenv("QUERN_SOURCE");
    snprintf(path, sizeof path, "%s/tests/onnx/excluded.txt", source ? source : ".");
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && text != NULL);
    if (!file || !text)
        exit(1);
    CHECK(fread(text, 1, (1 << 16) - 1, file) < (1 << 16) - 1);
    fclose(file);
    return text;
}

static int is_test(const struct dirent *entry) {
    return strncmp(entry->d_name, "test_", 5) == 0;
}

typedef struct counts {
    int passed[N_WAYS], failed, excluded, other_opset, other_operator, trained;
} counts;

/* Of a test that passed. */
static void check_trains(const node_test *t, way used, counts *c) {
    char text[NAME] = "";
    bool is_one = false;
    if (strstr(t->name, "to_FLOAT16")) /* it rounds, and its gradient does as if it did not */
        return;
    const bool right = is_trainable(t, used, &is_one, text);
    CHECK(right);
    if (!right)
        printf("%s: wrong gradient: %s\n", t->name, text);
    c->trained += right && is_one;
}

static void check_test(const char *folder, const char *name, const char *excluded, counts *c) {
    node_test t;
    way used = ALL_CHANGE;
    char text[NAME] = "";
    if (load(folder, name, &t) != QN_OK) {
        c->other_opset += strstr(qn_error_message(), "opset") != NULL;
        c->other_operator += strstr(qn_error_message(), "opset") == NULL;
        return;
    }
    if (!is_known(qn_onnx_file_model(t.file))) {
        c->other_operator++;
    } else {
        const verdict v = run_test(&t, &used, text);
        c->passed[used] += v == RIGHT;
        c->failed += v != RIGHT && !excluded;
        c->excluded += v != RIGHT && excluded;
        if (v != RIGHT && !excluded)
            printf("%s: %s %s\n", name, v == WRONG ? "wrong:" : "cannot be built:", text);
        if (v == RIGHT && excluded)
            printf("%s is excluded, but passes\n", name);
        CHECK((v == RIGHT) == !excluded);
        if (v == RIGHT)
            check_trains(&t, used, c);
    }
    unload(&t);
}

static void check_folder(const char *folder, const char *part, const char *list, counts *c) {
    struct dirent **entries = NULL;
    char path[NAME];
    snprintf(path, sizeof path, "%s/%s", data, folder);
    const int n = scandir(path, &entries, is_test, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (!part || strstr(name, part))
            check_test(folder, name, find_excluded(list, name), c);
        free(entries[i]);
    }
    free(entries);
}

int main(int n_arguments, char **arguments) {
    counts c = {0};
    char *list = read_list();
    const char *others = getenv("ONNX_TESTS"); /* a newer release's: not all of them pass */
    data = others ? others : data;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        check_folder(folders[i], n_arguments > 1 ? arguments[1] : NULL, list, &c);
    free(list);
    int passed = 0;
    for (int w = 0; w < N_WAYS; w++) {
        printf("%4d passed where %s\n", c.passed[w], way_names[w]);
        passed += c.passed[w];
    }
    printf("%4d of them have a gradient, which is right\n", c.trained);
    printf("%4d passed, %d failed, %d excluded, %d of other opsets, %d of other operators\n",
           passed, c.failed, c.excluded, c.other_opset, c.other_operator);
    CHECK((passed >= LEAST_PASSED && c.trained >= LEAST_TRAINED) || n_arguments > 1 || others);
    return checks_finish();
}
