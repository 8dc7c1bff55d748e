/* See plan_file.h. The text is parsed by cJSON. */
#include "format/plan_file.h"

#include "base/status.h"
#include "format/output.h"
#include "os/heap.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char format_name[] = "quern plan 1";

void qn_plan_file_init(qn_plan_file *file, const qn_allocator *allocator) {
    *file = (qn_plan_file){.model = NULL};
    qn_arena_init(&file->memory, qn_allocator_or_default(allocator));
}

void qn_plan_file_deinit(qn_plan_file *file) {
    qn_arena_deinit(&file->memory);
}

/* ---- writing ---- */

/* A line for each: files are read, compared and changed by people too. */
static void new_line(qn_output *out) {
    if (out->is_within)
        qn_output_text(out, ",");
    qn_output_text(out, "\n");
    out->is_within = false;
}

static void put_item(qn_output *out, const qn_saved_item *item) {
    new_line(out);
    qn_json_open(out, NULL, '[');
    qn_json_text(out, NULL, qn_action_name(item->action));
    qn_json_text(out, NULL, item->name);
    qn_json_close(out, ']');
}

static void put_storage(qn_output *out, const qn_saved_storage *storage) {
    const qn_storage *place = &storage->place;
    new_line(out);
    qn_json_open(out, NULL, '{');
    qn_json_text(out, "value", storage->value);
    qn_json_text(out, "kind", qn_kind_name(place->kind));
    qn_json_count(out, "bytes", (int64_t)place->bytes);
    qn_json_count(out, "first", place->first);
    qn_json_count(out, "last", place->last);
    if (!place->is_bound)
        qn_json_count(out, "offset", (int64_t)place->offset);
    if (place->space != 0)
        qn_json_count(out, "space", place->space);
    qn_json_close(out, '}');
}

static void put_program(qn_output *out, const qn_saved_program *program) {
    char graph[24];
    snprintf(graph, sizeof graph, "%016" PRIx64, program->graph);
    new_line(out);
    qn_json_open(out, NULL, '{');
    qn_json_text(out, "name", program->name);
    qn_json_text(out, "graph", graph);
    qn_json_count(out, "micro_batch", program->micro_batch);
    qn_json_count(out, "arena_bytes", (int64_t)program->arena_bytes);
    qn_json_open(out, "items", '[');
    for (size_t i = 0; i < program->n_items; i++)
        put_item(out, &program->items[i]);
    qn_json_close(out, ']');
    qn_json_open(out, "storages", '[');
    for (size_t i = 0; i < program->n_storages; i++)
        put_storage(out, &program->storages[i]);
    qn_json_close(out, ']');
    qn_json_close(out, '}');
}

static qn_status write_file(void *context, qn_writer *writer) {
    const qn_plan_file *file = context;
    qn_output out = qn_output_to_file(writer);
    qn_json_open(&out, NULL, '{');
    qn_json_text(&out, "format", format_name);
    qn_json_text(&out, "model", file->model);
    qn_json_count(&out, "memory", (int64_t)file->budget_bytes);
    qn_json_count(&out, "threads", file->plan.n_threads);
    qn_json_text(&out, "isa", file->plan.isa);
    qn_json_open(&out, "settings", '{');
    for (size_t i = 0; i < file->n_settings; i++)
        qn_json_text(&out, file->settings[i].key, file->settings[i].value);
    qn_json_close(&out, '}');
    qn_json_open(&out, "programs", '[');
    for (int i = 0; i < file->plan.n_programs; i++)
        put_program(&out, &file->plan.programs[i]);
    qn_json_close(&out, ']');
    qn_json_close(&out, '}');
    qn_output_text(&out, "\n");
    return out.status;
}

qn_status qn_plan_file_write(const qn_plan_file *file, const char *path) {
    return qn_file_replace(path, write_file, (void *)(uintptr_t)file);
}

/* ---- reading ---- */

/* A file while it is read; where names the part at hand. */
typedef struct reading {
    qn_plan_file *file;
    const char *path;
    char where[96];
} reading;

static qn_status refuse(const reading *r, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "%s: no plan file: %s%s", r->path, r->where, what);
}

static qn_status keep_text(const reading *r, const cJSON *object, const char *key,
                           const char **text) {
    const char *found = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    char what[64];
    if (!found) {
        snprintf(what, sizeof what, "\"%s\" is not text", key);
        return refuse(r, what);
    }
    *text = qn_arena_text(&r->file->memory, found);
    return *text ? QN_OK : QN_ERROR_MEMORY;
}

