/* See optimizer.h. */
#include "run/optimizer.h"

#include "base/decimal.h"
#include "base/patterns.h"
#include "base/status.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Source of kind state with the shape of what is trained of a parameter, starting at zero. */
static qn_value add_state(qn_graph *graph, const char *what, const qn_value_info *parameter,
                          qn_tensor trained) {
    char name[512];
    snprintf(name, sizeof name, "optimizer.%s.%s", what, parameter->name);
    return qn_graph_add_source(graph, QN_KIND_STATE, name, trained,
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

/* "PATTERN=X" or "PATTERN=xX": the pattern is then all before the sign. */
static qn_status parse_rate(qn_pattern *part, double usual, double *factor) {
    char text[64] = "", *end = text;
    const char *equals = memchr(part->text, '=', part->bytes);
    const size_t n = equals ? part->bytes - (size_t)(equals + 1 - part->text) : 0;
    if (n > 0 && n < sizeof text)
        memcpy(text, equals + 1, n);
    const bool is_factor = text[0] == 'x';
    *factor = qn_decimal_read(text + is_factor, &end);
    if (end == text + is_factor || *end || !(*factor >= 0 && *factor <= 1e15) ||
        equals == part->text)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "lr-for: \"%.*s\" is neither PATTERN=RATE nor PATTERN=xFACTOR",
                       (int)part->bytes, part->text);
    if (!is_factor && usual <= 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "lr-for: \"%.*s\" is a rate, but the learning rate itself is 0; set the "
                       "learning rate, or use a factor",
                       (int)part->bytes, part->text);
    *factor = is_factor ? *factor : *factor / usual;
    part->bytes = (size_t)(equals - part->text);
    return QN_OK;
}

qn_status qn_optimizer_factor(const qn_engine_options *options, const char *parameter,
                              double *factor) {
    const char *list = options->tuning.rates;
    qn_pattern part;
    *factor = 1;
    while (qn_pattern_next(&list, &part)) {
        double found;
        QN_TRY(parse_rate(&part, options->update.rate, &found));
        if (qn_pattern_matches(part, parameter))
            *factor = found;
    }
    return QN_OK;
}

static void add_update(qn_graph *graph, const qn_engine_options *engine, qn_value hyper,
                       qn_value factor, qn_value gradient, qn_value w) {
    const qn_update_options *options = &engine->update;
    const qn_value_info *info = qn_graph_value(graph, w);
    char name[512];
    double rate;
    if (!info)
        return;
    const qn_status status = qn_optimizer_factor(engine, info->name, &rate);
    if (status != QN_OK) {
        qn_graph_fail(graph, status, "%s", qn_error_message());
        return;
    }
    const qn_value trained = qn_part_begin(graph, w);
    const qn_tensor tensor = qn_graph_tensor(graph, trained);
    qn_value updated;
    snprintf(name, sizeof name, "%s.update", info->name);
    if (options->optimizer == QN_SGD) {
        qn_value momentum = QN_NO_VALUE;
        if (options->momentum > 0)
            momentum = add_state(graph, "momentum", info, tensor);
        updated = qn_op_sgd(graph, name, hyper, factor, gradient, trained, momentum,
                            options->nesterov, rate);
    } else {
        qn_value m = add_state(graph, "adam_m", info, tensor);
        qn_value v = add_state(graph, "adam_v", info, tensor);
        updated = qn_op_adam(graph, name, hyper, factor, gradient, trained, m, v,
                             options->optimizer == QN_ADAMW, rate);
    }
    qn_part_end(graph, w, updated);
}

void qn_optimizer_add(qn_graph *graph, const qn_engine_options *engine, const qn_value *parameters,
                      const qn_value *gradients, int n, qn_value *hyper) {
    const qn_update_options *options = &engine->update;
    if (n == 0) /* integer steps change all parameters */
        return;
    if (hyper->id < 0)
        *hyper = qn_graph_add_source(graph, QN_KIND_INPUT, "optimizer.hyper",
                                     (qn_tensor){graph->real, QN_SHAPE(QN_HYPER_COUNT)},
                                     (qn_initial){QN_INITIAL_ZERO, 0}, false);
    qn_value factor = QN_NO_VALUE;
    if (options->clip_norm > 0)
        factor = qn_op_clip_factor(graph, qn_graph_unique(graph, "optimizer.clip", false), *hyper,
                                   gradients, n, options->clip_norm);
    for (int i = 0; i < n; i++)
        add_update(graph, engine, *hyper, factor, gradients[i], parameters[i]);
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
