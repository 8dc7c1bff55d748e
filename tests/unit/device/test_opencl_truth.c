/* Training on an OpenCL device beside double, which is the truth, for models of the zoo.
 *
 * Node by node: what the device makes of its own operands, in a whole step with gradients and
 * updates, is off by at most twice of what the CPU's kernels are off by in float. And five steps
 * from end to end: the losses, the first step's gradients and the momenta after five (of stochastic
 * gradient descent; after one they are the gradients). There an activation beside 0 may fall on its
 * other side, on either processor, which moves gradients by a leap, and what follows drifts apart:
 * up to some size that is only printed.
 *
 * A few models stand for all unless $QUERN_ALL is set; with arguments only the models named.
 * bert-base takes too long where it is not named: bert-tiny has its operations. */
#include "base/rng.h"
#include "driver/opencl/opencl.h"
#include "gpu_operators.h"
#include "quern/quern.h"
#include "run/offload.h"
#include "run/optimizer.h"
#include "run/trainer.h"
#include "tensor/number.h"

enum { STEPS = 5, BATCH = 4, LENGTH = 12 };

/* A driver that computes on the CPU takes its time for large models. */
static const int64_t patience_ns = INT64_C(3600) * 1000000000;

/* ---- engines ---- */

typedef struct subject {
    const qn_model *model;
    qn_trainer_options options; /* of a classifier */
    qn_network_sizes sizes;     /* of another network */
} subject;

static qn_value build_network(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const subject *s = user;
    return s->model->network(graph, s->model->user, &s->sizes, phase, kept);
}

/* Of a network that computes much, half as high and wide where it can be built so. */
static qn_shape input_of(const qn_model *model) {
    const int64_t much = 1000000000;
    const qn_shape half = QN_SHAPE(model->input.dims[0] / 2, model->input.dims[1] / 2, 3);
    qn_model_size size, smaller;
    CHECK_OK(qn_model_measure(model, model->input, model->n_classes, &size));
    const bool is_small = model->input.rank < 3 || size.forward_flops < much;
    return is_small || qn_model_measure(model, half, model->n_classes, &smaller) != QN_OK
               ? model->input
               : half;
}

static subject subject_of(const qn_model *model) {
    subject s = {.model = model, .sizes = model->sizes};
    if (model->build) {
        s.options = qn_trainer_options_for(model);
        s.options.input = input_of(model);
        s.options.batch = BATCH;
        s.options.n_outputs = qn_model_classes(model, model->input);
    }
    s.sizes.batch = BATCH;
    if (!model->has_fixed_length && s.sizes.length > LENGTH)
        s.sizes.length = LENGTH;
    if (s.sizes.target_length > LENGTH)
        s.sizes.target_length = LENGTH;
    return s;
}

static qn_engine *make_engine(subject *s, qn_dtype real, const char *device, bool plan_only) {
    qn_program_options programs[QN_TRAINER_PROGRAMS] = {
        {QN_OPTIONS_INIT(qn_program_options), .training = true, .user = s, .build = build_network,
         .n_phases = s->model->n_phases}};
    const qn_engine_options options = {QN_OPTIONS_INIT(qn_engine_options),
                                       .real = real,
                                       .update = {.optimizer = QN_SGD,
                                                  .rate = 1e-4,
                                                  .momentum = 0.9,
                                                  .clip_norm = s->model->recipe.clip_norm},
                                       .seed = 1,
                                       .n_threads = 2,
                                       .device = device,
                                       .plan_only = plan_only,
                                       .plan_later = plan_only};
    qn_engine *engine = NULL;
    memcpy(programs[0].trained, s->model->trained, sizeof programs[0].trained);
    s->options.engine.real = real;
    if (s->model->build)
        qn_trainer_describe(&s->options, programs);
    CHECK_OK(qn_engine_create(&options, programs, 1, &engine));
    return engine;
}

/* ---- inputs ---- */

/* Whole numbers that every network takes: lengths, kinds, classes. */
static int32_t draw_number(const char *name, int64_t i, const subject *s) {
    if (strstr(name, "lengths"))
        return (int32_t)(s->sizes.length - i % 3);
    const bool is_of_two = strcmp(name, "type_numbers") == 0 || strcmp(name, "action") == 0;
    return (int32_t)(i * 7 % (is_of_two ? 2 : 9));
}

