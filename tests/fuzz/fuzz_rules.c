/* Tables of rules: what is read fits its bounds, and something is chosen by it. */
#include "kernels/rules.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const qn_rule *rule) {
    if (!rule->sets || rule->sets > QN_ALL_SETS || !rule->passes || rule->passes > QN_ALL_PASSES ||
        rule->algorithm >= QN_ALGORITHM_COUNT || rule->n > QN_RULE_CONDITIONS)
        abort();
    for (int i = 0; i < rule->n; i++) {
        if (rule->conditions[i].feature >= QN_FEATURE_COUNT || rule->conditions[i].value < 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const qn_conv2d_shape shape = {.n = 4,
                                   .h = 8,
                                   .w = 8,
                                   .c = 32,
                                   .k = 32,
                                   .r = 3,
                                   .s = 3,
                                   .p = 8,
                                   .q = 8,
                                   .stride_h = 1,
                                   .stride_w = 1,
                                   .dilation_h = 1,
                                   .dilation_w = 1,
                                   .groups = 1};
    qn_rule rows[QN_MAX_RULES];
    qn_rules rules;
    if (qn_rules_parse((const char *)data, size, rows, &rules) != QN_OK)
        return 0;
    if (rules.n > QN_MAX_RULES)
        abort();
    for (int i = 0; i < rules.n; i++)
        check(&rules.rules[i]);
    for (int pass = 0; pass < 3; pass++) {
        if (qn_rules_choose(&rules, QN_ISA_AVX2, (qn_conv2d_pass)pass, &shape, 3) > 1)
            abort();
    }
    return 0;
}
