/* The built-in numerics. The assembler includes the files from the folder QN_NUMERICS. */
#include "numerics/numerics.h"

#include "base/embed.h"
#include "base/status.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

QN_EMBED(numerics_niti, QN_NUMERICS "/niti.json");
QN_EMBED(numerics_bf16, QN_NUMERICS "/bf16.json");
QN_EMBED(numerics_fp16, QN_NUMERICS "/fp16.json");
QN_EMBED(numerics_octo, QN_NUMERICS "/octo.json");
QN_EMBED(numerics_adaptive, QN_NUMERICS "/adaptive.json");
QN_EMBED(numerics_wageubn, QN_NUMERICS "/wageubn.json");
QN_EMBED(numerics_mls, QN_NUMERICS "/mls.json");
QN_EMBED(numerics_chunk_fp8, QN_NUMERICS "/chunk-fp8.json");
QN_EMBED(numerics_sparse, QN_NUMERICS "/sparse.json");

static const struct {
    const char *name;
    const unsigned char *text;
} built_in[] = {
    {"niti", numerics_niti},       {"octo", numerics_octo}, {"adaptive", numerics_adaptive},
    {"wageubn", numerics_wageubn}, {"mls", numerics_mls},   {"chunk-fp8", numerics_chunk_fp8},
    {"bf16", numerics_bf16},       {"fp16", numerics_fp16}, {"sparse", numerics_sparse},
};

enum { N_BUILT_IN = sizeof built_in / sizeof built_in[0] };

const char *qn_numerics_built_in(int index) {
    return index >= 0 && index < N_BUILT_IN ? (const char *)built_in[index].text : NULL;
}

qn_recipe qn_numerics_recipe(const qn_numerics *numerics, const qn_recipe *recipe) {
    const qn_numerics_optimizer *o = &numerics->optimizer;
    qn_recipe made = *recipe;
    if (!o->is_given)
        return made;
    made.optimizer = (qn_optimizer)o->kind;
    made.rate = o->rate;
    made.momentum = o->momentum;
    made.weight_decay = o->weight_decay;
    made.nesterov = false;
    return made;
}

bool qn_numerics_has(const qn_numerics *numerics, qn_dtype dtype) {
    return numerics && (numerics->roles[QN_ROLE_WEIGHT].dtype == dtype ||
                        numerics->roles[QN_ROLE_ACTIVATION].dtype == dtype);
}

const char *qn_numerics_find(const char *name) {
    char names[256] = "";
    for (int i = 0; i < N_BUILT_IN; i++) {
        if (strcmp(built_in[i].name, name) == 0)
            return (const char *)built_in[i].text;
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", built_in[i].name);
    }
    qn_fail(QN_ERROR_ARGUMENT, "no numerics named %.60s; there are %s", name, names);
    return NULL;
}