static void *make_input(const qn_engine_input *input, const subject *s, int step) {
    const int64_t n = qn_shape_count(input->shape);
    const qn_rng rng = qn_rng_make(1, qn_hash_text(input->name), (uint64_t)step);
    void *memory = aligned_alloc(64, (input->bytes + 63) / 64 * 64);
    if (!memory)
        abort();
    for (int64_t i = 0; i < n; i++) {
        const double real = (double)(float)qn_rng_normal(rng, (uint64_t)i);
        qn_number_set(input->dtype, memory, i,
                      input->dtype == QN_I32 ? draw_number(input->name, i + step, s) : real);
    }
    return memory;
}

static void run_step(qn_engine *engine, const subject *s, int step) {
    void *inputs[QN_MAX_INPUTS];
    const int n = qn_engine_input_count(engine, 0);
    for (int i = 0; i < n; i++) {
        const qn_engine_input input = qn_engine_input_at(engine, 0, i);
        inputs[i] = make_input(&input, s, step);
    }
    CHECK_OK(qn_engine_run(engine, 0, (const void *const *)inputs));
    for (int i = 0; i < n; i++)
        free(inputs[i]);
}

/* ---- node by node ---- */

/* Whether a value is still there after the run: not changed by a later node, or given. */
static bool is_there(const qn_graph *graph, int v) {
    const qn_value_info *info = graph->values[qn_graph_unview(graph, (qn_value){v}).id];
    return info->producer < 0 || !info->is_overwritten;
}

static bool are_there(const qn_graph *graph, const qn_node *node) {
    bool are = !node->op->is_view;
    for (int i = 0; are && i < node->n_inputs; i++)
        are = node->inputs[i].id < 0 || is_there(graph, node->inputs[i].id);
    for (int i = 0; are && i < node->n_outputs; i++)
        are = is_there(graph, node->outputs[i].id);
    return are;
}

/* What was given, and what the device made of it. */
typedef struct made {
    graph_run given, device;
} made;

static void copy_value(const graph_run *from, const graph_run *to, int v) {
    const int64_t n = qn_shape_count(from->graph->values[v]->tensor.shape);
    for (int64_t i = 0; i < n; i++)
        run_set(to, (qn_value){v}, i, run_get(from, (qn_value){v}, i));
}

/* Runs a node on the operands that the device had. */
static void run_again(const graph_run *run, const made *m, int n, const qn_kernels *kernels,
                      qn_team *team) {
    const qn_node *node = run->graph->nodes[n];
    for (int i = 0; i < node->n_inputs; i++) {
        const int v = node->inputs[i].id;
        const int origin = v < 0 ? -1 : qn_graph_unview(run->graph, (qn_value){v}).id;
        if (v >= 0)
            copy_value(run->graph->values[origin]->producer < 0 ? &m->given : &m->device, run, v);
    }
    run_node(run, node, kernels, team);
}

typedef struct worst {
    double error, of_cpu;
    int n_nodes, n_there;
} worst;

static void check_node(const made *m, const graph_run *cpu, const graph_run *truth, int n,
                       worst *w) {
    const qn_node *node = cpu->graph->nodes[n];
    for (int i = 0; i < node->n_outputs; i++) {
        const int v = node->outputs[i].id;
        const double error = error_of(&m->device, truth, v), of_cpu = error_of(cpu, truth, v);
        const bool is_good = error <= 2 * of_cpu + rounding_of(truth, v);
        CHECK(is_good);
        if (!is_good)
            printf("%s (%s), %s: error %g, the CPU's %g\n", node->name, node->op->name,
                   cpu->graph->values[v]->name, error, of_cpu);
        if (error > w->error) {
            w->error = error;
            w->of_cpu = of_cpu;
        }
    }
    w->n_nodes++;
}

