/* Training measured from inside: LeNet-5 on made-up digits, ten steps of it under a meter, and
 * where their time and energy went; own_meter.json opens in Perfetto (https://ui.perfetto.dev). */
#include <quern/quern.h>

#include <stdio.h>

enum { BATCH = 32, SIDE = 28, STEPS = 10, SKIPPED = 3 };

static void show(const qn_meter_summary *s) {
    printf(
        "%lld steps of %.2f ms: %.2f ms operations, %.2f ms idle; %.0f samples/s, %.2f GFLOP/s\n",
        (long long)s->steps, s->mean_step_ms, s->operations_ms_per_step, s->idle_ms_per_step,
        s->samples_per_second, s->flops_per_second * 1e-9);
    if (s->energy_mj_per_step > 0) /* not so where no sensor is: NaN */
        printf("%.1f mJ a step%s\n", s->energy_mj_per_step,
               s->energy_is_estimated ? " (estimated)" : "");
}

static qn_status train(qn_trainer *trainer, qn_meter *meter) {
    static float x[BATCH * SIDE * SIDE];
    static int32_t y[BATCH];
    for (int i = 0; i < BATCH * SIDE * SIDE; i++)
        x[i] = (float)(i % 37) / 37;
    for (int i = 0; i < BATCH; i++)
        y[i] = i % 10;
    for (int step = 0; step < SKIPPED + STEPS; step++) {
        qn_step_result result;
        qn_status status = qn_trainer_step(trainer, x, y, &result);
        if (status != QN_OK)
            return status;
        qn_meter_mark(meter);
    }
    return QN_OK;
}

static qn_status measure(qn_trainer *trainer) {
    const qn_meter_options options = {
        QN_OPTIONS_INIT(qn_meter_options), .engine = qn_trainer_engine(trainer),
        .samples_per_step = BATCH, .skip_steps = SKIPPED, .title = "LeNet-5, batch 32"};
    qn_meter_summary summary;
    qn_meter *meter;
    qn_status status = qn_meter_start(&options, &meter);
    if (status != QN_OK)
        return status;
    status = train(trainer, meter);
    qn_meter_stop(meter);
    if (status == QN_OK)
        status = qn_meter_report(meter, &summary);
    if (status == QN_OK)
        show(&summary);
    if (status == QN_OK)
        status = qn_meter_write(meter, QN_METER_TRACE, "own_meter.json");
    qn_meter_destroy(meter);
    return status;
}

int main(void) {
    const qn_model *model = qn_model_find("lenet5");
    qn_status status = model ? QN_OK : QN_ERROR_ARGUMENT;
    qn_trainer *trainer = NULL;
    if (status == QN_OK) {
        qn_trainer_options options = qn_trainer_options_for(model);
        options.batch = BATCH;
        status = qn_trainer_create(&options, &trainer);
    }
    if (status == QN_OK)
        status = measure(trainer);
    if (status != QN_OK)
        fprintf(stderr, "%s\n", qn_error_message());
    qn_trainer_destroy(trainer);
    return status != QN_OK;
}