/* A whole number from 0 to most, which a double holds exactly. */
static qn_status get_count(const reading *r, const cJSON *object, const char *key, int64_t most,
                           int64_t *count) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
    const double value = cJSON_IsNumber(found) ? found->valuedouble : -1;
    char what[96];
    if (!(value >= 0 && value <= (double)most) || value != (double)(int64_t)value) {
        snprintf(what, sizeof what, "\"%s\" is not a whole number from 0 to %lld", key,
                 (long long)most);
        return refuse(r, what);
    }
    *count = (int64_t)value;
    return QN_OK;
}

static const int64_t most_bytes = INT64_C(1) << 52, most_steps = INT32_MAX;

static qn_status get_size(const reading *r, const cJSON *object, const char *key, size_t *bytes) {
    int64_t count = 0;
    QN_TRY(get_count(r, object, key, most_bytes, &count));
    *bytes = (size_t)count;
    return QN_OK;
}

static qn_status get_step(const reading *r, const cJSON *object, const char *key, int32_t *step) {
    int64_t count = 0;
    QN_TRY(get_count(r, object, key, most_steps, &count));
    *step = (int32_t)count;
    return QN_OK;
}

/* Elements of a list, whose memory is taken; size is of one. */
static qn_status get_list(const reading *r, const cJSON *object, const char *key, size_t size,
                          const cJSON **list, size_t *n, void **memory) {
    char what[64];
    *list = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsArray(*list)) {
        snprintf(what, sizeof what, "\"%s\" is not a list", key);
        return refuse(r, what);
    }
    *n = (size_t)cJSON_GetArraySize(*list);
    *memory = qn_arena_allocate(&r->file->memory, *n + 1, size);
    return *memory ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status parse_item(const reading *r, const cJSON *json, qn_saved_item *item) {
    const char *action = cJSON_GetStringValue(cJSON_GetArrayItem(json, 0));
    const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(json, 1));
    if (!cJSON_IsArray(json) || cJSON_GetArraySize(json) != 2 || !action || !name)
        return refuse(r, "it is not a pair of action and name");
    item->action = QN_ACTION_COUNT;
    for (int i = 0; i < QN_ACTION_COUNT; i++) {
        if (strcmp(qn_action_name((qn_action)i), action) == 0)
            item->action = (qn_action)i;
    }
    if (item->action == QN_ACTION_COUNT)
        return refuse(r, "it has no known action");
    item->name = qn_arena_text(&r->file->memory, name);
    return item->name ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status parse_items(reading *r, const cJSON *json, qn_saved_program *program) {
    const cJSON *list = NULL, *item;
    void *memory = NULL;
    QN_TRY(get_list(r, json, "items", sizeof *program->items, &list, &program->n_items, &memory));
    program->items = memory;
    size_t i = 0;
    cJSON_ArrayForEach(item, list) {
        snprintf(r->where, sizeof r->where, "item %zu of %.40s: ", i, program->name);
        QN_TRY(parse_item(r, item, &program->items[i++]));
    }
    return QN_OK;
}

static qn_status parse_kind(const reading *r, const cJSON *json, qn_kind *kind) {
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "kind"));
    for (int i = 0; name && i < QN_KIND_COUNT; i++) {
        if (strcmp(qn_kind_name((qn_kind)i), name) == 0) {
            *kind = (qn_kind)i;
            return QN_OK;
        }
    }
    return refuse(r, "\"kind\" is none that there is");
}

/* Left out: the host's. */
static qn_status parse_space(const reading *r, const cJSON *json, int16_t *space) {
    int64_t count = 0;
    if (cJSON_GetObjectItemCaseSensitive(json, "space"))
        QN_TRY(get_count(r, json, "space", QN_MAX_SPACES - 1, &count));
    *space = (int16_t)count;
    return QN_OK;
}

static qn_status parse_storage(const reading *r, const cJSON *json, qn_saved_storage *storage) {
    qn_storage *place = &storage->place;
    QN_TRY(keep_text(r, json, "value", &storage->value));
    QN_TRY(parse_kind(r, json, &place->kind));
    QN_TRY(get_size(r, json, "bytes", &place->bytes));
    QN_TRY(get_step(r, json, "first", &place->first));
    QN_TRY(get_step(r, json, "last", &place->last));
    QN_TRY(parse_space(r, json, &place->space));
    place->is_bound = !cJSON_GetObjectItemCaseSensitive(json, "offset");
    return place->is_bound ? QN_OK : get_size(r, json, "offset", &place->offset);
}

