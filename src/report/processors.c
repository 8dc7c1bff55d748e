/* See processors.h. */
#include "report/processors.h"

#include "report/stretch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool qn_report_is_copy(const qn_operation_row *row) {
    return row->type && strcmp(row->type, "copy") == 0;
}

static int compare_rows(const void *left, const void *right) {
    const qn_operation_row *a = left, *b = right;
    if (a->program != b->program)
        return a->program < b->program ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

/* Nodes ascend by program and item. */
const qn_operation_row *qn_report_row_of(const qn_measurement *m, const qn_event *event) {
    const qn_operation_row wanted = {.program = event->program, .item = event->item};
    return m->n_nodes == 0
               ? NULL
               : bsearch(&wanted, m->nodes, (size_t)m->n_nodes, sizeof *m->nodes, compare_rows);
}

/* ---- numbers ---- */

static int find(const char *device, const qn_processor_use *uses, int n) {
    int i = 0;
    while (i < n && strcmp(uses[i].device, device) != 0)
        i++;
    return i;
}

static void add_row(qn_processor_use *use, const qn_operation_row *row, int n_steps) {
    if (qn_report_is_copy(row)) {
        use->copies_ms += row->total_ms / n_steps;
        use->copied_bytes += row->bytes / 2 / n_steps; /* each is read and written */
        return;
    }
    use->n_operations++;
    use->operations_ms += row->total_ms / n_steps;
}

int qn_report_processors(const qn_measurement *m, qn_processor_use *uses) {
    int n = 1;
    uses[0] = (qn_processor_use){.device = "cpu"};
    for (int i = 0; i < m->n_nodes; i++) {
        const qn_operation_row *row = &m->nodes[i];
        if (!row->device || row->calls == 0)
            continue;
        const int at = find(row->device, uses, n);
        if (at == QN_REPORT_PROCESSORS)
            continue;
        if (at == n)
            uses[n++] = (qn_processor_use){.device = row->device};
        add_row(&uses[at], row, m->n_steps > 0 ? m->n_steps : 1);
    }
    for (int i = 0; i < n; i++) {
        const double watts = i == 0 ? m->cpu_watts : m->device_watts;
        const double busy_ms = uses[i].operations_ms + uses[i].copies_ms;
        uses[i].energy_mj = watts > 0 && uses[i].n_operations > 0 ? watts * busy_ms : NAN;
    }
    return n;
}

/* ---- the chart ---- */

/* One track: the events of a device that are copies, or are not. */
typedef struct track {
    const char *device;
    bool are_copies;
    int level; /* from the bottom */
} track;

static bool is_of_track(const qn_measurement *m, const qn_event *event, const track *t) {
    const bool is_work = event->kind == QN_EVENT_OPERATION || event->kind == QN_EVENT_QUEUED;
    const qn_operation_row *row = is_work ? qn_report_row_of(m, event) : NULL;
    return row && row->device && strcmp(row->device, t->device) == 0 &&
           qn_report_is_copy(row) == t->are_copies;
}

/* Up while something of the track runs. */
static void add_track(qn_sections *s, const qn_stretch *stretch, const track *t) {
    const double high = t->level + 0.8, low = t->level;
    size_t n = 0, used = 0;
    for (size_t i = 0; i < s->m->n_events; i++)
        n += is_of_track(s->m, &s->m->events[i], t);
    double *x = qn_sections_numbers(s, 2 * n + 2), *y = qn_sections_numbers(s, 2 * n + 2);
    if (!x || !y || n == 0)
        return;
    for (size_t i = 0; i < s->m->n_events; i++) {
        const qn_event *e = &s->m->events[i];
        if (!is_of_track(s->m, e, t) || e->begin_ns < stretch->begin_ns ||
            e->begin_ns >= stretch->end_ns)
            continue;
        x[used] = (double)(e->begin_ns - stretch->begin_ns) * 1e-6;
        y[used++] = high;
        x[used] = (double)(e->end_ns - stretch->begin_ns) * 1e-6;
        y[used++] = low;
    }
    qn_document_series(s->document,
                       qn_sections_format(s, t->are_copies ? "copies of %s" : "%s", t->device),
                       (int64_t)used, x, y);
}

static void add_tracks(qn_sections *s, const qn_processor_use *uses, int n) {
    const qn_stretch stretch = qn_stretch_of(s->m);
    int level = 0;
    qn_document_begin_chart(s->document,
                            &(qn_chart){.kind = QN_CHART_STEP,
                                        .title = "What works when: a track for each processor, "
                                                 "and for its copies",
                                        .x_label = "time (ms)",
                                        .y_label = "track, raised while it works"});
    for (int i = 0; i < n; i++) {
        if (uses[i].n_operations > 0)
            add_track(s, &stretch, &(track){uses[i].device, false, level++});
        if (uses[i].copies_ms > 0)
            add_track(s, &stretch, &(track){uses[i].device, true, level++});
    }
    qn_document_end_chart(s->document);
}

/* ---- the table ---- */

static void add_table(qn_sections *s, const qn_processor_use *uses, int n) {
    qn_document_begin_table(s->document, "Processors", 6,
                            (const char *const[]){"processor", "operations", "ms/step",
                                                  "copies, ms/step", "copied, MB/step",
                                                  "mJ/step by its watts"});
    for (int i = 0; i < n; i++) {
        const qn_processor_use *u = &uses[i];
        qn_document_cell_text(s->document, u->device);
        qn_document_cell_number(s->document, u->n_operations, 0);
        qn_document_cell_number(s->document, u->operations_ms, 3);
        qn_document_cell_number(s->document, u->copies_ms, 3);
        qn_document_cell_number(s->document, u->copied_bytes * 1e-6, 3);
        qn_document_cell_number(s->document, u->energy_mj, 2);
    }
    qn_document_end_table(s->document);
}

void qn_sections_add_processors(qn_sections *s) {
    qn_processor_use uses[QN_REPORT_PROCESSORS];
    const int n = qn_report_processors(s->m, uses);
    if (n < 2)
        return;
    qn_document_heading(s->document, "Processors");
    qn_document_text(s->document,
                     "Each operation on a device was waited for, so that its time is "
                     "its own; without the meter a step is shorter. Copies are counted "
                     "by the bytes that they read and write.");
    add_tracks(s, uses, n);
    add_table(s, uses, n);
}
