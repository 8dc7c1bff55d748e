/* The time of a sequence: nodes run one after the other; a channel of the swap file stores and
 * loads beside them, one thing at a time. */
#include "policies.h"

typedef struct course {
    double clock_ns, channel_ns; /* until when the channel is taken */
} course;

static double transfer(course *c, double bytes, double bytes_per_ns, int64_t latency_ns) {
    const double start = c->clock_ns > c->channel_ns ? c->clock_ns : c->channel_ns;
    c->channel_ns = start + (double)latency_ns + bytes / bytes_per_ns;
    return c->channel_ns;
}

double qn_policy_predict_ns(const qn_policy_problem *problem, const qn_sequence *sequence) {
    course c = {0};
    for (size_t i = 0; i < sequence->n; i++) {
        const qn_item item = sequence->items[i];
        if (item.action == QN_ACTION_RUN) {
            c.clock_ns += problem->node_ns[item.id];
            continue;
        }
        const qn_swap_speed *s = problem->swap;
        const double bytes = (double)qn_tensor_bytes(problem->graph->values[item.id]->tensor);
        if (item.action == QN_ACTION_STORE)
            transfer(&c, bytes, s->write_bytes_per_ns, s->latency_ns);
        else if (item.action == QN_ACTION_LOAD)
            transfer(&c, bytes, s->read_bytes_per_ns, s->latency_ns);
        else if (c.channel_ns > c.clock_ns)
            c.clock_ns = c.channel_ns; /* the channel works in turn: waiting is for all before */
    }
    return c.clock_ns;
}
