/* See best.h. */
#include "cli/best.h"

#include "base/status.h"
#include "cli/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key[] = "best";

const char *best_split(const best *b) {
    return b->split == QN_VALIDATION ? "validation" : "test";
}

/* One pair: "loss test 0.25 step 120 measured 160 worse 1". */
void best_read(best *b, const qn_metadata *pairs) {
    const char *text = pairs ? qn_metadata_get(pairs, key) : NULL;
    char split[16], metric[40];
    double value;
    long long step, measured, worse;
    *b = (best){.step = -1, .measured = -1};
    if (!text || sscanf(text, "%39s %15s %lf step %lld measured %lld worse %lld", metric, split,
                        &value, &step, &measured, &worse) != 6)
        return;
    if (!isfinite(value) || step < 0 || measured < step || worse < 0)
        return;
    *b = (best){.value = value, .step = step, .measured = measured, .n_worse = worse};
    b->split = strcmp(split, "validation") == 0 ? QN_VALIDATION : QN_TEST;
    snprintf(b->metric, sizeof b->metric, "%s", metric);
}

static qn_status keep(const best *b, qn_metadata *pairs) {
    char text[200];
    snprintf(text, sizeof text, "%s %s %.17g step %lld measured %lld worse %lld", b->metric,
             best_split(b), b->value, (long long)b->step, (long long)b->measured,
             (long long)b->n_worse);
    return qn_metadata_set(pairs, key, text);
}

static bool is_improved(const best *b, double value) {
    const bool is_loss = strstr(b->metric, "loss") != NULL;
    return isfinite(value) && (b->step < 0 || (is_loss ? value < b->value : value > b->value));
}

qn_status best_note(best *b, qn_split split, const qn_metric *metric, int64_t step,
                    qn_metadata *pairs, bool *is_better) {
    if (b->split != split || strcmp(b->metric, metric->name) != 0)
        *b = (best){.step = -1, .split = split};
    snprintf(b->metric, sizeof b->metric, "%s", metric->name);
    *is_better = is_improved(b, metric->value);
    b->measured = step;
    b->n_worse++;
    if (*is_better) {
        b->value = metric->value;
        b->step = step;
        b->n_worse = 0;
    }
    return b->step >= 0 ? keep(b, pairs) : QN_OK;
}

void best_add_json(const best *b) {
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
