/* See status.h. A moment is shown as if it had lasted: how long a rule must hold before it allows
 * training is not waited for. */
#include "cli/learn/status.h"

#include "base/print.h"
#include "base/status.h"
#include "cli/json.h"
#include "learn/senses/senses.h"
#include "os/os.h"

#include <math.h>
#include <stdio.h>

enum { LONGEST_HOLD = 3600 };

static void print_json(const qn_policy *p, const qn_decision *d, const qn_moment *m) {
    char text[QN_POLICY_TEXT];
    json_begin();
    json_text("event", "status");
    json_flag("may_train", d->may_train);
    json_text("why", qn_decision_print(p, d, m, text));
    json_open_list("rules");
    for (int i = 0; i < p->n_rules; i++) {
        const qn_rule *r = &p->rules[i];
        json_begin_item();
        json_text("rule", r->kind->name);
        json_flag("holds", r->holds);
        json_number("value", m->sense[r->kind->sense]);
        json_number("limit", r->limit);
        json_end_item();
    }
    json_close_list();
    json_end();
}

static void print_rule(const qn_rule *r, const qn_moment *m) {
    const double value = m->sense[r->kind->sense];
    char limit[48], now[48];
    qn_print(limit, sizeof limit, "%s %g", r->kind->is_least ? "at least" : "at most", r->limit);
    if (r->kind->sense == QN_SENSE_HOUR)
        qn_print(limit, sizeof limit, "from %g to %g", r->limit, r->until);
    if (isnan(value))
        snprintf(now, sizeof now, "%s", "not said by this device");
    else
        qn_print(now, sizeof now, "%.1f", value);
    printf("  %-9s %-4s %s (%s %s)\n", r->kind->name, r->holds ? "yes" : "no", now, limit,
           r->kind->unit);
}

static void print(const qn_policy *p, const qn_decision *d, const qn_moment *m) {
    char text[QN_POLICY_TEXT];
    printf("%s: %s\n", d->may_train ? "may train now" : "may not train now",
           qn_decision_print(p, d, m, text));
    for (int i = 0; i < p->n_rules; i++)
        print_rule(&p->rules[i], m);
}

qn_status learn_status(const arguments *a) {
    const qn_senses_options options = {.root = arguments_get(a, "sysroot")};
    qn_policy policy;
    qn_moment m;
    double cool;
    if (options.root && !qn_path_is_folder(options.root))
        return qn_fail(QN_ERROR_IO, "%s: no such folder; --sysroot is one with sys and proc in it",
                       options.root);
    QN_TRY(qn_senses_read(&options, &m, &cool));
    QN_TRY(qn_policy_parse(arguments_get(a, "when"), cool, &policy));
    qn_policy_decide(&policy, &m);
    m.second += LONGEST_HOLD;
    const qn_decision d = qn_policy_decide(&policy, &m);
    if (arguments_flag(a, "json"))
        print_json(&policy, &d, &m);
    else
        print(&policy, &d, &m);
    return QN_OK;
}
