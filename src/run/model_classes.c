/* What a trainer derives from a model's description. */
#include "base/status.h"
#include "quern/model.h"

int qn_model_classes(const qn_model *model, qn_shape input) {
    QN_NEED_OR(model, "model", 0);
    const bool is_large =
        model->large_size > 0 && input.rank == 3 && input.dims[0] >= model->large_size;
    return is_large ? 1000 : model->n_classes;
}
