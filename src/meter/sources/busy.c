/* See busy.h. */
#include "meter/sources/busy.h"

enum { MOST_CARRY_NS = 1000000000 };

static int64_t bound(int64_t value, int64_t least, int64_t most) {
    return value < least ? least : value > most ? most : value;
}

bool qn_busy_add_span(qn_busy *busy, int64_t now_ns, int64_t counted_ns, double most_cores,
                      qn_reading *reading) {
    const int64_t begin_ns = busy->begin_ns, span_ns = now_ns - begin_ns;
    if (busy->is_known && span_ns <= 0) {
        busy->carry_ns += counted_ns;
        return false;
    }
    busy->begin_ns = now_ns;
    if (!busy->is_known) {
        busy->is_known = true;
        busy->carry_ns = 0;
        return false;
    }
    const int64_t busy_ns = counted_ns + busy->carry_ns;
    const int64_t told_ns = bound(busy_ns, 0, (int64_t)((double)span_ns * most_cores));
    busy->carry_ns = bound(busy_ns - told_ns, -MOST_CARRY_NS, MOST_CARRY_NS);
    *reading = (qn_reading){begin_ns, now_ns, (double)told_ns / (double)span_ns};
    return true;
}

bool qn_busy_add(qn_busy *busy, int64_t now_ns, int64_t counter_ns, double most_cores,
                 qn_reading *reading) {
    const int64_t counted_ns = counter_ns - busy->counter_ns;
    busy->counter_ns = counter_ns;
    if (counted_ns < 0)
        busy->is_known = false;
    return qn_busy_add_span(busy, now_ns, counted_ns, most_cores, reading);
}
