/* Text pairs, and data preparation as such pairs. Lists are stored as JSON, so that class names may
 * contain any character and numbers are restored to the last bit. */
#include "format/metadata.h"

#include "base/status.h"
#include "os/heap.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

qn_status qn_metadata_create(const qn_allocator *allocator, qn_metadata **metadata) {
    QN_NEED(metadata, "metadata");
    qn_metadata *made;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *made, &made));
    made->allocator = allocator;
    qn_arena_init(&made->texts, allocator);
    *metadata = made;
    return QN_OK;
}

void qn_metadata_destroy(qn_metadata *metadata) {
    if (!metadata)
        return;
    qn_release(metadata->allocator, metadata->pairs, metadata->capacity, sizeof *metadata->pairs);
    qn_arena_deinit(&metadata->texts);
    qn_release(metadata->allocator, metadata, 1, sizeof *metadata);
}

/* First pair whose key is not before key. */
static size_t find_place(const qn_metadata *metadata, const char *key) {
    size_t low = 0, high = metadata->n_pairs;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(metadata->pairs[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const qn_metadata *metadata, size_t i, const char *key) {
    return i < metadata->n_pairs && strcmp(metadata->pairs[i].key, key) == 0;
}

qn_status qn_metadata_set(qn_metadata *metadata, const char *key, const char *value) {
    QN_NEED(metadata, "metadata");
    QN_NEED(key, "key");
    QN_NEED(value, "value");
    const size_t i = find_place(metadata, key);
    const char *kept = qn_arena_text(&metadata->texts, value);
    if (!kept)
        return QN_ERROR_MEMORY;
    if (is_at(metadata, i, key)) {
        metadata->pairs[i].value = kept;
        return QN_OK;
    }
    const char *kept_key = qn_arena_text(&metadata->texts, key);
    if (!kept_key)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(metadata->allocator, &metadata->pairs, &metadata->capacity,
                   metadata->n_pairs + 1, sizeof *metadata->pairs));
    memmove(&metadata->pairs[i + 1], &metadata->pairs[i],
            (metadata->n_pairs - i) * sizeof *metadata->pairs);
    metadata->pairs[i] = (qn_safetensors_pair){kept_key, kept};
    metadata->n_pairs++;
    return QN_OK;
}

qn_status qn_metadata_add(qn_metadata *metadata, const qn_metadata *from) {
    for (int i = 0; from && i < qn_metadata_count(from); i++) {
        const char *key, *value;
        qn_metadata_at(from, i, &key, &value);
        QN_TRY(qn_metadata_set(metadata, key, value));
    }
    return QN_OK;
}

const char *qn_metadata_get(const qn_metadata *metadata, const char *key) {
    QN_NEED_OR(metadata, "metadata", NULL);
    QN_NEED_OR(key, "key", NULL);
    const size_t i = find_place(metadata, key);
    return is_at(metadata, i, key) ? metadata->pairs[i].value : NULL;
}

int qn_metadata_count(const qn_metadata *metadata) {
    QN_NEED_OR(metadata, "metadata", 0);
    return (int)metadata->n_pairs;
}

void qn_metadata_at(const qn_metadata *metadata, int index, const char **key, const char **value) {
    QN_NEED_OR(metadata, "metadata", );
    QN_NEED_OR(key, "key", );
    QN_NEED_OR(value, "value", );
    *key = *value = NULL;
    QN_DEMAND_OR(index >= 0 && index < qn_metadata_count(metadata), );
    *key = metadata->pairs[index].key;
    *value = metadata->pairs[index].value;
}

/* ---- preparation ---- */

/* Keeps a list as JSON text and frees it; a null list is one that memory was too short for. */
static qn_status set_list(qn_metadata *metadata, const char *key, cJSON *list) {
    char *printed = list ? cJSON_PrintUnformatted(list) : NULL;
    qn_status status = printed ? qn_metadata_set(metadata, key, printed)
                               : qn_fail(QN_ERROR_MEMORY, "no memory for %s", key);
    cJSON_free(printed);
    cJSON_Delete(list);
    return status;
}

static cJSON *list_numbers(const float *numbers, int n) {
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < n; i++) {
        if (!cJSON_AddItemToArray(list, cJSON_CreateNumber((double)numbers[i]))) {
            cJSON_Delete(list);
            return NULL;
        }
    }
    return list;
}

