/* See cell.h. JSON is parsed by cJSON; what it says is checked here. */
#include "study/cell.h"

#include "base/status.h"
#include "format/output.h"
#include "os/heap.h"
#include "os/os.h"
#include "report/words.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void qn_cell_init(qn_cell *cell, const qn_allocator *allocator, qn_cell_kind kind,
                  const qn_model *model, int64_t batch) {
    *cell = (qn_cell){.kind = kind, .model = model, .batch = batch};
    qn_arena_init(&cell->texts, qn_allocator_or_default(allocator));
}

void qn_cell_deinit(qn_cell *cell) {
    qn_arena_deinit(&cell->texts);
}

void qn_cell_name(const qn_cell *cell, char *name, size_t bytes) {
    const bool is_drip = cell->kind == QN_CELL_DRIP;
    snprintf(name, bytes, "%s-b%lld%s", is_drip ? "drip" : cell->model->name,
             (long long)cell->batch, cell->kind == QN_CELL_INFERENCE ? "-inference" : "");
}

void qn_cell_title(const qn_cell *cell, char *title, size_t bytes) {
    static const char *const words[] = {[QN_CELL_TRAINING] = "",
                                        [QN_CELL_INFERENCE] = ", inference",
                                        [QN_CELL_DRIP] = ", drip training"};
    snprintf(title, bytes, "%s, batch %lld%s", cell->model->name, (long long)cell->batch,
             words[cell->kind]);
}

/* ---- reading values ---- */

/* Where values come from, and where what is kept of them goes. */
typedef struct source {
    const char *name;
    qn_arena *texts;
} source;

static qn_status refuse(const source *from, const char *field, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "%s: \"%s\" %s", from->name, field, what);
}

/* A number, or NaN where there is none. */
static double number_of(const cJSON *object, const char *field) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, field);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

/* A whole number within the range, or the fallback. */
static int64_t count_of(const cJSON *object, const char *field, int64_t fallback, double most) {
    const double value = number_of(object, field);
    return value >= 0 && value <= most ? (int64_t)value : fallback;
}

static bool flag_of(const cJSON *object, const char *field) {
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, field));
}

/* A copy of a text; "" where there is none; null: memory is out. */
static const char *text_of(const source *from, const cJSON *object, const char *field) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, field));
    return qn_arena_text(from->texts, text ? text : "");
}

/* A list and its length; null and 0 where there is none. */
static const cJSON *list_of(const cJSON *object, const char *field, size_t *n) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, field);
    *n = cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0;
    return *n > 0 ? list : NULL;
}

/* Which of a list of words a text is, or -1. */
static int word_of(const cJSON *object, const char *field, const char *(*word)(int), int n) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, field));
    for (int i = 0; text && i < n; i++) {
        if (strcmp(word(i), text) == 0)
            return i;
    }
    return -1;
}

static const char *quantity_word(int i) {
    return qn_words_quantity((qn_quantity)i);
}

static const char *part_word(int i) {
    return qn_words_part((qn_part)i);
}

/* ---- series ---- */

static int64_t nanoseconds(double seconds) {
    return fabs(seconds) < 9e9 ? (int64_t)(seconds * 1e9) : 0;
}

/* [begin_s, end_s, value] */
static bool parse_reading(const cJSON *item, qn_reading *reading) {
    const cJSON *begin = cJSON_GetArrayItem(item, 0), *end = cJSON_GetArrayItem(item, 1);
    const cJSON *value = cJSON_GetArrayItem(item, 2);
    if (!cJSON_IsNumber(begin) || !cJSON_IsNumber(end) || !cJSON_IsNumber(value))
        return false;
    *reading = (qn_reading){nanoseconds(begin->valuedouble), nanoseconds(end->valuedouble),
                            value->valuedouble};
    return reading->begin_ns <= reading->end_ns;
}

static qn_status parse_readings(const source *from, const cJSON *object, qn_series *series) {
    size_t n;
    const cJSON *item, *list = list_of(object, "readings", &n);
    qn_reading *readings = qn_arena_allocate(from->texts, n + 1, sizeof *readings);
    if (!readings)
        return QN_ERROR_MEMORY;
    series->readings = readings;
    series->n = 0;
    cJSON_ArrayForEach(item, list) {
        if (!parse_reading(item, &readings[series->n++]))
            return refuse(from, "readings", "has an element other than [begin_s, end_s, value]");
    }
    return QN_OK;
}

