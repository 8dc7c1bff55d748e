/* The page of a study: findings, figures, all cells, and what is missing. */
#include "base/print.h"
#include "base/status.h"
#include "base/text.h"
#include "graph/graph.h"
#include "meter/load.h"
#include "os/heap.h"
#include "study/figures.h"
#include "study/results.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MEBIBYTE = 1 << 20 };

static void add_figure(qn_document *d, const char *label, const char *note, const char *format,
                       double value) {
    char text[64];
    snprintf(text, sizeof text, format, value);
    qn_document_figure(d, label, text, note);
}

static int count_verdicts(const qn_finding findings[QN_OBSERVATIONS], qn_verdict verdict) {
    int n = 0;
    for (int i = 0; i < QN_OBSERVATIONS; i++)
        n += findings[i].verdict == verdict;
    return n;
}

/* Cells beside which other programs were at work. */
static void warn_of_others(const qn_figures *f) {
    char text[240];
    int n = 0;
    for (int i = 0; i < f->facts->n_rows; i++)
        n += f->facts->rows[i].others >= QN_LOAD_NOTED;
    if (n == 0)
        return;
    qn_print(text, sizeof text,
             "Other programs used %.0f %% of the cores or more in %d of %d cells, also when these "
             "were repeated. Verdicts on time, utilisation and power are uncertain.",
             100 * QN_LOAD_NOTED, n, f->facts->n_rows);
    qn_document_warning(f->document, text);
}

static void add_top(const qn_figures *f, const qn_finding findings[QN_OBSERVATIONS]) {
    char text[160], done[40];
    const int n_done = qn_study_count_in(f->study, QN_CELL_DONE);
    const int n_waiting = qn_study_count_in(f->study, QN_CELL_WAITING);
    double meter = 0;
    for (int i = 0; i < f->facts->n_rows; i++)
        meter = fmax(meter, f->facts->rows[i].meter_bytes);
    snprintf(done, sizeof done, "%d of %d", n_done, qn_study_count(f->study));
    snprintf(text, sizeof text, "%d failed, %d skipped, %d still to run",
             qn_study_count_in(f->study, QN_CELL_FAILED),
             qn_study_count_in(f->study, QN_CELL_LEFT_OUT), n_waiting);
    qn_document_figure(f->document, "Cells done", done, text);
    add_figure(f->document, "Observations confirmed", "of the study's twelve", "%.0f",
               count_verdicts(findings, QN_VERDICT_CONFIRMED));
    add_figure(f->document, "Not confirmed", "on this machine", "%.0f",
               count_verdicts(findings, QN_VERDICT_NOT_CONFIRMED));
    add_figure(f->document, "Uncertain", "measurements vary too much", "%.0f",
               count_verdicts(findings, QN_VERDICT_UNCERTAIN));
    add_figure(f->document, "Cannot be judged here", "no GPU, no sensor, too few cells", "%.0f",
               count_verdicts(findings, QN_VERDICT_UNKNOWN));
    qn_document_figure(f->document, "Memory of the meter",
                       qn_text_print_size((uint64_t)meter, text), "largest of any cell");
    if (n_waiting > 0)
        qn_document_warning(f->document, "The study is not complete; these are the cells so far.");
    warn_of_others(f);
}

static const char *short_verdict(const qn_finding *f) {
    return f->verdict == QN_VERDICT_UNKNOWN ? "cannot be judged" : qn_verdict_text(f->verdict);
}

static void add_finding(qn_document *d, const qn_finding *f) {
    static const qn_judgement judgements[] = {[QN_VERDICT_CONFIRMED] = QN_JUDGED_GOOD,
                                              [QN_VERDICT_NOT_CONFIRMED] = QN_JUDGED_BAD,
                                              [QN_VERDICT_UNCERTAIN] = QN_JUDGED_UNSURE,
                                              [QN_VERDICT_UNKNOWN] = QN_JUDGED_NOT};
    char claim[300], verdict[64];
    snprintf(claim, sizeof claim, "%d. %s", f->number, f->claim);
    snprintf(verdict, sizeof verdict, "%s%s", short_verdict(f),
             f->is_estimated ? ", estimated" : "");
    qn_document_find(d, &(qn_document_finding){.judgement = judgements[f->verdict],
                                               .verdict = verdict,
                                               .claim = claim,
                                               .here = f->here,
                                               .theirs = f->theirs,
                                               .theirs_label = "Jetson TX2"});
}

static void add_findings(qn_document *d, const qn_finding findings[QN_OBSERVATIONS]) {
    qn_document_heading(d, "The twelve observations");
    qn_document_text(
        d, "The observations of Liu et al. (2019, arXiv 1906.04278) on a Jetson TX2, and whether "
           "the measurements on this machine agree. docs/study.md has the rules.");
    for (int i = 0; i < QN_OBSERVATIONS; i++)
        add_finding(d, &findings[i]);
}

/* ---- all cells ---- */