static void fill_given(const graph_run *run, const qn_engine *engine, const subject *s) {
    const qn_program *p = &engine->programs[0];
    double hyper[QN_HYPER_COUNT];
    run_fill(run);
    run_fill_given(run);
    for (int i = 0; i < p->n_inputs; i++) {
        const qn_engine_input input = qn_engine_input_at(engine, 0, i);
        void *memory = make_input(&input, s, 0);
        memcpy(run->memory[p->inputs[i].id], memory, input.bytes);
        free(memory);
    }
    qn_optimizer_fill(&engine->options.update, 0, hyper);
    for (int i = 0; p->hyper.id >= 0 && i < QN_HYPER_COUNT; i++)
        run_set(run, p->hyper, i, hyper[i]);
}

static void check_all_nodes(const made *m, const qn_graph *exact, worst *w) {
    qn_isa isa;
    qn_team *team;
    CHECK_OK(qn_cpu_isa(&isa));
    CHECK_OK(qn_team_create(qn_allocator_default(), 2, &team));
    const graph_run cpu = run_create(m->given.graph), truth = run_create(exact);
    for (int n = 0; n < exact->n_nodes; n++) {
        CHECK(strcmp(exact->nodes[n]->name, m->given.graph->nodes[n]->name) == 0);
        if (!are_there(exact, exact->nodes[n]))
            continue;
        run_again(&cpu, m, n, qn_kernels_get(QN_F32, isa), team);
        run_again(&truth, m, n, qn_kernels_get(QN_F64, QN_ISA_REF), team);
        check_node(m, &cpu, &truth, n, w);
    }
    run_destroy((graph_run *)(uintptr_t)&cpu);
    run_destroy((graph_run *)(uintptr_t)&truth);
    qn_team_destroy(team);
}

static worst check_nodes(subject *s) {
    const qn_opencl_options options = {0};
    qn_engine *single = make_engine(s, QN_F32, "cpu", true);
    qn_engine *exact = make_engine(s, QN_F64, "cpu", true);
    qn_graph *graph = single->programs[0].graph;
    worst w = {0};
    void *state;
    CHECK(graph->n_nodes == exact->programs[0].graph->n_nodes);
    CHECK_OK(qn_device_opencl.open(NULL, &options, &state));
    qn_gpu_set_patience(state, patience_ns);
    ask_for_all(graph);
    made m = {run_create(graph), run_create(graph)};
    fill_given(&m.given, single, s);
    fill_given(&m.device, single, s);
    w.n_there =
        run_on_device(&m.device, qn_kernels_get(QN_F32, QN_ISA_REF), &qn_device_opencl, state);
    qn_device_opencl.close(state);
    check_all_nodes(&m, exact->programs[0].graph, &w);
    run_destroy(&m.given);
    run_destroy(&m.device);
    qn_engine_destroy(single);
    qn_engine_destroy(exact);
    return w;
}

/* ---- from end to end ---- */

/* The momenta of all parameters in one row. */
typedef struct row {
    int64_t n;
    double *numbers;
} row;

typedef struct training {
    double losses[STEPS];
    row gradients, momenta;
} training;

static row take_momenta(const qn_engine *engine) {
    row r = {0};
    for (int pass = 0; pass < 2; pass++) {
        r.n = 0;
        for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
            const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
            const bool is_momentum = strncmp(t.name, "optimizer.momentum.", 19) == 0;
            for (int64_t j = 0; is_momentum && j < qn_shape_count(t.shape); j++) {
                if (pass > 0)
                    r.numbers[r.n] = qn_number_get(t.dtype, t.data, j);
                r.n++;
            }
        }
        if (pass == 0 && !(r.numbers = malloc((size_t)r.n * sizeof *r.numbers)))
            abort();
    }
    return r;
}

/* Both start from numbers that a float can hold. */
static void round_parameters(const qn_engine *engine) {
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        for (int64_t j = 0; t.dtype == QN_F64 && j < qn_shape_count(t.shape); j++)
            ((double *)t.data)[j] = (double)(float)((double *)t.data)[j];
    }
}

