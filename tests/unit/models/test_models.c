/* Walks the zoo: every model and form builds, in training and not; sizes are the reference's
 * (PyTorch's parameter counts, and the work of its convolutions and linear layers); names are
 * unique; other sizes and classes do; what cannot be built is refused with the reason. */
#include "check.h"
#include "graph/graph.h"
#include "quern/quern.h"

/* The reference's numbers, for the model's own input and for its ImageNet form's with 1000
 * classes. */
static const struct expected {
    const char *name;
    int64_t n_parameters, n_large_parameters; /* large 0: one form */
    double mflop, large_mflop;                /* to two decimals */
    int64_t large_size;                       /* 0: 224 */
} expected[] = {
    {"mlp", 235146, 0, 0.47, 0, 0},
    {"lenet5", 61706, 0, 0.83, 0, 0},
    {"lenet-relu", 431080, 0, 4.59, 0, 0},
    {"vgg-small", 4658314, 0, 1215.20, 0, 0},
    {"alexnet", 23272266, 61100840, 125.49, 1428.38, 0},
    {"vgg11", 9231114, 132863336, 305.54, 15218.18, 0},
    {"vgg16", 14728266, 138357544, 626.40, 30940.53, 0},
    {"vgg19", 20040522, 143667240, 796.27, 39264.12, 0},
    {"resnet18", 11173962, 11689512, 1110.85, 3628.15, 0},
    {"resnet34", 21282122, 21797672, 2318.80, 7327.52, 0},
    {"resnet50", 23520842, 25557032, 2595.66, 8178.37, 0},
    {"resnet101", 42512970, 44549160, 5019.97, 15602.81, 0},
    {"resnet152", 58156618, 60192808, 7444.28, 23027.25, 0},
    {"squeezenet", 727626, 1235496, 47.02, 698.30, 0},
    {"mobilenet-v1", 3217226, 4231976, 92.71, 1137.48, 0},
    {"mobilenet-v2", 2236682, 3504872, 175.95, 601.55, 0},
    {"efficientnet-lite0", 3383818, 4652008, 231.08, 770.38, 0},
    {"efficientnet-lite1", 4148490, 5416680, 307.67, 1200.37, 240},
    {"efficientnet-lite2", 4823882, 6092072, 356.02, 1719.47, 260},
    {"googlenet", 5871914, 6624904, 2894.48, 2996.75, 0},
    {"inception-v3", 21806058, 23834568, 677.74, 11426.43, 299},
    {"xception", 20827442, 22855952, 2719.31, 16714.81, 299},
    {"densenet40", 1019722, 0, 529.63, 0, 0},
    {"densenet100", 6979642, 0, 3539.03, 0, 0},
};

enum { N_EXPECTED = sizeof expected / sizeof *expected };

/* The same of models that are no classifiers. The work of LSTM and attention counts what goes with
 * their products, up to 1 % of it. */
static const struct expected_network {
    const char *name;
    int64_t n_parameters;
    double mflop;
} expected_networks[] = {
    {"char-cnn", 1188192, 234.29},      {"char-lstm", 1101920, 214.63},
    {"next-word", 1460160, 58.00},      {"seq2seq", 21225792, 781.82},
    {"dcgan", 1732224, 141.35},         {"dqn", 1693362, 18.70},
    {"bert-base", 108893186, 22347.64}, {"bert-tiny", 1511426, 54.56},
};

enum { N_NETWORKS = sizeof expected_networks / sizeof *expected_networks };

static const qn_shape large = {3, {224, 224, 3}};

/* ---- sizes ---- */

static void check_size(const qn_model *model, qn_shape input, int64_t n_parameters, double mflop) {
    qn_model_size size = {0};
    CHECK_OK(qn_model_measure(model, input, qn_model_classes(model, input), &size));
    CHECK(size.n_parameters == n_parameters);
    CHECK(fabs((double)size.forward_flops * 1e-6 - mflop) < 0.0051);
    CHECK(size.feature_bytes > 0);
    if (size.n_parameters != n_parameters)
        printf("%s: %lld parameters\n", model->name, (long long)size.n_parameters);
}

static void test_sizes(void) {
    for (int i = 0; i < N_EXPECTED; i++) {
        const qn_model *model = qn_model_find(expected[i].name);
        CHECK(model);
        if (!model)
            continue;
        CHECK(qn_model_classes(model, model->input) == 10);
        check_size(model, model->input, expected[i].n_parameters, expected[i].mflop);
        CHECK((model->large_size > 0) == (expected[i].n_large_parameters > 0));
        if (model->large_size == 0)
            continue;
        const int64_t size = expected[i].large_size ? expected[i].large_size : 224;
        const qn_shape larger = QN_SHAPE(size, size, 3);
        CHECK(qn_model_classes(model, larger) == 1000);
        check_size(model, larger, expected[i].n_large_parameters, expected[i].large_mflop);
    }
}

static void test_networks(void) {
    for (int i = 0; i < N_NETWORKS; i++) {
        const struct expected_network *e = &expected_networks[i];
        const qn_model *model = qn_model_find(e->name);
        qn_model_size size = {0};
        CHECK(model && model->network && model->task && model->input_text);
        CHECK_OK(qn_model_measure(model, model->input, 0, &size));
        CHECK(size.n_parameters == e->n_parameters && size.feature_bytes > 0);
        const double mflop = (double)size.forward_flops * 1e-6;
        CHECK(mflop > e->mflop - 0.0051 && mflop < 1.01 * e->mflop);
    }
}

/* ---- the list ---- */

