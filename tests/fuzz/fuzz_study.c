/* A cell's file: what is read of it can be used, whatever it says. The first byte chooses between a
 * run and a drip training (d). */
#include "study/cell.h"

#include "study/observations.h"

#include <stdlib.h>
#include <string.h>

static void check_run(const qn_cell *cell) {
    static const int kinds[] = {0, 1, 0, 7};
    const qn_study_cores cores = {.n_kinds = 2, .names = {"a", "b"}, .n_cores = 4, .kind = kinds};
    qn_study_row row;
    qn_finding findings[QN_OBSERVATIONS];
    qn_study_row_fill(cell, cell, &cores, &row);
    const qn_study_facts facts = {.n_rows = 1, .rows = &row, .cores = cores};
    qn_observations_judge(&facts, findings);
    if (!(cell->m.step_ms_mean > 0))
        abort();
    for (int i = 0; i < cell->m.n_series; i++) {
        const qn_series *s = &cell->m.series[i];
        for (size_t k = 0; k < s->n; k++)
            if (s->readings[k].begin_ns > s->readings[k].end_ns)
                abort();
    }
}

static void check_drip(const qn_cell *cell) {
    const qn_drip *drips[] = {&cell->drip};
    qn_finding findings[QN_OBSERVATIONS];
    const qn_study_facts facts = {.n_drips = 1, .drips = drips};
    qn_observations_judge(&facts, findings);
    if (cell->drip.n_days < 2 || findings[11].verdict == QN_VERDICT_UNKNOWN)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const bool is_drip = size > 0 && data[0] == 'd';
    if (size == 0)
        return 0;
    char *text = malloc(size);
    qn_cell cell;
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    qn_cell_init(&cell, NULL, is_drip ? QN_CELL_DRIP : QN_CELL_TRAINING, qn_model_find("lenet5"),
                 4);
    if (qn_cell_parse(&cell, text, size - 1, "fuzz") == QN_OK && cell.state == QN_CELL_DONE) {
        if (is_drip)
            check_drip(&cell);
        else
            check_run(&cell);
    }
    qn_cell_deinit(&cell);
    free(text);
    return 0;
}
