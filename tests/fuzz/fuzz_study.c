/* Cells' files: what is read of them can be used, whatever they say. The first byte chooses between
 * runs and drip training (d); runs are parted by a byte 0x1e, the last stands for those that are
 * missing, of vision models and an LSTM at two batch sizes; what is made of them is judged. */
#include "fuzz/input.h"
#include "study/cell.h"
#include "study/observations.h"

enum { N_RUNS = 6, PART = 0x1e };

static const struct {
    const char *model;
    int64_t batch;
} runs[N_RUNS] = {{"lenet5", 4},    {"lenet5", 16},     {"squeezenet", 4},
                  {"char-cnn", 16}, {"squeezenet", 16}, {"char-lstm", 4}};

static void check_series(const qn_cell *cell) {
    for (int i = 0; i < cell->m.n_series; i++) {
        const qn_series *s = &cell->m.series[i];
        for (size_t k = 0; k < s->n; k++)
            if (s->readings[k].begin_ns > s->readings[k].end_ns)
                abort();
    }
}

static void judge(const qn_study_facts *facts) {
    qn_finding findings[QN_OBSERVATIONS];
    qn_observations_judge(facts, findings);
    for (int i = 0; i < QN_OBSERVATIONS; i++) {
        if (findings[i].number != i + 1 || !*qn_verdict_text(findings[i].verdict) ||
            !memchr(findings[i].here, 0, sizeof findings[i].here))
            abort();
    }
    if (facts->n_drips > 0 && findings[11].verdict == QN_VERDICT_UNKNOWN)
        abort();
}

/* A row of a part of the input, if it is one. */
static int fill_row(const uint8_t *part, size_t bytes, int run, qn_study_row *row) {
    static const int kinds[] = {0, 1, 0, 7};
    const qn_study_cores cores = {.n_kinds = 2, .names = {"a", "b"}, .n_cores = 4, .kind = kinds};
    char *text = malloc(bytes + 1);
    qn_cell cell;
    if (!text)
        abort();
    memcpy(text, part, bytes);
    text[bytes] = 0;
    qn_cell_init(&cell, NULL, QN_CELL_TRAINING, qn_model_find(runs[run].model), runs[run].batch);
    const int is_row =
        qn_cell_parse(&cell, text, bytes, "fuzz") == QN_OK && cell.state == QN_CELL_DONE;
    if (is_row) {
        if (!(cell.m.step_ms_mean > 0) || !*qn_domain_name(qn_domain_of(cell.model)))
            abort();
        check_series(&cell);
        qn_study_row_fill(&cell, &cell, &cores, row);
    }
    qn_cell_deinit(&cell);
    free(text);
    return is_row;
}

static void check_runs(const uint8_t *data, size_t size) {
    static const int kinds[] = {0, 1, 0, 7};
    qn_study_row rows[N_RUNS];
    const uint8_t *at = data, *end = data + size;
    int n = 0;
    for (int run = 0; run < N_RUNS; run++) {
        const uint8_t *mark = at < end ? memchr(at, PART, (size_t)(end - at)) : NULL;
        n += fill_row(at, (size_t)((mark ? mark : end) - at), run, &rows[n]);
        at = mark ? mark + 1 : at;
    }
    for (int n_kinds = 0; n_kinds < 3; n_kinds++) {
        const qn_study_facts facts = {
            .n_rows = n,
            .rows = rows,
            .n_left_out = n_kinds,
            .cores = {.n_kinds = n_kinds, .names = {"a", "b"}, .n_cores = 4, .kind = kinds}};
        judge(&facts);
    }
}

/* What is written of a cell is read again. */
static void check_written(const qn_cell *cell) {
    char path[128], name[64], title[128];
    qn_cell back;
    const bool is_done = cell->state == QN_CELL_DONE;
    snprintf(path, sizeof path, "%s/cell.json", input_folder());
    qn_cell_name(cell, name, sizeof name);
    qn_cell_title(cell, title, sizeof title);
    if ((is_done ? qn_drip_write(&cell->drip, path) : qn_cell_write_failure(path, cell->reason)) !=
        QN_OK)
        abort();
    qn_cell_init(&back, NULL, QN_CELL_DRIP, cell->model, cell->batch);
    if (qn_cell_read(&back, path) != QN_OK || back.state != cell->state || !*name || !*title)
        abort();
    if (is_done && (back.drip.n_days != cell->drip.n_days ||
                    back.drip.days[1].became_right != cell->drip.days[1].became_right))
        abort();
    if (!is_done && !*back.reason != !*cell->reason) /* bytes that are no UTF-8 become others */
        abort();
    qn_cell_deinit(&back);
}

static void check_drip(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = 0;
    for (int i = 0; i < 2; i++) {
        qn_cell cell;
        qn_cell_init(&cell, i ? &allocator : NULL, QN_CELL_DRIP, qn_model_find("lenet5"), 4);
        const bool is_read = qn_cell_parse(&cell, text, size, "fuzz") == QN_OK;
        if (is_read && cell.state == QN_CELL_DONE) {
            const qn_drip *drips[] = {&cell.drip};
            if (cell.drip.n_days < 2)
                abort();
            judge(&(qn_study_facts){.n_drips = 1, .drips = drips});
        }
        if (is_read)
            check_written(&cell);
        qn_cell_deinit(&cell);
    }
    input_check_memory(&f);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    if (data[0] == 'd')
        check_drip(data + 1, size - 1);
    else
        check_runs(data + 1, size - 1);
    return 0;
}