static void add_cell_row(qn_document *d, const qn_study_row *r) {
    qn_document_cell_text(d, r->model);
    qn_document_cell_text(d, qn_domain_name(r->domain));
    qn_document_cell_number(d, (double)r->batch, 0);
    qn_document_cell_number(d, r->step_ms, 2);
    qn_document_cell_number(d, r->step_ms_low, 2);
    qn_document_cell_number(d, r->step_ms_high, 2);
    qn_document_cell_number(d, r->throughput, 1);
    qn_document_cell_number(d, 100 * r->others, 1);
    qn_document_cell_number(d, 100 * r->cpu, 1);
    qn_document_cell_number(d, 100 * r->gpu, 1);
    qn_document_cell_number(d, r->energy_mj * 1e-3, 3);
    qn_document_cell_number(d, r->memory[QN_KIND_PARAMETER] / MEBIBYTE, 2);
    qn_document_cell_number(
        d, (r->memory[QN_KIND_FEATURE] + r->memory[QN_KIND_WORKSPACE]) / MEBIBYTE, 2);
    qn_document_cell_number(d, r->resident_bytes / MEBIBYTE, 1);
    qn_document_cell_number(d, r->use_periodicity, 2);
    qn_document_cell_number(d, r->power_periodicity, 2);
}

static void add_cells(const qn_figures *f) {
    static const char *const columns[] = {"model",
                                          "domain",
                                          "batch",
                                          "step (ms)",
                                          "from (ms)",
                                          "to (ms)",
                                          "samples/s",
                                          "others (%)",
                                          "cores (%)",
                                          "GPU (%)",
                                          "energy per step (J)",
                                          "parameters (MiB)",
                                          "feature maps, workspace (MiB)",
                                          "resident (MiB)",
                                          "periodicity of use",
                                          "periodicity of power"};
    enum { N = sizeof columns / sizeof columns[0] };
    qn_document_heading(f->document, "All cells");
    qn_document_text(f->document,
                     "From and to: the smallest and the largest median over sections of the run "
                     "and repeated measurements. Others: share of the cores used by other "
                     "programs. Periodicity is the autocorrelation at one step; 1 means exact "
                     "repetition. A dash means not measured, or too fast for the sampler.");
    qn_document_begin_table(f->document, "All cells", N, columns);
    for (int i = 0; i < f->facts->n_rows; i++)
        add_cell_row(f->document, &f->facts->rows[i]);
    qn_document_end_table(f->document);
}

/* ---- what is missing ---- */

static void add_missing_cells(const qn_figures *f) {
    static const char *const columns[] = {"cell", "outcome", "why"};
    static const char *const states[] = {[QN_CELL_WAITING] = "still to run",
                                         [QN_CELL_DONE] = "done",
                                         [QN_CELL_FAILED] = "failed",
                                         [QN_CELL_LEFT_OUT] = "left out"};
    qn_document_begin_table(f->document, "Cells without numbers", 3, columns);
    for (int i = 0; i < qn_study_count(f->study); i++) {
        const qn_cell *c = qn_study_cell(f->study, i);
        char title[128];
        if (c->state == QN_CELL_DONE)
            continue;
        qn_cell_title(c, title, sizeof title);
        qn_document_cell_text(f->document, title);
        qn_document_cell_text(f->document, states[c->state]);
        qn_document_cell_text(f->document, c->reason ? c->reason : "");
    }
    qn_document_end_table(f->document);
}

/* What sources of the first cell said: the same in all. */
static void add_said(const qn_figures *f) {
    for (int i = 0; i < qn_study_count(f->study); i++) {
        const qn_cell *c = qn_study_cell(f->study, i);
        if (c->state != QN_CELL_DONE || c->m.n_said == 0)
            continue;
        for (int k = 0; k < c->m.n_said; k++)
            qn_document_text(f->document, c->m.said[k]);
        return;
    }
}

static void add_missing(const qn_figures *f) {
    qn_document_heading(f->document, "What is missing");
    if (qn_study_count_in(f->study, QN_CELL_DONE) < qn_study_count(f->study))
        add_missing_cells(f);
    else
        qn_document_text(f->document, "All cells were run.");
    add_said(f);
}

/* ---- the page ---- */

static qn_status add_figures(const qn_figures *f) {
    QN_TRY(qn_figures_add_utilisation(f));
    QN_TRY(qn_figures_add_power(f));
    QN_TRY(qn_figures_add_batches(f));
    QN_TRY(qn_figures_add_memory(f));
    QN_TRY(qn_figures_add_inference(f));
    return qn_figures_add_drip(f);
}

static qn_status fill(qn_figures *f, const qn_finding findings[QN_OBSERVATIONS], const char *path) {
    qn_figures_choose(f);
    add_top(f, findings);
    add_findings(f->document, findings);
    QN_TRY(add_figures(f));
    add_cells(f);
    add_missing(f);
    return qn_document_write(f->document, path);
}

qn_status qn_study_write_page(const qn_study *study, const qn_study_facts *facts,
                              const qn_finding findings[QN_OBSERVATIONS], const char *path) {
    const qn_allocator *allocator = qn_allocator_or_default(qn_study_get_options(study)->allocator);
    qn_arena arena;
    qn_figures f = {.study = study, .facts = facts, .arena = &arena};
    QN_TRY(qn_document_create(allocator, "Training on this machine", &f.document));
    qn_document_about(f.document, qn_study_machine(study), qn_study_threads(study));
    qn_arena_init(&arena, allocator);
    const qn_status status = fill(&f, findings, path);
    qn_arena_deinit(&arena);
    qn_document_destroy(f.document);
    return status;
}
