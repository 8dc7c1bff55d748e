/* See no_effect.h. Integer numerics take whole gradients off whole weights, without an optimiser,
 * and make the loss's gradient of whole numbers, without smoothed targets. */
#include "cli/train/no_effect.h"

#include "base/status.h"
#include "numerics/numerics.h"
#include "quern/engine.h"

#include <string.h>

/* What only the optimiser reads. schedule-steps is not among them: it also says when gradients get
 * fewer bits. */
static const char *const of_optimiser[] = {"optimizer", "lr",       "momentum", "nesterov",
                                           "beta1",     "schedule", "warmup",   "weight-decay",
                                           "clip-norm", "lr-for"};

static bool is_given(const training *t, const char *name) {
    return option_find(t->a->command, name) >= 0 && arguments_has(t->a, name);
}

static qn_status check_optimiser(const training *t) {
    for (size_t i = 0; i < sizeof of_optimiser / sizeof of_optimiser[0]; i++) {
        if (is_given(t, of_optimiser[i]))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "--%s changes nothing here: with these numerics all parameters are "
                           "integers that integer steps change, without an optimiser; leave it out",
                           of_optimiser[i]);
    }
    return QN_OK;
}

static qn_status check_smoothing(const training *t, const char *numerics) {
    qn_numerics n;
    if (!is_given(t, "label-smoothing") || numerics[0] != '{')
        return QN_OK;
    QN_TRY(qn_numerics_read(numerics, strlen(numerics), &n));
    if (!n.integer_loss)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "--label-smoothing changes nothing here: the integer cross entropy of these "
                   "numerics has no smoothed targets; leave it out, or use numerics with \"loss\": "
                   "\"f32\"");
}

qn_status no_effect_check(const training *t) {
    const char *numerics = qn_metadata_get(t->s.pairs, "numerics");
    if (!qn_engine_has_rate(qn_task_engine(t->s.task)))
        QN_TRY(check_optimiser(t));
    return numerics ? check_smoothing(t, numerics) : QN_OK;
}
