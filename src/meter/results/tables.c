/* See tables.h. A table is a grouping of operations; all three are built the same way. */
#include "meter/results/tables.h"

#include "base/status.h"
#include "os/os.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The operations by what they are grouped by: group[i] of operation i, or -1: it has no row. */
typedef struct grouping {
    int n;
    int32_t *group; /* (n_operations) */
} grouping;

/* What the operations of a row came to. */
typedef struct tally {
    qn_fold_row sum;
    double flops, bytes, energy_j, core_s;
    double least_s[3]; /* by the roofline, of operations by qn_bound */
} tally;

typedef struct tables {
    const qn_recording *recording;
    const qn_operation_totals *sums;
    qn_measurement *m;
    double all_ns; /* of all operations of the plan's own thread */
    int n_cores;
} tables;

/* ---- groups ---- */

typedef struct key {
    const char *text;
    size_t length;
    int32_t operation;
} key;

static int compare_text(const key *a, const key *b) {
    const size_t shorter = a->length < b->length ? a->length : b->length;
    const int order = memcmp(a->text, b->text, shorter);
    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

static int compare_keys(const void *left, const void *right) {
    const key *a = left, *b = right;
    const int order = compare_text(a, b);
    return order != 0 ? order : (a->operation > b->operation) - (a->operation < b->operation);
}

static bool ends_with(const char *name, size_t length, const char *suffix) {
    const size_t n = strlen(suffix);
    return length > n && memcmp(name + length - n, suffix, n) == 0;
}

size_t qn_tables_layer(const char *name) {
    static const char *const parts[] = {".backward", ".gradient", ".running"};
    static const char *const of_parameters[] = {".update", ".accumulate"};
    size_t length = strlen(name);
    for (int i = 0; i < 3; i++) {
        const char *found = strstr(name, parts[i]);
        if (found && found > name && (size_t)(found - name) < length)
            length = (size_t)(found - name);
    }
    for (int i = 0; i < 2; i++) {
        if (!ends_with(name, length, of_parameters[i]))
            continue;
        size_t end = length - strlen(of_parameters[i]);
        length = end;
        while (end > 0 && name[end - 1] != '.')
            end--;
        length = end > 1 ? end - 1 : length;
    }
    return length;
}

/* A layer whose name begins with another's belongs to that: "loss.samples" to "loss". */
static void join_layers(key *keys, int n) {
    key outer = {.text = ""};
    for (int i = 0; i < n; i++) {
        if (outer.length > 0 && keys[i].length > outer.length &&
            keys[i].text[outer.length] == '.' &&
            memcmp(keys[i].text, outer.text, outer.length) == 0)
            keys[i].length = outer.length;
        else
            outer = keys[i];
    }
}

/* Groups what has a row by equal texts. is_layer: by the layers in names, else by type. */
static qn_status group_by_text(const tables *t, const grouping *nodes, bool is_layer,
                               grouping *to) {
    const qn_recording *r = t->recording;
    key *keys;
    int n = 0;
    QN_TRY(qn_allocate(r->allocator, (size_t)r->n_operations + 1, sizeof *keys, &keys));
    for (int i = 0; i < r->n_operations; i++) {
        const qn_operation *o = &r->operations[i].operation;
        to->group[i] = -1;
        if (nodes->group[i] >= 0)
            keys[n++] = (key){is_layer ? o->name : o->type,
                              is_layer ? qn_tables_layer(o->name) : strlen(o->type), (int32_t)i};
    }
    qsort(keys, (size_t)n, sizeof *keys, compare_keys);
    if (is_layer)
        join_layers(keys, n);
    to->n = 0;
    for (int i = 0; i < n; i++) {
        to->n += i == 0 || compare_text(&keys[i - 1], &keys[i]) != 0;
        to->group[keys[i].operation] = to->n - 1;
    }
    qn_release(r->allocator, keys, (size_t)r->n_operations + 1, sizeof *keys);
    return QN_OK;
}

/* Nodes of programs that ran, in the order of the recording. */
static void group_nodes(const tables *t, grouping *to) {
    const qn_recording *r = t->recording;
    int end;
    for (int begin = 0; begin < r->n_operations; begin = end) {
        bool has_run = false;
        for (end = begin;
             end < r->n_operations && r->operations[end].program == r->operations[begin].program;
             end++)
            has_run |= t->sums->rows[end].calls > 0;
        for (int i = begin; i < end; i++)
            to->group[i] = has_run ? to->n++ : -1;
    }
}

/* ---- percentiles of single calls ---- */

static int compare_floats(const void *left, const void *right) {
    const float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

/* Of n sorted numbers, between the two that are nearest. */
static double percentile(const float *sorted, size_t n, double part) {
    if (n == 0)
        return NAN;
    const double at = part * (double)(n - 1);
    const size_t low = (size_t)at;
    const size_t high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (at - (double)low) * (double)(sorted[high] - sorted[low]);
}

static size_t count_calls(const qn_recording *r) {
    return r->calls ? r->n_calls : r->n_events;
}

/* The group of a call, or -1: it is none, or not of the measured steps. */
static int call_at(const tables *t, const grouping *g, size_t index, int64_t *total_ns) {
    const qn_recording *r = t->recording;
    if (r->calls) {
        *total_ns = r->calls[index].total_ns;
        return g->group[r->calls[index].row];
    }
    const qn_event *event = &r->events[index];
    const int row = qn_recording_row(r, event);
    *total_ns = event->end_ns - event->begin_ns;
    if (event->kind == QN_EVENT_SHARE || row < 0 || event->begin_ns < t->m->begin_ns ||
        event->begin_ns >= t->m->end_ns)
        return -1;
    return g->group[row];
}

/* ends (n + 1), zeroed: where each group's numbers end in all. */
static void sort_calls(const tables *t, const grouping *g, size_t *ends, float *all) {
    const size_t n = count_calls(t->recording);
    int64_t total_ns;
    for (size_t i = 0; i < n; i++) {
        const int group = call_at(t, g, i, &total_ns);
        if (group >= 0)
            ends[group + 1]++;
    }
    for (int i = 0; i < g->n; i++)
        ends[i + 1] += ends[i];
    for (size_t i = 0; i < n; i++) { /* ends[k] grows from the begin of k to its end */
        const int group = call_at(t, g, i, &total_ns);
        if (group >= 0)
            all[ends[group]++] = (float)total_ns * 1e-3F;
    }
}

static qn_status add_percentiles(const tables *t, const grouping *g, qn_operation_row *rows) {
    const qn_recording *r = t->recording;
    size_t *ends = NULL;
    float *all = NULL;
    qn_status status = qn_allocate(r->allocator, (size_t)g->n + 1, sizeof *ends, &ends);
    if (status == QN_OK)
        status = qn_allocate(r->allocator, count_calls(r) + 1, sizeof *all, &all);
    if (status == QN_OK)
        sort_calls(t, g, ends, all);
    for (int i = 0; i < g->n && status == QN_OK; i++) {
        const size_t begin = i > 0 ? ends[i - 1] : 0, n = ends[i] - begin;
        if (n > 0)
            qsort(all + begin, n, sizeof *all, compare_floats);
        rows[i].p50_us = percentile(all + begin, n, 0.5);
        rows[i].p95_us = percentile(all + begin, n, 0.95);
    }
    qn_release(r->allocator, ends, (size_t)g->n + 1, sizeof *ends);
    qn_release(r->allocator, all, count_calls(r) + 1, sizeof *all);
    return status;
}

/* ---- rows ---- */

/* The least time that a call could take, by the measured roofline, and what says so. */
static qn_bound find_bound(const qn_measurement *m, double flops, double bytes, double *least_s) {
    const double flops_s = flops / m->peak_flops, bytes_s = bytes / m->peak_bandwidth;
    *least_s = fmax(flops_s, bytes_s);
    if (!(flops_s + bytes_s > 0))
        return QN_BOUND_UNKNOWN;
    return flops_s >= bytes_s ? QN_BOUND_COMPUTE : QN_BOUND_MEMORY;
}

static void add_to_tally(const tables *t, int index, tally *to) {
    const qn_operation *o = &t->recording->operations[index].operation;
    const qn_fold_row *sum = &t->sums->rows[index];
    const double calls = (double)sum->calls, flops = (double)o->flops, bytes = (double)o->bytes;
    double least_s;
    const qn_bound bound = find_bound(t->m, flops, bytes, &least_s);
    to->sum.calls += sum->calls;
    to->sum.total_ns += sum->total_ns;
    to->sum.core_ns += sum->core_ns;
    to->flops += calls * flops;
    to->bytes += calls * bytes;
    to->energy_j += t->sums->energy_j[index];
    to->core_s += t->sums->core_s[index];
    to->least_s[bound] += calls * least_s;
}

static double divide(double a, double b) {
    return b > 0 ? a / b : NAN;
}

static void fill_row(const tables *t, const tally *from, qn_operation_row *row) {
    const double seconds = (double)from->sum.total_ns * 1e-9, calls = (double)from->sum.calls;
    const double compute_s = from->least_s[QN_BOUND_COMPUTE];
    const double memory_s = from->least_s[QN_BOUND_MEMORY];
    const double energy_j = t->sums->has_energy ? from->energy_j : NAN;
    const double core_s = t->sums->has_core ? from->core_s : (double)from->sum.core_ns * 1e-9;
    row->calls = from->sum.calls;
    row->total_ms = seconds * 1e3;
    row->share = divide((double)from->sum.total_ns, t->all_ns);
    row->mean_us = divide(seconds * 1e6, calls);
    row->flops = from->flops;
    row->bytes = from->bytes;
    row->gflops = divide(from->flops * 1e-9, seconds);
    row->roof = compute_s + memory_s > 0 ? divide(compute_s + memory_s, seconds) : NAN;
    if (compute_s + memory_s > 0)
        row->bound = compute_s >= memory_s ? QN_BOUND_COMPUTE : QN_BOUND_MEMORY;
    row->energy_mj = energy_j * 1e3;
    row->mean_w = divide(energy_j, seconds);
    row->utilisation = divide(core_s, seconds * t->n_cores);
    row->is_estimated = t->m->energy_is_estimated;
}

static qn_status fill_rows(const tables *t, const grouping *g, qn_operation_row *rows) {
    const qn_allocator *allocator = t->recording->allocator;
    tally *tallies;
    QN_TRY(qn_allocate(allocator, (size_t)g->n + 1, sizeof *tallies, &tallies));
    for (int i = 0; i < t->recording->n_operations; i++) {
        if (g->group[i] >= 0)
            add_to_tally(t, i, &tallies[g->group[i]]);
    }
    for (int i = 0; i < g->n; i++)
        fill_row(t, &tallies[i], &rows[i]);
    qn_release(allocator, tallies, (size_t)g->n + 1, sizeof *tallies);
    return add_percentiles(t, g, rows);
}

/* ---- tables ---- */

static int compare_times(const void *left, const void *right) {
    const qn_operation_row *a = left, *b = right;
    return (a->total_ms < b->total_ms) - (a->total_ms > b->total_ms);
}

static qn_operation_row *make_rows(const tables *t, const grouping *g) {
    qn_operation_row *rows = qn_arena_allocate(t->m->arena, (size_t)g->n + 1, sizeof *rows);
    return rows && fill_rows(t, g, rows) == QN_OK ? rows : NULL;
}

static qn_status make_nodes(const tables *t, const grouping *g) {
    qn_operation_row *rows = make_rows(t, g);
    if (!rows)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < t->recording->n_operations; i++) {
        const qn_recorded_operation *o = &t->recording->operations[i];
        if (g->group[i] < 0)
            continue;
        qn_operation_row *row = &rows[g->group[i]];
        row->type = o->operation.type;
        row->name = o->operation.name;
        row->device = o->operation.device;
        row->program = o->program;
        row->item = o->item;
    }
    t->m->nodes = rows;
    t->m->n_nodes = g->n;
    return QN_OK;
}

/* The name of a layer: the shortest that its operations have. */
static qn_status name_row(const tables *t, const qn_operation *o, bool is_layer,
                          qn_operation_row *row) {
    row->device = row->device ? row->device : o->device;
    row->program = row->item = -1;
    if (!is_layer) {
        row->type = o->type;
        return QN_OK;
    }
    const size_t length = qn_tables_layer(o->name);
    if (row->name && strlen(row->name) <= length)
        return QN_OK;
    row->name = qn_arena_format(t->m->arena, "%.*s", (int)length, o->name);
    return row->name ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status make_grouped(const tables *t, const grouping *nodes, grouping *g, bool is_layer) {
    QN_TRY(group_by_text(t, nodes, is_layer, g));
    qn_operation_row *rows = make_rows(t, g);
    if (!rows)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < t->recording->n_operations; i++) {
        if (g->group[i] >= 0)
            QN_TRY(
                name_row(t, &t->recording->operations[i].operation, is_layer, &rows[g->group[i]]));
    }
    if (g->n > 0)
        qsort(rows, (size_t)g->n, sizeof *rows, compare_times);
    *(is_layer ? &t->m->layers : &t->m->types) = rows;
    *(is_layer ? &t->m->n_layers : &t->m->n_types) = g->n;
    return QN_OK;
}

static int count_cores(const qn_recording *r) {
    int n = 0;
    for (int i = 0; i < r->n_series; i++) {
        const qn_channel *c = &r->series[i].channel;
        n += c->quantity == QN_QUANTITY_UTILISATION && c->part == QN_PART_CORE;
    }
    return n > 0 ? n : qn_cpu_count();
}

qn_status qn_tables_make(const qn_recording *recording, const qn_operation_totals *sums,
                         qn_measurement *m) {
    const size_t n = (size_t)recording->n_operations + 1;
    tables t = {.recording = recording, .sums = sums, .m = m};
    grouping nodes = {.n = 0}, other = {.n = 0};
    nodes.group = qn_arena_allocate(m->arena, n, sizeof *nodes.group);
    other.group = qn_arena_allocate(m->arena, n, sizeof *other.group);
    if (!nodes.group || !other.group)
        return QN_ERROR_MEMORY;
    t.n_cores = count_cores(recording);
    for (int i = 0; i < recording->n_operations; i++)
        t.all_ns += sums->rows[i].core_ns > 0 ? (double)sums->rows[i].total_ns : 0;
    group_nodes(&t, &nodes);
    QN_TRY(make_nodes(&t, &nodes));
    QN_TRY(make_grouped(&t, &nodes, &other, false));
    return make_grouped(&t, &nodes, &other, true);
}
