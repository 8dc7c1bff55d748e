/* The summary for a terminal: what it says of a run that is known, that it says what was not
 * measured and what is estimated, and that no line is longer than 80 columns, whatever the run. */
#include "check.h"
#include "report/profile.h"

enum { COLUMNS = 80, NARROW = 59, MOST_LINES = 100 };

/* What was put. */
typedef struct page {
    int n_lines;
    size_t longest;
    char text[MOST_LINES * (COLUMNS + 2)];
} page;

static void put(void *user, const char *line) {
    page *p = user;
    const size_t length = strlen(line), used = strlen(p->text);
    p->n_lines++;
    p->longest = length > p->longest ? length : p->longest;
    snprintf(p->text + used, sizeof p->text - used, "%s\n", line);
}

static const page *summarise(const qn_measurement *m, const char *title) {
    static page p;
    p = (page){.n_lines = 0};
    qn_report_summary(m, title, NARROW, &p, put);
    CHECK(p.longest <= NARROW);
    p = (page){.n_lines = 0};
    qn_report_summary(m, title, COLUMNS, &p, put);
    CHECK(p.longest <= COLUMNS);
    CHECK(p.n_lines <= MOST_LINES);
    return &p;
}

#define CHECK_SAYS(page, expected)                                                                 \
    do {                                                                                           \
        CHECK(strstr((page)->text, expected));                                                     \
        if (!strstr((page)->text, expected))                                                       \
            printf("wanted \"%s\" in\n%s", expected, (page)->text);                                \
    } while (0)

/* Twenty steps of 12.5 ms on two cores. */
static const qn_operation_row known_types[] = {
    {.type = "conv2d",
     .calls = 40,
     .total_ms = 100,
     .share = 0.5,
     .flops = 8e9,
     .gflops = 80,
     .bound = QN_BOUND_COMPUTE,
     .energy_mj = 500,
     .mean_w = 5},
    {.type = "relu",
     .calls = 20,
     .total_ms = 50,
     .share = 0.25,
     .bound = QN_BOUND_MEMORY,
     .energy_mj = 200,
     .mean_w = 4},
};

static const qn_reading known_reading = {.begin_ns = 900000000, .end_ns = 1300000000};

static const qn_series known_series[] = {
    {.channel = {.name = "cpu0",
                 .source = "cores",
                 .quantity = QN_QUANTITY_UTILISATION,
                 .part = QN_PART_CORE,
                 .index = 0},
     .n = 1,
     .readings = &known_reading,
     .mean = 0.97,
     .periodicity = 0.25,
     .period_s = 0.0125},
    {.channel = {.name = "cpu1",
                 .source = "cores",
                 .quantity = QN_QUANTITY_UTILISATION,
                 .part = QN_PART_CORE,
                 .index = 1},
     .n = 1,
     .mean = 0.5,
     .periodicity = 0.75,
     .period_s = 0.0126},
};

static const qn_measurement known = {
    .begin_ns = 1000000000,
    .end_ns = 1250000000,
    .skipped_steps = 3,
    .n_steps = 20,
    .samples_per_step = 16,
    .step_ms_mean = 12.5,
    .step_ms_median = 12.25,
    .step_ms_deviation = 0.5,
    .operations_ms_per_step = 10,
    .idle_ms_per_step = 2.5,
    .throughput = 1280,
    .cpu_utilisation = 0.735,
    .gpu_utilisation = NAN,
    .energy_j = 1,
    .energy_mj_per_step = 50,
    .energy_mj_per_sample = 3.125,
    .idle_energy_j = 0.25,
    .flops_per_step = 4e8,
    .gflops = 32,
    .peak_flops = 64e9,
    .peak_bandwidth = NAN,
    .memory = {.peak_bytes = 3 << 20, .kind_bytes = {1 << 19, 0, 1 << 20, 1 << 20}},
    .resident_peak_bytes = 1e7,
    .n_types = 2,
    .types = known_types,
    .n_series = 2,
    .series = known_series,
    .n_ticks = 25,
    .n_missed_ticks = 1,
    .sampling_s = 0.001,
    .meter_bytes = 1 << 20};

static qn_measurement known_run(void) {
    qn_measurement m = known;
    for (int i = 0; i < QN_PART_COUNT; i++)
        m.part_energy_j[i] = NAN;
    m.part_energy_j[QN_PART_CPU] = 0.8;
    return m;
}

static void test_known(void) {
    const qn_measurement m = known_run();
    const page *p = summarise(&m, "resnet50, batch 16");
    CHECK_SAYS(p, "resnet50, batch 16: 20 steps measured after 3\n");
    CHECK_SAYS(p, "step          12.25 ms median, 12.50 ms mean, deviation 0.500 ms (4.0 %)\n");
    CHECK_SAYS(p, "throughput    1280 samples/s, 32.00 GFLOP/s of 64 that were measured at most\n");
    CHECK_SAYS(p, "operations    10.00 ms a step (80.0 %), idle 2.500 ms (20.0 %)\n");
    CHECK_SAYS(p, "energy        50.00 mJ a step, 3.125 mJ a sample, 25.0 % of it idle,\n"
                  "              CPU 40.00 mJ\n");
    CHECK_SAYS(p, "utilisation   CPU 73.5 %\n");
    CHECK_SAYS(p, "cores         0: 97 %, 1: 50 %\n");
    CHECK_SAYS(p, "memory        3.0 MiB in all, input 0.5, parameters 1.0, gradients 1.0,\n"
                  "              resident 9.5 MiB\n");
    CHECK_SAYS(p, "periodicity   0.75, utilisation of cpu1, every 12.60 ms\n");
    CHECK_SAYS(p, "meter         25 samplings, 1 missed, 0.25 % of a core, 1.0 MiB\n");
    CHECK_SAYS(p,
               "operation                      calls  ms/step  %time  GFLOP/s bound   mJ/step\n");
    CHECK_SAYS(p,
               "conv2d                            40    5.000   50.0    80.00 compute   25.00\n");
    CHECK_SAYS(p,
               "relu                              20    2.500   25.0        - memory    10.00\n");
    CHECK(!strstr(p->text, "estimated") && !strstr(p->text, "GPU") && !strstr(p->text, "nan"));
}