static training train(subject *s, qn_dtype real, const char *device) {
    training t = {{0}, {0}, {0}};
    qn_engine *engine = make_engine(s, real, device, false);
    if (!engine)
        return t;
    if (qn_engine_device(engine) > 0)
        qn_gpu_set_patience(engine->machine.devices[qn_engine_device(engine)].state, patience_ns);
    round_parameters(engine);
    for (int i = 0; i < STEPS; i++) {
        run_step(engine, s, i);
        t.losses[i] = qn_number_get(real, qn_engine_result(engine, 0, 0), 0);
        if (i == 0)
            t.gradients = take_momenta(engine);
    }
    t.momenta = take_momenta(engine);
    qn_engine_destroy(engine);
    return t;
}

static void training_free(training *t) {
    free(t->gradients.numbers);
    free(t->momenta.numbers);
}

static double row_error(const row *a, const row *truth) {
    double distance = 0, size = 0;
    CHECK(a->n == truth->n && a->n > 0);
    for (int64_t i = 0; i < truth->n && i < a->n; i++) {
        const double off = a->numbers[i] - truth->numbers[i];
        distance += off * off;
        size += truth->numbers[i] * truth->numbers[i];
    }
    return sqrt(distance / size);
}

static double loss_error(const training *a, const training *truth, int n_steps) {
    double most = 0;
    for (int i = 0; i < n_steps; i++)
        most = fmax(most, fabs(a->losses[i] - truth->losses[i]) / fabs(truth->losses[i]));
    return most;
}

/* ---- models ---- */

/* Of gradients, where an activation falls on the other side; and of what follows from those. */
static const double leap = 0.02, drift = 0.2;

static bool is_within(double device, double cpu, double leap_size) {
    return device <= 2 * cpu + leap_size + 16 * (double)FLT_EPSILON;
}

static void check_model(const qn_model *model) {
    subject s = subject_of(model);
    const worst w = check_nodes(&s);
    training truth = train(&s, QN_F64, "cpu"), single = train(&s, QN_F32, "cpu");
    training device = train(&s, QN_F32, "opencl");
    const double first[] = {loss_error(&device, &truth, 1), loss_error(&single, &truth, 1)};
    const double losses[] = {loss_error(&device, &truth, STEPS),
                             loss_error(&single, &truth, STEPS)};
    const double gradients[] = {row_error(&device.gradients, &truth.gradients),
                                row_error(&single.gradients, &truth.gradients)};
    const double momenta[] = {row_error(&device.momenta, &truth.momenta),
                              row_error(&single.momenta, &truth.momenta)};
    printf("| `%s` | %d of %d | %.1e (%.1e) | %.1e (%.1e) | %.1e (%.1e) | %.1e (%.1e) |\n",
           model->name, w.n_there, w.n_nodes, w.error, w.of_cpu, losses[0], losses[1], gradients[0],
           gradients[1], momenta[0], momenta[1]);
    fflush(stdout);
    CHECK(isfinite(truth.losses[STEPS - 1]) && w.n_there > 0 && w.n_nodes > 10);
    CHECK(is_within(first[0], first[1], 0));
    CHECK(is_within(losses[0], losses[1], drift));
    CHECK(is_within(gradients[0], gradients[1], leap));
    CHECK(is_within(momenta[0], momenta[1], drift));
    training_free(&truth);
    training_free(&single);
    training_free(&device);
}

static bool is_wanted(const char *model, int n, char **names) {
    static const char *const few[] = {"mlp", "lenet5"};
    for (int i = 1; i < n; i++) {
        if (strcmp(names[i], model) == 0)
            return true;
    }
    for (size_t i = 0; n <= 1 && i < sizeof few / sizeof few[0]; i++) {
        if (getenv("QUERN_ALL") ? strcmp(model, "bert-base") != 0 : strcmp(few[i], model) == 0)
            return true;
    }
    return false;
}

int main(int n, char **names) {
    const qn_opencl_options options = {0};
    void *state;
    if (!gpu_open(&qn_device_opencl, &options, &state))
        return checks_finish();
    qn_device_opencl.close(state);
    printf("| model | nodes there | worst node | losses | gradients | momenta |\n");
    for (int i = 0; qn_model_at(i); i++) {
        if (is_wanted(qn_model_at(i)->name, n, names))
            check_model(qn_model_at(i));
    }
    return checks_finish();
}
