/* Merges adapters into the weights that they belong to (Hu et al. 2021, section 4.1, "no additional
 * inference latency"); passes/adapter.c defines their names. Sums are computed in double. */
#include "base/status.h"
#include "quern/engine.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static double get(const qn_stored_tensor *tensor, int64_t i) {
    return tensor->dtype == QN_F64 ? ((const double *)tensor->data)[i]
                                   : (double)((const float *)tensor->data)[i];
}

static void set(const qn_stored_tensor *tensor, int64_t i, double value) {
    if (tensor->dtype == QN_F64)
        ((double *)tensor->data)[i] = value;
    else
        ((float *)tensor->data)[i] = (float)value;
}

/* w (K, C) += factor * b (K, rank) a (rank, C); 1x1 filters are such matrices too. */
static void add_product(const qn_stored_tensor *w, const qn_stored_tensor *a,
                        const qn_stored_tensor *b, double factor) {
    const int64_t rank = a->shape.dims[0], outputs = w->shape.dims[0];
    const int64_t columns = qn_shape_count(w->shape) / outputs;
    for (int64_t k = 0; k < outputs; k++) {
        for (int64_t c = 0; c < columns; c++) {
            double sum = 0;
            for (int64_t r = 0; r < rank; r++)
                sum += get(b, k * rank + r) * get(a, r * columns + c);
            set(w, k * columns + c, get(w, k * columns + c) + factor * sum);
        }
    }
}

/* The tensor "BASEsuffix" of an adapter whose name is "BASE.lora_a.weight". */
static qn_stored_tensor find_beside(const qn_engine *engine, const char *adapter,
                                    const char *suffix) {
    char name[1024];
    const size_t n = (size_t)(strstr(adapter, ".lora_a.") - adapter);
    snprintf(name, sizeof name, "%.*s%s", (int)n, adapter, suffix);
    return qn_engine_find(engine, name);
}

void qn_engine_merge_adapters(qn_engine *engine) {
    QN_NEED_OR(engine, "engine", );
    const qn_tuning *tuning = &qn_engine_get_options(engine)->tuning;
    const double alpha = tuning->lora_alpha > 0 ? tuning->lora_alpha : (double)tuning->lora_rank;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor a = qn_engine_tensor_at(engine, i);
        if (a.is_state || !strstr(a.name, ".lora_a.weight"))
            continue;
        const qn_stored_tensor b = find_beside(engine, a.name, ".lora_b.weight");
        qn_stored_tensor w = find_beside(engine, a.name, ".weight");
        if (!w.data)
            w = find_beside(engine, a.name, "");
        if (!a.data || !b.data || !w.data)
            continue;
        add_product(&w, &a, &b, alpha / (double)tuning->lora_rank);
        memset(b.data, 0, b.bytes);
    }
}