static void test_list(void) {
    int n = 0;
    for (; qn_model_at(n); n++) {
        const qn_model *model = qn_model_at(n);
        CHECK(qn_model_find(model->name) == model);
        CHECK(model->domain && model->source && !model->build == !!model->network);
        CHECK(model->recipe.rate > 0 && model->recipe.batch > 0);
        /* Games are counted in frames. */
        CHECK(model->recipe.epochs + model->recipe.steps > 0 || strcmp(model->name, "dqn") == 0);
        CHECK(!model->build || model->recipe.batch == 64);
    }
    CHECK(n == N_EXPECTED + N_NETWORKS);
    CHECK(!qn_model_at(-1) && !qn_model_at(n + 1));
    CHECK(!qn_model_find("resnet51") && strstr(qn_error_message(), "did you mean resnet50?"));
    CHECK(!qn_model_find("mobilenetv2") && strstr(qn_error_message(), "mobilenet-v2"));
    CHECK(!qn_model_find("a name like no other"));
}

/* ---- graphs ---- */

static void check_names(const qn_graph *graph) {
    for (int v = 0; v < graph->n_values; v++)
        CHECK(qn_graph_find(graph, graph->values[v]->name).id == v);
    for (int n = 1; n < graph->n_nodes; n++) {
        bool is_unique = true;
        for (int m = 0; m < n; m++)
            is_unique &= strcmp(graph->nodes[n]->name, graph->nodes[m]->name) != 0;
        CHECK(is_unique);
    }
}

static void check_builds(const qn_model *model, qn_shape input, int n_outputs, bool training) {
    qn_graph *graph;
    CHECK_OK(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .training = training}, &graph));
    qn_shape batch = {input.rank + 1, {3, input.dims[0], input.dims[1], input.dims[2]}};
    qn_value y = model->build(graph, model->user, qn_input(graph, "input", batch), n_outputs);
    CHECK_OK(qn_graph_finish(graph));
    CHECK_OK(qn_graph_check(graph));
    const qn_shape shape = qn_graph_shape(graph, y);
    CHECK(shape.rank == 2 && shape.dims[0] == 3 && shape.dims[1] == n_outputs);
    check_names(graph);
    qn_graph_destroy(graph);
}

/* All phases of a network that is no classifier, without their updates. */
static void check_network(const qn_model *model, bool training) {
    qn_graph *graph;
    qn_value kept[QN_MAX_KEPT] = {QN_NO_VALUE, QN_NO_VALUE, QN_NO_VALUE, QN_NO_VALUE};
    qn_network_sizes sizes = model->sizes;
    sizes.batch = 3;
    CHECK_OK(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .training = training}, &graph));
    for (int phase = 0; phase < (model->n_phases ? model->n_phases : 1); phase++)
        CHECK(qn_graph_shape(graph, model->network(graph, model->user, &sizes, phase, kept)).rank ==
              0);
    CHECK_OK(qn_graph_finish(graph));
    CHECK_OK(qn_graph_check(graph));
    check_names(graph);
    qn_graph_destroy(graph);
}

static void test_builds(void) {
    for (int i = 0; qn_model_at(i); i++) {
        const qn_model *model = qn_model_at(i);
        if (!model->build) {
            check_network(model, true);
            check_network(model, false);
            continue;
        }
        check_builds(model, model->input, 7, true);
        check_builds(model, model->input, 1, false);
        check_builds(model, QN_SHAPE(96, 75, 1), 2, true);
        if (model->input.dims[0] <= 40)
            check_builds(model, QN_SHAPE(65, 40, 4), 100, true);
        check_builds(model, large, 3, true);
        check_builds(model, QN_SHAPE(299, 256, 3), 1000, false);
    }
    check_builds(qn_model_find("mlp"), QN_SHAPE(17), 5, true);
}

/* An image that is too small is refused by the model, not by one of its operators. */
static void check_small_images(const qn_model *model, int64_t height) {
    static const int64_t widths[] = {1, 2, 3, 4, 5, 7, 8, 13, 14, 15, 16, 17, 31, 62, 63, 74, 75};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        qn_model_size size;
        const qn_shape image = QN_SHAPE(height ? height : widths[i], widths[i], 3);
        const qn_status status = qn_model_measure(model, image, 10, &size);
        const size_t length = strlen(model->name);
        const char *message = qn_error_message();
        CHECK(status == QN_OK ||
              (status == QN_ERROR_ARGUMENT && strncmp(message, model->name, length) == 0 &&
               message[length] == ':' && strstr(message, "need images of")));
    }
}

static void test_refusals(void) {
    qn_model_size size;
    const qn_shape tiny = QN_SHAPE(16, 16, 3), row = QN_SHAPE(784);
    CHECK_FAILS(qn_model_measure(qn_model_find("vgg16"), tiny, 10, &size), QN_ERROR_ARGUMENT,
                "five pools");
    CHECK(strstr(qn_error_message(), "32x32"));
    CHECK_FAILS(qn_model_measure(qn_model_find("lenet5"), tiny, 10, &size), QN_ERROR_ARGUMENT,
                "28x28");
    for (int i = 1; qn_model_at(i) && qn_model_at(i)->build; i++)
        CHECK_FAILS(qn_model_measure(qn_model_at(i), row, 10, &size), QN_ERROR_ARGUMENT, "784");
    for (int i = 0; qn_model_at(i) && qn_model_at(i)->build; i++) {
        check_small_images(qn_model_at(i), 0);
        check_small_images(qn_model_at(i), 128);
    }
    CHECK_FAILS(qn_model_measure(qn_model_find("mlp"), (qn_shape){0}, 10, &size), QN_ERROR_ARGUMENT,
                "mlp");
}

int main(void) {
    test_list();
    test_sizes();
    test_networks();
    test_builds();
    test_refusals();
    return checks_finish();
}