static cJSON *list_texts(const char *const *texts, int n) {
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < n; i++) {
        if (!cJSON_AddItemToArray(list, cJSON_CreateString(texts[i]))) {
            cJSON_Delete(list);
            return NULL;
        }
    }
    return list;
}

qn_status qn_metadata_set_texts(qn_metadata *metadata, const char *key, const char *const *texts,
                                int n) {
    return set_list(metadata, key, list_texts(texts, n));
}

static qn_status set_number(qn_metadata *metadata, const char *key, int64_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    return qn_metadata_set(metadata, key, digits);
}

/* ---- tables ---- */

static const char table_key[] = "preparation.table";

static const char *const kind_names[] = {[QN_COLUMN_NUMBER] = "number",
                                         [QN_COLUMN_TRUTH] = "truth",
                                         [QN_COLUMN_CATEGORY] = "category",
                                         [QN_COLUMN_HASHED] = "hashed",
                                         [QN_COLUMN_DATE] = "date"};

static bool add_column(cJSON *list, const qn_table_column *c) {
    cJSON *item = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, item)) {
        cJSON_Delete(item);
        return false;
    }
    const bool is_text = c->kind == QN_COLUMN_CATEGORY || c->kind == QN_COLUMN_HASHED;
    bool is_whole = cJSON_AddStringToObject(item, "name", c->name) &&
                    cJSON_AddStringToObject(item, "kind", kind_names[c->kind]);
    if (!is_text)
        is_whole &= cJSON_AddNumberToObject(item, "median", (double)c->median) != NULL;
    if (c->has_gaps)
        is_whole &= cJSON_AddTrueToObject(item, "gaps") != NULL;
    if (c->is_day_first)
        is_whole &= cJSON_AddTrueToObject(item, "day_first") != NULL;
    if (c->kind == QN_COLUMN_CATEGORY)
        is_whole &= cJSON_AddItemToObject(item, "texts", list_texts(c->texts, c->n_texts));
    return is_whole;
}

static bool fill_table(cJSON *to, const qn_table *table) {
    cJSON *columns = cJSON_AddArrayToObject(to, "columns");
    bool is_whole = columns != NULL;
    for (int i = 0; i < table->n_columns && is_whole; i++)
        is_whole = add_column(columns, &table->columns[i]);
    is_whole = is_whole &&
               cJSON_AddItemToObject(to, "targets", list_texts(table->targets, table->n_targets));
    if (table->are_labels)
        is_whole = is_whole && cJSON_AddTrueToObject(to, "are_labels");
    if (table->label_column)
        is_whole = is_whole && cJSON_AddStringToObject(to, "label_column", table->label_column);
    return is_whole && (!table->are_numbers || cJSON_AddTrueToObject(to, "are_numbers"));
}

/* A table's columns as JSON; none takes away what an earlier one has left. */
static qn_status set_table(qn_metadata *metadata, const qn_table *table) {
    if (!table)
        return qn_metadata_get(metadata, table_key) ? qn_metadata_set(metadata, table_key, "")
                                                    : QN_OK;
    cJSON *object = cJSON_CreateObject();
    if (object && !fill_table(object, table)) {
        cJSON_Delete(object);
        object = NULL;
    }
    return set_list(metadata, table_key, object);
}