static qn_status parse_series(const source *from, const cJSON *item, qn_series *series) {
    const int quantity = word_of(item, "quantity", quantity_word, QN_QUANTITY_COUNT);
    const int part = word_of(item, "part", part_word, QN_PART_COUNT);
    if (quantity < 0 || part < 0)
        return refuse(from, "series", "has an entry with an unknown quantity or part");
    const char *name = text_of(from, item, "name"), *kind = text_of(from, item, "source");
    if (!name || !kind)
        return QN_ERROR_MEMORY;
    *series = (qn_series){
        .channel = {.source = kind,
                    .quantity = (qn_quantity)quantity,
                    .part = (qn_part)part,
                    .index = (int32_t)count_of(item, "index", 0, 1e6),
                    .inside = -1,
                    .is_estimated = flag_of(item, "is_estimated")},
        .counts = flag_of(item, "counts"),
        .mean = number_of(item, "mean"),
        .most = number_of(item, "most"),
        .energy_j = number_of(item, "energy_j"),
        .idle_ratio = number_of(item, "idle_ratio"),
        .period_s = number_of(item, "period_s"),
        .periodicity = number_of(item, "periodicity"),
    };
    snprintf(series->channel.name, sizeof series->channel.name, "%s", name);
    return parse_readings(from, item, series);
}

static qn_status parse_all_series(const source *from, const cJSON *root, qn_measurement *m) {
    size_t n;
    const cJSON *item, *list = list_of(root, "series", &n);
    qn_series *series = qn_arena_allocate(from->texts, n + 1, sizeof *series);
    if (!series)
        return QN_ERROR_MEMORY;
    m->series = series;
    cJSON_ArrayForEach(item, list) QN_TRY(parse_series(from, item, &series[m->n_series++]));
    return QN_OK;
}

/* ---- the rest of a run ---- */

static qn_status parse_steps(const source *from, const cJSON *root, qn_measurement *m) {
    size_t n;
    const cJSON *item, *list = list_of(root, "step_rows", &n);
    qn_step_row *rows = qn_arena_allocate(from->texts, n + 1, sizeof *rows);
    if (!rows)
        return QN_ERROR_MEMORY;
    m->steps = rows;
    cJSON_ArrayForEach(item, list) {
        qn_step_row *row = &rows[m->n_steps++];
        *row = (qn_step_row){.begin_ns = nanoseconds(number_of(item, "begin_s")),
                             .end_ns = nanoseconds(number_of(item, "end_s")),
                             .operations_ms = number_of(item, "operations_ms"),
                             .idle_ms = number_of(item, "idle_ms"),
                             .energy_mj = number_of(item, "energy_mj")};
        if (row->begin_ns > row->end_ns)
            return refuse(from, "step_rows", "has a step that ends before it begins");
    }
    return QN_OK;
}