static qn_status parse_storages(reading *r, const cJSON *json, qn_saved_program *program) {
    const cJSON *list = NULL, *item;
    void *memory = NULL;
    snprintf(r->where, sizeof r->where, "%.40s: ", program->name);
    QN_TRY(get_list(r, json, "storages", sizeof *program->storages, &list, &program->n_storages,
                    &memory));
    program->storages = memory;
    size_t i = 0;
    cJSON_ArrayForEach(item, list) {
        snprintf(r->where, sizeof r->where, "storage %zu of %.40s: ", i, program->name);
        QN_TRY(parse_storage(r, item, &program->storages[i++]));
    }
    return QN_OK;
}

static qn_status parse_program(reading *r, const cJSON *json, qn_saved_program *program) {
    const char *graph = "";
    char *end;
    QN_TRY(keep_text(r, json, "name", &program->name));
    snprintf(r->where, sizeof r->where, "%.40s: ", program->name);
    QN_TRY(keep_text(r, json, "graph", &graph));
    program->graph = strtoull(graph, &end, 16);
    if (end == graph || *end)
        return refuse(r, "\"graph\" is not a fingerprint");
    QN_TRY(get_count(r, json, "micro_batch", most_steps, &program->micro_batch));
    QN_TRY(get_size(r, json, "arena_bytes", &program->arena_bytes));
    QN_TRY(parse_items(r, json, program));
    return parse_storages(r, json, program);
}

static qn_status parse_programs(reading *r, const cJSON *json) {
    qn_saved_plan *plan = &r->file->plan;
    const cJSON *list = NULL, *item;
    void *memory = NULL;
    size_t n = 0;
    QN_TRY(get_list(r, json, "programs", sizeof *plan->programs, &list, &n, &memory));
    plan->programs = memory;
    cJSON_ArrayForEach(item, list) {
        snprintf(r->where, sizeof r->where, "program %d: ", plan->n_programs);
        QN_TRY(parse_program(r, item, &plan->programs[plan->n_programs]));
        plan->n_programs++;
    }
    return QN_OK;
}

static qn_status parse_settings(const reading *r, const cJSON *json) {
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(json, "settings"), *item;
    qn_plan_file *file = r->file;
    if (!cJSON_IsObject(object))
        return refuse(r, "\"settings\" is not an object");
    file->settings = qn_arena_allocate(&file->memory, (size_t)cJSON_GetArraySize(object) + 1,
                                       sizeof *file->settings);
    if (!file->settings)
        return QN_ERROR_MEMORY;
    cJSON_ArrayForEach(item, object) {
        qn_plan_setting *setting = &file->settings[file->n_settings];
        if (!cJSON_IsString(item))
            return refuse(r, "a setting is not text");
        setting->key = qn_arena_text(&file->memory, item->string);
        setting->value = qn_arena_text(&file->memory, item->valuestring);
        if (!setting->key || !setting->value)
            return QN_ERROR_MEMORY;
        file->n_settings++;
    }
    return QN_OK;
}

static qn_status parse(reading *r, const cJSON *json) {
    qn_plan_file *file = r->file;
    const char *format = "";
    int64_t n_threads = 0;
    if (!cJSON_IsObject(json))
        return refuse(r, "it holds no JSON object");
    QN_TRY(keep_text(r, json, "format", &format));
    if (strcmp(format, format_name) != 0)
        return refuse(r, "\"format\" is none that this version reads");
    QN_TRY(keep_text(r, json, "model", &file->model));
    QN_TRY(get_size(r, json, "memory", &file->budget_bytes));
    QN_TRY(get_count(r, json, "threads", 4096, &n_threads));
    file->plan.n_threads = (int)n_threads;
    QN_TRY(keep_text(r, json, "isa", &file->plan.isa));
    QN_TRY(parse_settings(r, json));
    return parse_programs(r, json);
}

qn_status qn_plan_file_parse(qn_plan_file *file, const char *path, const char *text, size_t bytes) {
    reading r = {.file = file, .path = path};
    cJSON *json = cJSON_ParseWithLength(text, bytes);
    const qn_status status = parse(&r, json);
    cJSON_Delete(json);
    return status;
}

qn_status qn_plan_file_read(qn_plan_file *file, const char *path) {
    const qn_allocator *allocator = file->memory.allocator;
    char *text;
    size_t bytes;
    QN_TRY(qn_file_read_whole(allocator, path, &text, &bytes));
    const qn_status status = qn_plan_file_parse(file, path, text, bytes);
    qn_release(allocator, text, 1, bytes + 1);
    return status;
}
