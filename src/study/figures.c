/* See figures.h. */
#include "study/figures.h"

#include "base/status.h"
#include "graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LABELS = 256, MOST_LINES = 64, MOST_CORES = 16, MOST_GUIDES = 32 };
enum { MEBIBYTE = 1 << 20 };

/* ---- choosing ---- */

static bool is_trained(const qn_cell *c) {
    return c->kind == QN_CELL_TRAINING && c->state == QN_CELL_DONE;
}

/* Readings of a quantity, of the channel that has most: files hold those of three steps, or of more
 * where these are short. */
static int64_t count_readings(const qn_measurement *m, qn_quantity quantity) {
    size_t most = 0;
    for (int i = 0; i < m->n_series; i++) {
        const qn_series *s = &m->series[i];
        if (s->channel.quantity == quantity && s->n > most)
            most = s->n;
    }
    return (int64_t)most;
}

/* Steps that begin within the readings of a quantity. */
static int count_steps(const qn_measurement *m, qn_quantity quantity) {
    int64_t end_ns = 0;
    int n = 0;
    for (int i = 0; i < m->n_series; i++) {
        const qn_series *s = &m->series[i];
        const bool is_so = s->channel.quantity == quantity && s->n > 0;
        if (is_so && s->readings[s->n - 1].end_ns > end_ns)
            end_ns = s->readings[s->n - 1].end_ns;
    }
    while (n < m->n_steps && m->steps[n].begin_ns < end_ns)
        n++;
    return n;
}

/* Three steps of a hundred readings can be read best; by how many times it misses that. */
static double distance(const qn_cell *cell) {
    const int64_t n = count_readings(&cell->m, QN_QUANTITY_UTILISATION);
    return n > 0 ? fabs(log((double)n / 100)) : 1e3;
}

void qn_figures_choose(qn_figures *f) {
    memset(f->representative, 0, sizeof f->representative);
    for (int i = 0; i < qn_study_count(f->study); i++) {
        const qn_cell *c = qn_study_cell(f->study, i);
        const qn_cell **best = &f->representative[qn_domain_of(c->model)];
        if (is_trained(c) && (!*best || distance(c) < distance(*best)))
            *best = c;
    }
}

/* ---- over three steps ---- */

static double milliseconds(int64_t ns) {
    return (double)ns * 1e-6;
}

/* Draws a series' readings of the steps shown, each until the next. */
static qn_status draw_readings(const qn_figures *f, const qn_series *s, const char *name,
                               double scale) {
    double *x = qn_arena_allocate(f->arena, s->n + 1, sizeof *x);
    double *y = qn_arena_allocate(f->arena, s->n + 1, sizeof *y);
    int64_t n = 0;
    if (!x || !y)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < s->n; i++) {
        x[n] = fmax(milliseconds(s->readings[i].begin_ns), 0);
        y[n++] = s->readings[i].value * scale;
    }
    if (n == 0)
        return QN_OK;
    x[n] = milliseconds(s->readings[n - 1].end_ns);
    y[n] = y[n - 1];
    qn_document_series(f->document, name, n + 1, x, y);
    return QN_OK;
}

/* A process's utilisation is in cores, and shown as part of all of them. */
static qn_status draw_channel(const qn_figures *f, const qn_series *s, double scale) {
    const int n_cores = f->facts->cores.n_cores;
    if (s->channel.part == QN_PART_PROCESS && n_cores > 0)
        return draw_readings(f, s, "this process, share of all cores", scale / n_cores);
    return draw_readings(f, s, s->channel.name, scale);
}

static bool is_shown(const qn_series *s, qn_quantity quantity) {
    const qn_part part = s->channel.part;
    if (s->channel.quantity != quantity || s->n == 0)
        return false;
    if (quantity == QN_QUANTITY_UTILISATION)
        return part == QN_PART_GPU || part == QN_PART_PROCESS ||
               (part == QN_PART_CORE && s->channel.index < MOST_CORES);
    return true;
}

/* Thin lines where steps begin, unless there are too many to be told apart. */
static qn_status draw_steps(const qn_figures *f, const qn_measurement *m, int n_steps, double top) {
    double *x = qn_arena_allocate(f->arena, 3 * (size_t)n_steps, sizeof *x);
    double *y = qn_arena_allocate(f->arena, 3 * (size_t)n_steps, sizeof *y);
    if (!x || !y)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < n_steps; i++) {
        const double values[] = {0, top, NAN};
        for (int k = 0; k < 3; k++) {
            x[3 * i + k] = milliseconds(m->steps[i].begin_ns);
            y[3 * i + k] = values[k];
        }
    }
    qn_document_guide(f->document, "a step begins", 3 * (int64_t)n_steps, x, y);
    return QN_OK;
}