static void test_busy(void) {
    qn_measurement m = known_run();
    m.step_ms_low = 11.5;
    m.step_ms_high = 13;
    m.others = 0.04;
    const page *p = summarise(&m, "lenet5");
    CHECK_SAYS(p, "spread        11.50 to 13.00 ms, medians of stretches of the run\n");
    CHECK(!strstr(p->text, "uncertain"));
    m.others = 0.31;
    m.n_measurements = 1;
    p = summarise(&m, "lenet5");
    CHECK_SAYS(p, "uncertain     other programs used 31 % of the processors\n");
    m.n_measurements = 3;
    p = summarise(&m, "lenet5");
    CHECK_SAYS(p, "spread        11.50 to 13.00 ms, medians of 3 measurements\n");
    CHECK_SAYS(p, "uncertain     other programs used 31 % of the processors in the quietest of 3\n"
                  "              measurements\n");
}

static void test_estimated(void) {
    qn_measurement m = known_run();
    qn_operation_row types[2] = {m.types[0], m.types[1]};
    types[0].is_estimated = m.energy_is_estimated = true;
    m.types = types;
    const page *p = summarise(&m, "lenet5");
    CHECK_SAYS(p, "energy        50.00 mJ a step estimated, 3.125 mJ a sample estimated");
    CHECK_SAYS(p, "CPU 40.00 mJ estimated\n");
    CHECK_SAYS(p, " compute   25.00*\n");
    CHECK_SAYS(p, " memory    10.00\n");
    CHECK_SAYS(p, "* estimated from");
}

/* Nothing could be measured but time. */
static void test_unknown(void) {
    static const char *const said[] = {
        "rapl: /sys/class/powercap: there is no such folder; nothing "
        "measures this processor's power here, so that energy is "
        "not known"};
    qn_measurement m = {.n_steps = 1,
                        .step_ms_mean = 1,
                        .step_ms_median = 1,
                        .step_ms_deviation = NAN,
                        .operations_ms_per_step = NAN,
                        .idle_ms_per_step = NAN,
                        .throughput = NAN,
                        .cpu_utilisation = NAN,
                        .gpu_utilisation = NAN,
                        .energy_j = NAN,
                        .energy_mj_per_step = NAN,
                        .energy_mj_per_sample = NAN,
                        .idle_energy_j = NAN,
                        .gflops = NAN,
                        .peak_flops = NAN,
                        .resident_peak_bytes = NAN,
                        .n_said = 1,
                        .said = said};
    const page *p = summarise(&m, "a program");
    CHECK_SAYS(p, "energy        no sensor: this device's power cannot be measured; see quern\n");
    CHECK_SAYS(p,
               "sensors       rapl: /sys/class/powercap: there is no such folder; nothing\n"
               "              measures this processor's power here, so that energy is not known\n");
    CHECK(!strstr(p->text, "nan") && !strstr(p->text, "GFLOP") && !strstr(p->text, "operation "));
}

/* Large numbers, many cores, long names. */
static void test_extremes(void) {
    qn_operation_row types[12];
    qn_series series[64];
    char name[200];
    const char *said[] = {name, name};
    qn_measurement m = known_run();
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (int i = 0; i < 12; i++)
        types[i] = (qn_operation_row){.type = name,
                                      .calls = INT64_MAX,
                                      .total_ms = 1e300,
                                      .share = 1,
                                      .flops = 1,
                                      .gflops = -1e300,
                                      .energy_mj = 1e300,
                                      .is_estimated = true};
    for (int i = 0; i < 64; i++) {
        series[i] = m.series[0];
        series[i].channel.index = i;
        series[i].mean = 1e300;
    }
    m.types = types, m.n_types = 12;
    m.series = series, m.n_series = 64;
    m.said = said, m.n_said = 2;
    m.step_ms_mean = m.step_ms_median = m.throughput = m.energy_j = m.energy_mj_per_step = 1e300;
    m.resident_peak_bytes = 1e300;
    m.n_steps = INT32_MAX;
    const page *p = summarise(&m, name);
    CHECK_SAYS(p, "and 48 more\n");
    CHECK_SAYS(p, "and 2 more types\n");
    /* Cut between characters, not within one. */
    for (int i = 0; i < 99; i++)
        memcpy(name + 2 * i, "\xc3\xa9", 2);
    p = summarise(&m, name);
    CHECK_SAYS(p, "\xc3\xa9: 2147483647 steps measured");
}

int main(void) {
    test_known();
    test_busy();
    test_estimated();
    test_unknown();
    test_extremes();
    return checks_finish();
}
