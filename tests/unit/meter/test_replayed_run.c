/* A real run under power that was recorded before, with a burst in it that is about as long as one
 * operation: the energy that each type of operator gets is that of the recorded power over its
 * operations' own times, within 2 %. */
#include "check.h"
#include "meter/meter.h"
#include "os/os.h"
#include "quern/quern.h"

#include <stdlib.h>
#include <unistd.h>

static const double low_w = 5, high_w = 400, burst_s[] = {0.5, 0.52}, run_s = 1;

static bool write_power(char *path) {
    const int descriptor = mkstemp(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (!file)
        return false;
    fprintf(file, "time_s,system:input:W\n0,%g\n%g,%g\n%g,%g\n%g,%g\n%g,%g\n1000,%g\n", low_w,
            burst_s[0], low_w, burst_s[0], high_w, burst_s[1], high_w, burst_s[1], low_w, low_w);
    return fclose(file) == 0;
}

/* Joules from the beginning to a moment. */
static double energy_until(double seconds) {
    const double in_burst = fmin(fmax(seconds - burst_s[0], 0), burst_s[1] - burst_s[0]);
    return low_w * seconds + (high_w - low_w) * in_burst;
}

static double energy_between(int64_t start_ns, int64_t begin_ns, int64_t end_ns) {
    return energy_until((double)(end_ns - start_ns) * 1e-9) -
           energy_until((double)(begin_ns - start_ns) * 1e-9);
}

/* Steps until the time is over. */
static qn_status run(qn_task *task, qn_meter *meter) {
    const int64_t end_ns = qn_clock_ns() + (int64_t)(run_s * 1e9);
    qn_metrics metrics;
    qn_status status = QN_OK;
    while (status == QN_OK && qn_clock_ns() < end_ns) {
        status = qn_task_step(task, &metrics);
        qn_meter_mark(meter);
    }
    qn_meter_stop(meter);
    return status;
}

static const qn_series *find_power(const qn_measurement *m) {
    for (int i = 0; i < m->n_series; i++) {
        if (strcmp(m->series[i].channel.source, "replay") == 0)
            return &m->series[i];
    }
    return NULL;
}

/* What readings that straddle a border of the burst may give to the wrong side: on a busy machine
 * they are long. */
static double straddled_j(const qn_series *power, int64_t start_ns) {
    double sum = 0;
    for (size_t i = 0; i < power->n; i++) {
        const double begin = (double)(power->readings[i].begin_ns - start_ns) * 1e-9;
        const double end = (double)(power->readings[i].end_ns - start_ns) * 1e-9;
        for (int border = 0; border < 2; border++) {
            if (begin < burst_s[border] && burst_s[border] < end)
                sum += (high_w - low_w) * (end - begin) / 2;
        }
    }
    return sum;
}

/* By the operations' own times. */
static double true_energy(const qn_measurement *m, const char *type, int64_t start_ns) {
    double sum = 0;
    for (size_t i = 0; i < m->n_events; i++) {
        const qn_event *e = &m->events[i];
        if (e->kind != QN_EVENT_OPERATION || e->end_ns > m->end_ns)
            continue;
        for (int row = 0; row < m->n_nodes; row++) {
            if (m->nodes[row].program == e->program && m->nodes[row].item == e->item &&
                strcmp(m->nodes[row].type, type) == 0)
                sum += energy_between(start_ns, e->begin_ns, e->end_ns);
        }
    }
    return sum;
}

static void check_energy(const qn_measurement *m) {
    const qn_series *power = find_power(m);
    CHECK(power && power->n > 10 && m->n_folded_events == 0 && m->n_lost_events == 0);
    if (!power)
        return;
    const int64_t start_ns = power->readings[0].begin_ns;
    const double total = energy_between(start_ns, m->begin_ns, m->end_ns);
    const double slack = straddled_j(power, start_ns);
    double sum = m->idle_energy_j * 1e3;
    CHECK(fabs(m->energy_j / total - 1) < 0.005);
    for (int i = 0; i < m->n_nodes; i++)
        sum += m->nodes[i].energy_mj;
    CHECK(fabs(sum / (m->energy_j * 1e3) - 1) < 1e-9);
    for (int i = 0; i < m->n_types; i++) {
        const double truth = true_energy(m, m->types[i].type, start_ns);
        if (truth < 0.05 * total)
            continue;
        const double off = m->types[i].energy_mj * 1e-3 - truth;
        CHECK(fabs(off) < 0.02 * truth + slack);
        printf("%s: %.3f J, %+.2f %%\n", m->types[i].type, truth, 100 * off / truth);
    }
}

int main(void) {
    char path[] = "/tmp/quern-power-XXXXXX";
    qn_metadata *settings = NULL;
    qn_task *task = NULL;
    qn_meter *meter = NULL;
    const qn_measurement *m = NULL;
    CHECK(write_power(path));
    CHECK_OK(qn_metadata_create(NULL, &settings));
    CHECK_OK(qn_metadata_set(settings, "data", "synthetic"));
    CHECK_OK(qn_metadata_set(settings, "batch", "1024"));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = qn_model_find("lenet5"),
                                     .settings = settings, .training = true, .engine.n_threads = 1};
    CHECK_OK(qn_task_open(&options, &task));
    const qn_meter_options metering = {QN_OPTIONS_INIT(qn_meter_options),
                                       .engine = qn_task_engine(task), .interval_ns = 1000000,
                                       .replay = path};
    CHECK_OK(qn_meter_start(&metering, &meter));
    CHECK_OK(run(task, meter));
    CHECK_OK(qn_meter_measure(meter, &m));
    if (m)
        check_energy(m);
    qn_meter_destroy(meter);
    qn_task_close(task);
    qn_metadata_destroy(settings);
    unlink(path);
    return checks_finish();
}