static qn_status parse_said(const source *from, const cJSON *root, qn_measurement *m) {
    size_t n;
    const cJSON *item, *list = list_of(root, "said", &n);
    const char **said = qn_arena_allocate(from->texts, n + 1, sizeof *said);
    if (!said)
        return QN_ERROR_MEMORY;
    m->said = said;
    cJSON_ArrayForEach(item, list) {
        const char *text = cJSON_GetStringValue(item);
        said[m->n_said] = qn_arena_text(from->texts, text ? text : "");
        if (!said[m->n_said++])
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

/* Numbers by name, so that a field is one row. */
static void parse_numbers(const cJSON *root, qn_measurement *m) {
    const struct {
        const char *name;
        double *to;
    } rows[] = {
        {"samples_per_step", &m->samples_per_step},
        {"step_ms_mean", &m->step_ms_mean},
        {"step_ms_median", &m->step_ms_median},
        {"step_ms_deviation", &m->step_ms_deviation},
        {"step_ms_low", &m->step_ms_low},
        {"step_ms_high", &m->step_ms_high},
        {"others", &m->others},
        {"operations_ms_per_step", &m->operations_ms_per_step},
        {"idle_ms_per_step", &m->idle_ms_per_step},
        {"throughput", &m->throughput},
        {"cpu_utilisation", &m->cpu_utilisation},
        {"gpu_utilisation", &m->gpu_utilisation},
        {"energy_j", &m->energy_j},
        {"energy_mj_per_step", &m->energy_mj_per_step},
        {"energy_mj_per_sample", &m->energy_mj_per_sample},
        {"idle_energy_j", &m->idle_energy_j},
        {"flops_per_step", &m->flops_per_step},
        {"gflops", &m->gflops},
        {"peak_flops", &m->peak_flops},
        {"peak_bandwidth", &m->peak_bandwidth},
        {"resident_peak_bytes", &m->resident_peak_bytes},
        {"sampling_s", &m->sampling_s},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        *rows[i].to = number_of(root, rows[i].name);
    const cJSON *parts = cJSON_GetObjectItemCaseSensitive(root, "part_energy_j");
    for (int i = 0; i < QN_PART_COUNT; i++)
        m->part_energy_j[i] = number_of(parts, part_word(i));
}

static void parse_memory(const cJSON *root, qn_measurement *m) {
    const double most = 9e15;
    const cJSON *memory = cJSON_GetObjectItemCaseSensitive(root, "memory");
    const cJSON *kinds = cJSON_GetObjectItemCaseSensitive(memory, "kinds");
    m->memory = (qn_memory_use){
        .peak_bytes = (size_t)count_of(memory, "peak_bytes", 0, most),
        .parameter_bytes = (size_t)count_of(memory, "parameter_bytes", 0, most),
        .arena_bytes = (size_t)count_of(memory, "arena_bytes", 0, most),
    };
    for (int i = 0; i < QN_MEMORY_KINDS; i++)
        m->memory.kind_bytes[i] = (size_t)count_of(kinds, qn_words_memory[i], 0, most);
}

static qn_status parse_run(const source *from, const cJSON *root, qn_cell *cell) {
    qn_measurement *m = &cell->m;
    parse_numbers(root, m);
    parse_memory(root, m);
    if (!(m->step_ms_mean > 0) || !(m->step_ms_median > 0))
        return refuse(from, "step_ms_mean", "or \"step_ms_median\" is missing or not a time");
    m->energy_is_estimated = flag_of(root, "energy_is_estimated");
    m->skipped_steps = count_of(root, "skipped_steps", 0, 1e15);
    m->n_measurements = (int)count_of(root, "measurements", 1, 1e6);
    m->n_ticks = count_of(root, "n_ticks", 0, 1e15);
    m->n_missed_ticks = count_of(root, "n_missed_ticks", 0, 1e15);
    m->meter_bytes = (size_t)count_of(root, "meter_bytes", 0, 9e15);
    QN_TRY(parse_steps(from, root, m));
    QN_TRY(parse_said(from, root, m));
    return parse_all_series(from, root, m);
}

/* ---- drip training ---- */

static qn_status parse_day(const source *from, const cJSON *item, qn_drip *drip) {
    const qn_drip_day day = {
        .accuracy = number_of(item, "accuracy"),
        .loss = number_of(item, "loss"),
        .became_right = count_of(item, "became_right", -1, 1e15),
        .became_wrong = count_of(item, "became_wrong", -1, 1e15),
    };
    if (drip->n_days > QN_DRIP_DAYS)
        return refuse(from, "days", "has too many entries");
    if (!(day.accuracy >= 0 && day.accuracy <= 1) || day.became_right < 0 || day.became_wrong < 0 ||
        day.became_right + day.became_wrong > drip->n_test)
        return refuse(from, "days", "has an impossible entry");
    drip->days[drip->n_days++] = day;
    return QN_OK;
}

static qn_status parse_drip(const source *from, const cJSON *root, qn_drip *drip) {
    size_t n;
    const cJSON *item, *days = list_of(root, "days", &n);
    *drip = (qn_drip){
        .model = text_of(from, root, "model"),
        .data = text_of(from, root, "data"),
        .batch = count_of(root, "batch", 0, 1e9),
        .n_pretraining = count_of(root, "pretraining_samples", 0, 1e15),
        .n_test = count_of(root, "test_samples", 0, 1e15),
    };
    if (!drip->model || !drip->data)
        return QN_ERROR_MEMORY;
    if (n < 2 || drip->n_test < 1)
        return refuse(from, "days", "is missing or too short, or \"test_samples\" is missing");
    cJSON_ArrayForEach(item, days) QN_TRY(parse_day(from, item, drip));
    return QN_OK;
}

/* ---- files ---- */

static qn_status parse_root(const source *from, const cJSON *root, qn_cell *cell) {
    const cJSON *drip = cJSON_GetObjectItemCaseSensitive(root, "drip");
    const char *failed = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "failed"));
    if (!cJSON_IsObject(root))
        return qn_fail(QN_ERROR_FORMAT, "%s: it is not a JSON object", from->name);
    if (failed) {
        cell->state = QN_CELL_FAILED;
        cell->reason = qn_arena_text(from->texts, failed);
        return cell->reason ? QN_OK : QN_ERROR_MEMORY;
    }
    cell->state = QN_CELL_DONE;
    if (cell->kind != QN_CELL_DRIP)
        return parse_run(from, root, cell);
    if (!cJSON_IsObject(drip))
        return refuse(from, "drip", "is missing");
    return parse_drip(from, drip, &cell->drip);
}

qn_status qn_cell_parse(qn_cell *cell, const char *text, size_t bytes, const char *from) {
    qn_cell read;
    qn_cell_init(&read, cell->texts.allocator, cell->kind, cell->model, cell->batch);
    read.demand = cell->demand;
    cJSON *root = cJSON_ParseWithLengthOpts(text, bytes + 1, NULL, true);
    qn_status status = root ? parse_root(&(source){from, &read.texts}, root, &read)
                            : qn_fail(QN_ERROR_FORMAT, "%s: it is not JSON", from);
    cJSON_Delete(root);
    qn_cell_deinit(status == QN_OK ? cell : &read);
    if (status == QN_OK)
        *cell = read;
    return status;
}

qn_status qn_cell_read(qn_cell *cell, const char *path) {
    const qn_allocator *allocator = cell->texts.allocator;
    char *text;
    size_t bytes;
    QN_TRY(qn_file_read_whole(allocator, path, &text, &bytes));
    qn_status status = qn_cell_parse(cell, text, bytes, path);
    qn_release(allocator, text, bytes + 1, 1);
    return status;
}

/* ---- writing ---- */

static qn_status put_failure(void *context, qn_writer *writer) {
    qn_output out = qn_output_to_file(writer);
    qn_json_open(&out, NULL, '{');
    qn_json_text(&out, "failed", context);
    qn_json_close(&out, '}');
    return out.status;
}

qn_status qn_cell_write_failure(const char *path, const char *reason) {
    return qn_file_replace(path, put_failure, (void *)(uintptr_t)reason);
}

static void put_day(qn_output *out, const qn_drip_day *day) {
    qn_json_open(out, NULL, '{');
    qn_json_number(out, "accuracy", day->accuracy);
    qn_json_number(out, "loss", day->loss);
    qn_json_count(out, "became_right", day->became_right);
    qn_json_count(out, "became_wrong", day->became_wrong);
    qn_json_close(out, '}');
}

static qn_status put_drip(void *context, qn_writer *writer) {
    const qn_drip *drip = context;
    qn_output out = qn_output_to_file(writer);
    qn_json_open(&out, NULL, '{');
    qn_json_open(&out, "drip", '{');
    qn_json_text(&out, "model", drip->model);
    qn_json_text(&out, "data", drip->data);
    qn_json_count(&out, "batch", drip->batch);
    qn_json_count(&out, "pretraining_samples", drip->n_pretraining);
    qn_json_count(&out, "test_samples", drip->n_test);
    qn_json_open(&out, "days", '[');
    for (int i = 0; i < drip->n_days; i++)
        put_day(&out, &drip->days[i]);
    qn_json_close(&out, ']');
    qn_json_close(&out, '}');
    qn_json_close(&out, '}');
    return out.status;
}

qn_status qn_drip_write(const qn_drip *drip, const char *path) {
    return qn_file_replace(path, put_drip, (void *)(uintptr_t)drip);
}