static double top_of(const qn_measurement *m, qn_quantity quantity, double scale) {
    double top = quantity == QN_QUANTITY_UTILISATION ? 100 : 0;
    for (int i = 0; i < m->n_series; i++) {
        const qn_series *s = &m->series[i];
        const bool is_drawn = is_shown(s, quantity) && s->channel.part != QN_PART_PROCESS;
        for (size_t k = 0; is_drawn && k < s->n; k++)
            top = fmax(top, s->readings[k].value * scale);
    }
    return top;
}

static qn_status add_steps_chart(const qn_figures *f, const qn_cell *cell, qn_quantity quantity,
                                 const char *what, const char *unit, double scale) {
    char name[128], title[200];
    const qn_measurement *m = &cell->m;
    const int n_steps = count_steps(m, quantity);
    qn_cell_title(cell, name, sizeof name);
    snprintf(title, sizeof title, "%s over %d steps: %s%s", what, n_steps, name,
             quantity == QN_QUANTITY_POWER && m->energy_is_estimated ? " (estimated)" : "");
    const qn_chart chart = {
        .kind = QN_CHART_STEP, .title = title, .x_label = "time (ms)", .y_label = unit};
    qn_document_begin_chart(f->document, &chart);
    qn_status status = QN_OK;
    if (n_steps > 0 && n_steps <= MOST_GUIDES)
        status = draw_steps(f, m, n_steps, top_of(m, quantity, scale));
    for (int i = 0; i < m->n_series && status == QN_OK; i++) {
        if (is_shown(&m->series[i], quantity))
            status = draw_channel(f, &m->series[i], scale);
    }
    qn_document_end_chart(f->document);
    return status;
}

/* One chart for each domain; *n_charts: how many there were. */
static qn_status add_steps_charts(const qn_figures *f, qn_quantity quantity, const char *what,
                                  const char *unit, double scale, int *n_charts) {
    *n_charts = 0;
    for (int d = 0; d < QN_DOMAIN_COUNT; d++) {
        const qn_cell *c = f->representative[d];
        if (!c || count_readings(&c->m, quantity) < 2)
            continue;
        QN_TRY(add_steps_chart(f, c, quantity, what, unit, scale));
        ++*n_charts;
    }
    return QN_OK;
}

/* ---- by batch: a line for each model ---- */

typedef double (*qn_row_number)(const qn_study_row *row);

static double gpu_percent(const qn_study_row *r) {
    return 100 * r->gpu;
}

static double throughput(const qn_study_row *r) {
    return r->throughput;
}

static double energy_j(const qn_study_row *r) {
    return r->energy_mj * 1e-3;
}

static double intermediate_mib(const qn_study_row *r) {
    return (r->memory[QN_KIND_FEATURE] + r->memory[QN_KIND_WORKSPACE]) / MEBIBYTE;
}

static bool has_any(const qn_figures *f, qn_row_number number) {
    for (int i = 0; i < f->facts->n_rows; i++) {
        if (isfinite(number(&f->facts->rows[i])))
            return true;
    }
    return false;
}

static bool is_first_of_model(const qn_study_facts *facts, int index) {
    for (int i = 0; i < index; i++) {
        if (strcmp(facts->rows[i].model, facts->rows[index].model) == 0)
            return false;
    }
    return true;
}

/* The rows of a model by rising batch: at most n of them. */
static int model_rows(const qn_study_facts *facts, const char *model, const qn_study_row **rows,
                      int most) {
    int n = 0;
    for (int i = 0; i < facts->n_rows && n < most; i++) {
        if (strcmp(facts->rows[i].model, model) != 0)
            continue;
        int at = n++;
        for (; at > 0 && rows[at - 1]->batch > facts->rows[i].batch; at--)
            rows[at] = rows[at - 1];
        rows[at] = &facts->rows[i];
    }
    return n;
}