qn_status qn_metadata_set_preparation(qn_metadata *metadata, const qn_preparation *p) {
    QN_NEED(metadata, "metadata");
    QN_NEED(p, "preparation");
    char shape[QN_SHAPE_TEXT];
    QN_DEMAND(p->n_statistics >= 0 && p->n_classes >= 0);
    QN_DEMAND(p->n_statistics == 0 || (p->mean && p->std_dev));
    QN_DEMAND(p->n_scaled >= 0);
    QN_DEMAND(p->n_scaled == 0 || (p->target_mean && p->target_scale));
    QN_DEMAND(p->sample.rank >= 0 && p->sample.rank <= QN_MAX_RANK);
    QN_TRY(qn_metadata_set(metadata, "preparation.sample", qn_shape_print(p->sample, shape)));
    QN_TRY(set_number(metadata, "preparation.centre_crop", p->centre_crop));
    QN_TRY(set_number(metadata, "preparation.n_classes", p->n_classes));
    QN_TRY(set_list(metadata, "preparation.mean", list_numbers(p->mean, p->n_statistics)));
    QN_TRY(set_list(metadata, "preparation.std_dev", list_numbers(p->std_dev, p->n_statistics)));
    if (p->n_scaled > 0 || qn_metadata_get(metadata, "preparation.target_mean")) {
        QN_TRY(set_list(metadata, "preparation.target_mean",
                        list_numbers(p->target_mean, p->n_scaled)));
        QN_TRY(set_list(metadata, "preparation.target_scale",
                        list_numbers(p->target_scale, p->n_scaled)));
    }
    QN_TRY(set_table(metadata, p->table));
    return qn_metadata_set_texts(metadata, "preparation.class_names", p->class_names,
                                 p->class_names ? p->n_classes : 0);
}

static qn_status refuse(const char *key, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "the checkpoint's \"%s\" %s", key, what);
}

static qn_status get_text(const qn_metadata *metadata, const char *key, const char **value) {
    *value = qn_metadata_get(metadata, key);
    return *value ? QN_OK : refuse(key, "is missing: it was written without preparation");
}

static qn_status get_number(const qn_metadata *metadata, const char *key, int64_t most,
                            int64_t *number) {
    const char *value;
    char *end;
    QN_TRY(get_text(metadata, key, &value));
    *number = strtoll(value, &end, 10);
    if (end == value || *end || *number < 0 || *number > most)
        return refuse(key, "is not a count");
    return QN_OK;
}

static qn_status get_shape(const qn_metadata *metadata, const char *key, qn_shape *shape) {
    const char *value;
    QN_TRY(get_text(metadata, key, &value));
    *shape = (qn_shape){.rank = 0};
    for (;;) {
        char *end;
        const long long extent = strtoll(value, &end, 10);
        if (end == value || extent < 1 || shape->rank == QN_MAX_RANK)
            return refuse(key, "is not a shape");
        shape->dims[shape->rank++] = extent;
        if (!*end)
            return qn_shape_is_valid(*shape) ? QN_OK : refuse(key, "is too large");
        if (*end != 'x')
            return refuse(key, "is not a shape");
        value = end + 1;
    }
}

static int hex_digit(char c) {
    const char *const digits = "0123456789abcdef", *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* JSON whose texts may hold bytes that are no UTF-8, which a checkpoint's header has as \xNN. No
 * JSON has that, so they are the bytes again. Null: not valid, or memory is out. */
static cJSON *parse_bytes(const char *value) {
    const size_t n = strlen(value);
    char *text = malloc(n + 1), *to = text;
    if (!text)
        return NULL;
    for (const char *c = value; *c; c++) {
        if (c[0] != '\\' || !c[1]) {
            *to++ = *c;
        } else if (c[1] == 'x' && hex_digit(c[2]) >= 8 && hex_digit(c[3]) >= 0) {
            *to++ = (char)(hex_digit(c[2]) << 4 | hex_digit(c[3]));
            c += 3;
        } else {
            *to++ = *c++;
            *to++ = *c;
        }
    }
    *to = 0;
    cJSON *made = cJSON_Parse(text);
    free(text);
    return made;
}

/* The list of a key, to be freed by the caller, and its length. */
static qn_status get_list(const qn_metadata *metadata, const char *key, cJSON **list, int *n) {
    const char *value;
    QN_TRY(get_text(metadata, key, &value));
    *list = parse_bytes(value);
    if (!cJSON_IsArray(*list)) {
        cJSON_Delete(*list);
        return refuse(key, "is not a list");
    }
    *n = cJSON_GetArraySize(*list);
    return QN_OK;
}

static qn_status copy_numbers(const cJSON *list, const char *key, bool is_divisor, float *to) {
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        const float number = cJSON_IsNumber(item) ? (float)item->valuedouble : NAN;
        if (!isfinite(number) || (is_divisor && number == 0))
            return refuse(key, "holds something that is not a usable number");
        *to++ = number;
    }
    return QN_OK;
}

