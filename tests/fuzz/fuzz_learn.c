/* Texts of `quern learn`: the first line as a policy, the rest as a trace of use. Whatever they
 * hold, they are refused, or a decision never trains beyond its limits and a trace's rows rise. */
#include "learn/trace.h"

#include "os/heap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_policy(const char *text) {
    qn_policy p;
    char why[QN_POLICY_TEXT];
    if (qn_policy_parse(text, 40, &p) != QN_OK)
        return;
    if (p.n_rules < 2 || p.n_rules > QN_POLICY_RULES)
        abort();
    for (int i = 0; i < 60; i++) {
        const double warm = 30 + i % 30;
        const qn_moment m = {i * 40, {i, i % 8 > 0, 100 - i, warm, 0.1, i % 7, 4000, i % 24}};
        const qn_decision d = qn_policy_decide(&p, &m);
        if (d.may_train && (warm > 95 || m.sense[QN_SENSE_BATTERY] < 5))
            abort();
        if (strlen(qn_decision_print(&p, &d, &m, why)) < 5 || d.may_train != (d.reason == -1))
            abort();
    }
}

static void check_trace(const qn_trace *t) {
    if (t->n_rows < 1 || t->n_days < 1 || t->n_days > QN_TRACE_MOST_DAYS)
        abort();
    for (size_t i = 0; i < t->n_rows; i++) {
        if (t->rows[i].second < 0 || (i > 0 && t->rows[i].second <= t->rows[i - 1].second))
            abort();
        if (qn_trace_at(t, t->rows[i].second) != &t->rows[i])
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[256];
    size_t n = 0;
    qn_trace t;
    while (n < size && n + 1 < sizeof text && data[n] != '\n') {
        text[n] = (char)data[n];
        n++;
    }
    text[n] = 0;
    check_policy(text);
    n = n < size ? n + 1 : n;
    if (qn_trace_parse(NULL, "trace", (const char *)data + n, size - n, &t) == QN_OK) {
        check_trace(&t);
        qn_trace_close(&t);
    }
    return 0;
}
