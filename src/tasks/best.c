/* See best.h. */
#include "tasks/best.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char key[] = "best";

static const char *split_name(const qn_best *b) {
    return b->split == QN_VALIDATION ? "validation" : "test";
}

/* One pair: "loss test 0.25 step 120 measured 160 worse 1". */
void qn_best_read(qn_best *b, const qn_metadata *pairs) {
    const char *text = pairs ? qn_metadata_get(pairs, key) : NULL;
    char split[16], metric[40];
    long long step, measured, worse;
    *b = (qn_best){.step = -1, .measured = -1};
    int at = 0;
    if (!text || sscanf(text, "%39s %15s %n", metric, split, &at) != 2 || at == 0)
        return;
    char *rest;
    const double value = qn_decimal_read(text + at, &rest);
    if (rest == text + at ||
        sscanf(rest, " step %lld measured %lld worse %lld", &step, &measured, &worse) != 3)
        return;
    if (!isfinite(value) || step < 0 || measured < step || worse < 0)
        return;
    *b = (qn_best){.value = value, .step = step, .measured = measured, .n_worse = worse};
    b->split = strcmp(split, "validation") == 0 ? QN_VALIDATION : QN_TEST;
    snprintf(b->metric, sizeof b->metric, "%s", metric);
}

static qn_status keep(const qn_best *b, qn_metadata *pairs) {
    char text[200];
    qn_print(text, sizeof text, "%s %s %.17g step %lld measured %lld worse %lld", b->metric,
             split_name(b), b->value, (long long)b->step, (long long)b->measured,
             (long long)b->n_worse);
    return qn_metadata_set(pairs, key, text);
}

static bool is_improved(const qn_best *b, double value) {
    const bool is_loss = strstr(b->metric, "loss") != NULL;
    return isfinite(value) && (b->step < 0 || (is_loss ? value < b->value : value > b->value));
}

qn_status qn_best_note(qn_best *b, qn_split split, const qn_metric *metric, int64_t step,
                       qn_metadata *pairs, bool *is_better) {
    if (b->split != split || strcmp(b->metric, metric->name) != 0)
        *b = (qn_best){.step = -1, .split = split};
    snprintf(b->metric, sizeof b->metric, "%s", metric->name);
    *is_better = is_improved(b, metric->value);
    b->measured = step;
    b->n_worse++;
    if (*is_better) {
        b->value = metric->value;
        b->step = step;
        b->n_worse = 0;
    }
    return b->step >= 0 && pairs ? keep(b, pairs) : QN_OK;
}