static qn_status draw_model(const qn_figures *f, const char *model, qn_row_number number) {
    const qn_study_row *rows[MOST_LINES];
    const int n = model_rows(f->facts, model, rows, MOST_LINES);
    double *x = qn_arena_allocate(f->arena, (size_t)n, sizeof *x);
    double *y = qn_arena_allocate(f->arena, (size_t)n, sizeof *y);
    bool is_empty = true;
    if (!x || !y)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < n; i++) {
        x[i] = (double)rows[i]->batch;
        y[i] = number(rows[i]);
        is_empty &= !isfinite(y[i]);
    }
    if (!is_empty)
        qn_document_series(f->document, model, n, x, y);
    return QN_OK;
}

/* What the TX2 study says of a model from batch 4 to 64. */
typedef struct tx2_line {
    qn_row_number number;
    const char *name;
    double at_4, at_64;
} tx2_line;

static const tx2_line tx2_lines[] = {
    {gpu_percent, "TX2: densenet40", 81.6, 96.4},
    {gpu_percent, "TX2: squeezenet", 71.4, 84.5},
    {gpu_percent, "TX2: resnet50", 85.6, 95.6},
    {throughput, "TX2: resnet50", 9, 55},
    {throughput, "TX2: dqn", 889, 13618},
    {intermediate_mib, "TX2: densenet40", 2.2e9 / MEBIBYTE, 5.9e9 / MEBIBYTE},
};

static void draw_tx2(const qn_figures *f, qn_row_number number) {
    const double batches[] = {4, 64};
    for (size_t i = 0; i < sizeof tx2_lines / sizeof tx2_lines[0]; i++) {
        const tx2_line *l = &tx2_lines[i];
        if (l->number == number)
            qn_document_reference(f->document, l->name, 2, batches,
                                  (const double[]){l->at_4, l->at_64});
    }
}

static qn_status add_batch_chart(const qn_figures *f, const char *title, const char *unit,
                                 bool is_log, qn_row_number number) {
    const qn_chart chart = {.kind = QN_CHART_LINE,
                            .title = title,
                            .x_label = "batch",
                            .y_label = unit,
                            .x_is_log = true,
                            .y_is_log = is_log};
    qn_status status = QN_OK;
    qn_document_begin_chart(f->document, &chart);
    for (int i = 0; i < f->facts->n_rows && status == QN_OK; i++) {
        if (is_first_of_model(f->facts, i))
            status = draw_model(f, f->facts->rows[i].model, number);
    }
    draw_tx2(f, number);
    qn_document_end_chart(f->document);
    return status;
}

/* ---- bars over the batches of the representatives ---- */

typedef struct bars {
    int n;
    const char *labels[MOST_LABELS];
    const qn_cell *cells[MOST_LABELS];
} bars;

static const qn_cell *find_cell(const qn_figures *f, const qn_study_row *row) {
    for (int i = 0; i < qn_study_count(f->study); i++) {
        const qn_cell *c = qn_study_cell(f->study, i);
        if (is_trained(c) && c->batch == row->batch && strcmp(c->model->name, row->model) == 0)
            return c;
    }
    return NULL;
}

static qn_status list_bars(const qn_figures *f, bars *b) {
    b->n = 0;
    for (int d = 0; d < QN_DOMAIN_COUNT; d++) {
        const qn_study_row *rows[MOST_LINES];
        const qn_cell *r = f->representative[d];
        const int n = r ? model_rows(f->facts, r->model->name, rows, MOST_LINES) : 0;
        for (int i = 0; i < n && b->n < MOST_LABELS; i++) {
            b->cells[b->n] = find_cell(f, rows[i]);
            b->labels[b->n] =
                qn_arena_format(f->arena, "%s %lld", rows[i]->model, (long long)rows[i]->batch);
            if (!b->labels[b->n++])
                return QN_ERROR_MEMORY;
        }
    }
    return QN_OK;
}

static const qn_series *core_of(const qn_cell *cell, int index) {
    for (int i = 0; i < cell->m.n_series; i++) {
        const qn_channel *c = &cell->m.series[i].channel;
        if (c->quantity == QN_QUANTITY_UTILISATION && c->part == QN_PART_CORE && c->index == index)
            return &cell->m.series[i];
    }
    return NULL;
}

static qn_status draw_core(const qn_figures *f, const bars *b, int core) {
    char name[32];
    bool is_empty = true;
    double *y = qn_arena_allocate(f->arena, (size_t)b->n, sizeof *y);
    if (!y)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < b->n; i++) {
        const qn_series *s = core_of(b->cells[i], core);
        y[i] = s ? 100 * s->mean : (double)NAN;
        is_empty &= !isfinite(y[i]);
    }
    snprintf(name, sizeof name, "cpu%d", core);
    if (!is_empty)
        qn_document_series(f->document, name, b->n, NULL, y);
    return QN_OK;
}