static qn_status get_numbers(qn_metadata *metadata, const char *key, bool is_divisor,
                             const float **numbers, int *n) {
    cJSON *list;
    QN_TRY(get_list(metadata, key, &list, n));
    float *copy = qn_arena_allocate(&metadata->texts, (size_t)*n + 1, sizeof *copy);
    qn_status status = copy ? copy_numbers(list, key, is_divisor, copy) : QN_ERROR_MEMORY;
    *numbers = copy;
    cJSON_Delete(list);
    return status;
}

static qn_status copy_texts(qn_metadata *metadata, const cJSON *list, const char *key,
                            const char **to) {
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsString(item))
            return refuse(key, "holds something that is not text");
        *to = qn_arena_text(&metadata->texts, item->valuestring);
        if (!*to++)
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

qn_status qn_metadata_get_texts(qn_metadata *metadata, const char *key, const char *const **texts,
                                int *n) {
    cJSON *list;
    QN_TRY(get_list(metadata, key, &list, n));
    const char **copy = qn_arena_allocate(&metadata->texts, (size_t)*n + 1, sizeof *copy);
    const qn_status status = copy ? copy_texts(metadata, list, key, copy) : QN_ERROR_MEMORY;
    cJSON_Delete(list);
    *texts = copy;
    return status;
}

static qn_status get_class_names(qn_metadata *metadata, qn_preparation *p) {
    const char *key = "preparation.class_names";
    const char *const *names;
    int n;
    QN_TRY(qn_metadata_get_texts(metadata, key, &names, &n));
    if (n != 0 && n != p->n_classes)
        return refuse(key, "are not one for each class");
    p->class_names = n > 0 ? names : NULL;
    return QN_OK;
}

/* ---- reading a table ---- */

static qn_status get_texts(qn_metadata *metadata, const cJSON *list, int *n,
                           const char *const **texts) {
    *n = cJSON_GetArraySize(list);
    const char **copy = qn_arena_allocate(&metadata->texts, (size_t)*n + 1, sizeof *copy);
    if (!cJSON_IsArray(list))
        return refuse(table_key, "has a list that is none");
    if (!copy)
        return QN_ERROR_MEMORY;
    *texts = copy;
    return copy_texts(metadata, list, table_key, copy);
}

static bool find_kind(const cJSON *text, qn_column_kind *kind) {
    const size_t n = sizeof kind_names / sizeof *kind_names;
    size_t i = 0;
    while (i < n && !(cJSON_IsString(text) && strcmp(text->valuestring, kind_names[i]) == 0))
        i++;
    *kind = (qn_column_kind)i;
    return i < n;
}

static qn_status get_column(qn_metadata *metadata, const cJSON *item, qn_table_column *c) {
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
    const cJSON *median = cJSON_GetObjectItemCaseSensitive(item, "median");
    *c = (qn_table_column){
        .has_gaps = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "gaps")),
        .is_day_first = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "day_first")),
        .median = cJSON_IsNumber(median) ? (float)median->valuedouble : 0.0f,
    };
    if (!cJSON_IsString(name) || !isfinite(c->median) ||
        !find_kind(cJSON_GetObjectItemCaseSensitive(item, "kind"), &c->kind))
        return refuse(table_key, "has a column without name or kind");
    c->name = qn_arena_text(&metadata->texts, name->valuestring);
    if (!c->name)
        return QN_ERROR_MEMORY;
    if (c->kind != QN_COLUMN_CATEGORY)
        return QN_OK;
    return get_texts(metadata, cJSON_GetObjectItemCaseSensitive(item, "texts"), &c->n_texts,
                     &c->texts);
}

