/* See best.h. */
#include "cli/train/best.h"

#include "cli/json.h"

#include <stdio.h>

const char *best_split(const qn_best *b) {
    return b->split == QN_VALIDATION ? "validation" : "test";
}

void best_add_json(const qn_best *b) {
    char metric[64];
    if (b->step < 0) {
        json_null("best_metric");
        json_null("best_value");
        json_null("best_step");
        return;
    }
    snprintf(metric, sizeof metric, "%s_%s", best_split(b), b->metric);
    json_text("best_metric", metric);
    json_number("best_value", b->value);
    json_count("best_step", b->step);
}