static qn_status add_core_chart(const qn_figures *f, const bars *b) {
    const qn_chart chart = {.kind = QN_CHART_BAR,
                            .title = "Utilisation of each core by batch",
                            .x_label = "model and batch",
                            .y_label = "utilisation (%)",
                            .n_labels = b->n,
                            .labels = b->labels};
    qn_status status = QN_OK;
    qn_document_begin_chart(f->document, &chart);
    for (int core = 0; core < MOST_CORES && core < f->facts->cores.n_cores && status == QN_OK;
         core++)
        status = draw_core(f, b, core);
    qn_document_end_chart(f->document);
    return status;
}

/* ---- sections ---- */

static void say_none(const qn_figures *f, const char *text) {
    qn_document_text(f->document, text);
}

qn_status qn_figures_add_utilisation(const qn_figures *f) {
    bars b;
    int n_charts;
    qn_document_heading(f->document, "Utilisation");
    qn_document_text(
        f->document,
        "For each domain, the model and batch size whose steps the sampler resolves best. Dashed "
        "lines mark where steps begin. The sampler cannot see into steps shorter than its "
        "interval.");
    QN_TRY(add_steps_charts(f, QN_QUANTITY_UTILISATION, "Utilisation", "utilisation (%)", 100,
                            &n_charts));
    if (n_charts == 0)
        say_none(f, "No cell has utilisation over three steps.");
    if (!has_any(f, gpu_percent))
        say_none(f, "No GPU was seen on this machine: the lines by batch are the TX2's.");
    QN_TRY(add_batch_chart(f, "GPU utilisation by batch", "utilisation (%)", false, gpu_percent));
    QN_TRY(list_bars(f, &b));
    return b.n > 0 ? add_core_chart(f, &b) : QN_OK;
}

qn_status qn_figures_add_power(const qn_figures *f) {
    int n_charts;
    bool is_estimated = false;
    qn_document_heading(f->document, "Power and energy");
    for (int i = 0; i < f->facts->n_rows; i++)
        is_estimated |= f->facts->rows[i].power_is_estimated;
    if (is_estimated)
        qn_document_warning(f->document, "Power is estimated from utilisation and a description of "
                                         "the device; no sensor measured it.");
    QN_TRY(add_steps_charts(f, QN_QUANTITY_POWER, "Power", "power (W)", 1, &n_charts));
    if (n_charts == 0)
        say_none(f, "Power over three steps: no readings from a power sensor.");
    if (has_any(f, energy_j))
        return add_batch_chart(
            f, is_estimated ? "Energy per step by batch (estimated)" : "Energy per step by batch",
            "energy (J)", true, energy_j);
    say_none(f, "Energy per step by batch: there is no power sensor, and no description of the "
                "device to estimate from (--description).");
    return QN_OK;
}

qn_status qn_figures_add_batches(const qn_figures *f) {
    qn_document_heading(f->document, "Throughput");
    if (has_any(f, throughput))
        return add_batch_chart(f, "Throughput by batch", "throughput (samples/s)", true,
                               throughput);
    say_none(f, "No cell has a throughput.");
    return QN_OK;
}

static qn_status draw_kind(const qn_figures *f, const bars *b, qn_kind kind) {
    double *y = qn_arena_allocate(f->arena, (size_t)b->n, sizeof *y);
    if (!y)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < b->n; i++)
        y[i] = (double)b->cells[i]->m.memory.kind_bytes[kind] / MEBIBYTE;
    qn_document_series(f->document, kind == QN_KIND_FEATURE ? "feature maps" : qn_kind_name(kind),
                       b->n, NULL, y);
    return QN_OK;
}

qn_status qn_figures_add_memory(const qn_figures *f) {
    static const qn_kind kinds[] = {QN_KIND_PARAMETER, QN_KIND_STATE,   QN_KIND_GRADIENT,
                                    QN_KIND_INPUT,     QN_KIND_FEATURE, QN_KIND_WORKSPACE};
    bars b;
    qn_status status = QN_OK;
    qn_document_heading(f->document, "Memory");
    QN_TRY(list_bars(f, &b));
    if (b.n == 0) {
        say_none(f, "No cell was trained.");
        return QN_OK;
    }
    qn_document_text(f->document, "Memory by kind, at the step of the plan with the highest use.");
    const qn_chart chart = {.kind = QN_CHART_STACKED,
                            .title = "Memory by kind and batch",
                            .x_label = "model and batch",
                            .y_label = "memory (MiB)",
                            .n_labels = b.n,
                            .labels = b.labels};
    qn_document_begin_chart(f->document, &chart);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && status == QN_OK; i++)
        status = draw_kind(f, &b, kinds[i]);
    qn_document_end_chart(f->document);
    QN_TRY(status);
    return add_batch_chart(f, "Feature maps and workspace by batch", "memory (MiB)", true,
                           intermediate_mib);
}