static qn_status take_table(qn_metadata *metadata, const cJSON *object, const qn_table **table) {
    const cJSON *columns = cJSON_GetObjectItemCaseSensitive(object, "columns"), *item;
    const int n = cJSON_GetArraySize(columns);
    qn_table *made = qn_arena_allocate(&metadata->texts, 1, sizeof *made);
    qn_table_column *list = qn_arena_allocate(&metadata->texts, (size_t)n + 1, sizeof *list);
    if (!made || !list)
        return QN_ERROR_MEMORY;
    const bool are_labels = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "are_labels"));
    if (!cJSON_IsArray(columns) || (n < 1 && !are_labels))
        return refuse(table_key, "has no columns");
    *made = (qn_table){.columns = list};
    made->are_numbers = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "are_numbers"));
    made->are_labels = are_labels;
    const cJSON *column = cJSON_GetObjectItemCaseSensitive(object, "label_column");
    if (cJSON_IsString(column)) {
        made->label_column = qn_arena_text(&metadata->texts, column->valuestring);
        if (!made->label_column)
            return QN_ERROR_MEMORY;
    }
    cJSON_ArrayForEach(item, columns) QN_TRY(get_column(metadata, item, &list[made->n_columns++]));
    QN_TRY(get_texts(metadata, cJSON_GetObjectItemCaseSensitive(object, "targets"),
                     &made->n_targets, &made->targets));
    *table = made;
    return QN_OK;
}

qn_status qn_metadata_get_table(qn_metadata *metadata, const qn_table **table) {
    const char *value = qn_metadata_get(metadata, table_key);
    *table = NULL;
    if (!value || !*value)
        return QN_OK;
    cJSON *object = parse_bytes(value);
    const qn_status status = take_table(metadata, object, table);
    cJSON_Delete(object);
    return status;
}

/* Means and scales of targets, where a checkpoint has them. */
static qn_status get_scales(qn_metadata *metadata, qn_preparation *p) {
    int n = 0;
    if (!qn_metadata_get(metadata, "preparation.target_mean"))
        return QN_OK;
    QN_TRY(get_numbers(metadata, "preparation.target_mean", false, &p->target_mean, &p->n_scaled));
    QN_TRY(get_numbers(metadata, "preparation.target_scale", true, &p->target_scale, &n));
    return n == p->n_scaled ? QN_OK
                            : refuse("preparation.target_scale",
                                     "has another length than preparation.target_mean");
}

/* None, one for all, one for each channel or column, or one for each element of an image that is
 * made of a row's columns. */
static qn_status check_statistics(const qn_preparation *p, int n_deviations) {
    const int n = p->n_statistics;
    if (n != n_deviations)
        return refuse("preparation.mean", "has another length than preparation.std_dev");
    if (n > 1 && n != p->sample.dims[p->sample.rank - 1] && n != qn_shape_count(p->sample))
        return refuse("preparation.mean", "does not match the sample's channels");
    return QN_OK;
}

qn_status qn_metadata_get_preparation(qn_metadata *metadata, qn_preparation *preparation) {
    QN_NEED(metadata, "metadata");
    QN_NEED(preparation, "preparation");
    qn_preparation p = {.n_classes = 0};
    int64_t crop, n_classes;
    int n_deviations;
    QN_TRY(get_shape(metadata, "preparation.sample", &p.sample));
    QN_TRY(get_number(metadata, "preparation.centre_crop", 1, &crop));
    QN_TRY(get_number(metadata, "preparation.n_classes", INT32_MAX, &n_classes));
    QN_TRY(get_numbers(metadata, "preparation.mean", false, &p.mean, &p.n_statistics));
    QN_TRY(get_numbers(metadata, "preparation.std_dev", true, &p.std_dev, &n_deviations));
    QN_TRY(check_statistics(&p, n_deviations));
    p.centre_crop = crop != 0;
    p.n_classes = (int)n_classes;
    QN_TRY(get_class_names(metadata, &p));
    QN_TRY(get_scales(metadata, &p));
    QN_TRY(qn_metadata_get_table(metadata, &p.table));
    *preparation = p;
    return QN_OK;
}
