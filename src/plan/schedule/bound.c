/* What no schedule can be faster than, by the model of cores.h: the longest way through the tasks,
 * each at its fastest width; the work of all over all cores; the bytes of all over the memory, of
 * which an operation uses no more than there is while it runs. */
#include "base/status.h"
#include "plan/schedule/timetable.h"

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* From the first core on, the strongest come first. */
static double fastest_ns(const qn_curve *curve, const qn_cores *cores) {
    double least = qn_curve_ns(curve, cores, 0, 1);
    for (int width = 2; width <= cores->n; width++) {
        const double ns = qn_curve_ns(curve, cores, 0, width);
        least = ns < least ? ns : least;
    }
    return least;
}

/* Of cores of kind 0, that all cores are as fast as. */
static double count_cores(const qn_curve *curve, const qn_cores *cores) {
    const double first = qn_curve_ns(curve, cores, 0, 1);
    double sum = 0;
    for (int core = 0; core < cores->n; core++)
        sum += first / qn_curve_ns(curve, cores, core, 1);
    return sum;
}

static double critical_path_ns(const qn_tasks *t, const qn_cores *cores, double *ends) {
    double longest = 0;
    for (int32_t i = 0; i < t->n; i++) {
        double begin = 0;
        for (int32_t e = t->before.first[i]; e < t->before.first[i + 1]; e++)
            begin = larger(begin, ends[t->before.tasks[e]]);
        ends[i] = begin + fastest_ns(&t->curves[i], cores);
        longest = larger(longest, ends[i]);
    }
    return longest;
}

qn_status qn_timetable_bound(const qn_tasks *t, const qn_cores *cores,
                             qn_timetable_bounds *bounds) {
    const size_t n = (size_t)t->n + 1;
    double *ends = NULL;
    QN_TRY(qn_allocate(t->allocator, n, sizeof *ends, &ends));
    *bounds = (qn_timetable_bounds){.critical_path_ns = critical_path_ns(t, cores, ends)};
    qn_release(t->allocator, ends, n, sizeof *ends);
    for (int32_t i = 0; i < t->n; i++) {
        const qn_curve *curve = &t->curves[i];
        bounds->work_ns += qn_curve_ns(curve, cores, 0, 1) / count_cores(curve, cores);
        const double memory = qn_curve_memory_ns(curve, cores), fastest = fastest_ns(curve, cores);
        bounds->memory_ns += memory < fastest ? memory : fastest;
    }
    return QN_OK;
}
