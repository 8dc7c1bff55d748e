/* See optimizer.h. */
#include "run/optimizer.h"

#include "ops/ops.h"

#include <math.h>
#include <stdio.h>

/* Source of kind state with the parameter's shape, starting at zero. */
static qn_value add_state(qn_graph *graph, const char *what, const qn_value_info *parameter) {
    char name[512];
    snprintf(name, sizeof name, "optimizer.%s.%s", what, parameter->name);
    return qn_graph_add_source(graph, QN_KIND_STATE, name, parameter->tensor,
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

static void add_update(qn_graph *graph, const qn_update_options *options, qn_value hyper,
                       qn_value factor, qn_value gradient, qn_value w) {
    const qn_value_info *info = qn_graph_value(graph, w);
    char name[512];
    if (!info)
        return;
    snprintf(name, sizeof name, "%s.update", info->name);
    if (options->optimizer == QN_SGD) {
        qn_value momentum = QN_NO_VALUE;
        if (options->momentum > 0)
            momentum = add_state(graph, "momentum", info);
        qn_op_sgd(graph, name, hyper, factor, gradient, w, momentum, options->nesterov);
        return;
    }
    qn_value m = add_state(graph, "adam_m", info);
    qn_value v = add_state(graph, "adam_v", info);
    qn_op_adam(graph, name, hyper, factor, gradient, w, m, v, options->optimizer == QN_ADAMW);
}

void qn_optimizer_add(qn_graph *graph, const qn_update_options *options, const qn_value *parameters,
                      const qn_value *gradients, int n, qn_value *hyper) {
    if (hyper->id < 0)
        *hyper = qn_graph_add_source(graph, QN_KIND_INPUT, "optimizer.hyper",
                                     (qn_tensor){graph->real, QN_SHAPE(QN_HYPER_COUNT)},
                                     (qn_initial){QN_INITIAL_ZERO, 0}, false);
    qn_value factor = QN_NO_VALUE;
    if (options->clip_norm > 0)
        factor = qn_op_clip_factor(graph, qn_graph_unique(graph, "optimizer.clip", false), *hyper,
                                   gradients, n, options->clip_norm);
    for (int i = 0; i < n; i++)
        add_update(graph, options, *hyper, factor, gradients[i], parameters[i]);
}

double qn_optimizer_rate(const qn_update_options *options, int64_t step) {
    const double pi = 3.14159265358979323846;
    if (step < options->warmup)
        return options->rate * (double)(step + 1) / (double)options->warmup;
    const int64_t length = options->schedule_steps - options->warmup;
    if (length <= 0 || options->schedule == QN_CONSTANT)
        return options->rate;
    double done = (double)(step - options->warmup) / (double)length;
    done = done > 1 ? 1 : done;
    if (options->schedule == QN_COSINE)
        return options->rate * 0.5 * (1 + cos(pi * done));
    return options->rate * (done < 1.0 / 3 ? 1 : done < 2.0 / 3 ? 0.1 : 0.01);
}

void qn_optimizer_fill(const qn_update_options *options, int64_t step,
                       double hyper[QN_HYPER_COUNT]) {
    hyper[QN_HYPER_RATE] = qn_optimizer_rate(options, step);
    hyper[QN_HYPER_MOMENTUM] = options->momentum;
    hyper[QN_HYPER_DECAY] = options->weight_decay;
    hyper[QN_HYPER_BETA1] = options->beta1;
    hyper[QN_HYPER_BETA2] = options->beta2;
    hyper[QN_HYPER_EPSILON] = options->epsilon;
    hyper[QN_HYPER_CORRECTION1] = 1 - pow(options->beta1, (double)(step + 1));
    hyper[QN_HYPER_CORRECTION2] = 1 - pow(options->beta2, (double)(step + 1));
    hyper[QN_HYPER_GRADIENT] = 1.0 / (double)options->accumulate;
}