/* ---- drip training ---- */

static void draw_drip(const qn_figures *f, const qn_drip *drip) {
    char name[32];
    double x[QN_DRIP_DAYS + 1], y[QN_DRIP_DAYS + 1];
    for (int i = 0; i < drip->n_days; i++) {
        x[i] = i;
        y[i] = 100 * drip->days[i].accuracy;
    }
    snprintf(name, sizeof name, "batch %lld", (long long)drip->batch);
    qn_document_series(f->document, name, drip->n_days, x, y);
}

qn_status qn_figures_add_drip(const qn_figures *f) {
    char text[400];
    qn_document_heading(f->document, "Drip training");
    if (f->facts->n_drips == 0) {
        say_none(f, "No drip training was run.");
        return QN_OK;
    }
    const qn_drip *d = f->facts->drips[0];
    snprintf(text, sizeof text,
             "%s was trained on %lld images of %s, and then on %d new ones each day; it is tested "
             "on the same %lld images each day.%s",
             d->model, (long long)d->n_pretraining, d->data, QN_DRIP_IMAGES, (long long)d->n_test,
             strcmp(d->model, "densenet40") == 0
                 ? ""
                 : " A light variant: the study's model is DenseNet40.");
    qn_document_text(f->document, text);
    const qn_chart chart = {.kind = QN_CHART_LINE,
                            .title = "Accuracy of drip training",
                            .x_label = "day",
                            .y_label = "accuracy (%)"};
    qn_document_begin_chart(f->document, &chart);
    for (int i = 0; i < f->facts->n_drips; i++)
        draw_drip(f, f->facts->drips[i]);
    qn_document_reference(f->document, "TX2: densenet40, other data", 2,
                          (const double[]){0, QN_DRIP_DAYS}, (const double[]){60.65, 61.32});
    qn_document_end_chart(f->document);
    return QN_OK;
}

/* ---- training against inference ---- */

static void add_inference_row(const qn_figures *f, const qn_study_row *r) {
    qn_document_cell_text(f->document, r->model);
    qn_document_cell_number(f->document, (double)r->batch, 0);
    qn_document_cell_number(f->document, r->step_ms, 2);
    qn_document_cell_number(f->document, r->inference_ms, 2);
    qn_document_cell_number(f->document, r->step_ms / r->inference_ms, 2);
}

qn_status qn_figures_add_inference(const qn_figures *f) {
    static const char *const columns[] = {"model", "batch", "training (ms)", "inference (ms)",
                                          "ratio"};
    const char *labels[MOST_LABELS];
    double ratios[MOST_LABELS];
    int n = 0;
    qn_document_heading(f->document, "Training against inference");
    qn_document_text(
        f->document,
        "Time per batch, and the ratio of training to inference. A study of 2021 (Cai et "
        "al., EMDL'21) found ratios of up to 17.8 on six phones; a Samsung Note 10 took "
        "516 ms to train a batch of 1, 812 ms for 2, 1365 ms for 4.");
    qn_document_begin_table(f->document, "Training against inference", 5, columns);
    for (int i = 0; i < f->facts->n_rows; i++) {
        const qn_study_row *r = &f->facts->rows[i];
        if (!isfinite(r->inference_ms) || n == MOST_LABELS)
            continue;
        add_inference_row(f, r);
        labels[n] = r->model;
        ratios[n++] = r->step_ms / r->inference_ms;
    }
    qn_document_end_table(f->document);
    if (n == 0)
        return QN_OK;
    const qn_chart chart = {.kind = QN_CHART_BARS_ACROSS,
                            .title = "Training as a multiple of inference",
                            .y_label = "training / inference",
                            .n_labels = n,
                            .labels = labels};
    qn_document_begin_chart(f->document, &chart);
    qn_document_series(f->document, "training / inference", n, NULL, ratios);
    qn_document_end_chart(f->document);
    return QN_OK;
}
