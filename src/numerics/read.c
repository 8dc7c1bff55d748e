/* See numerics.h. Checks field by field, then what fields say together. */
#include "numerics/numerics.h"

#include "base/status.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 1 << 16 };

const char *const qn_role_names[QN_ROLE_COUNT] = {"weight", "activation", "error", "gradient"};

static const char *const scalings[] = {[QN_SCALED_NONE] = "none",
                                       [QN_SCALED_EXPONENT] = "exponent",
                                       [QN_SCALED_SYMMETRIC] = "tensor",
                                       [QN_SCALED_CHANNEL] = "channel"};
static const char *const roundings[] = {[QN_ROUND_EVEN] = "even",
                                        [QN_ROUND_AWAY] = "away",
                                        [QN_ROUND_STOCHASTIC] = "stochastic",
                                        [QN_ROUND_PSEUDO_STOCHASTIC] = "pseudo-stochastic"};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static qn_status fail(const char *field, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "\"%s\" must be %s", field, what);
}

/* ---- fields ---- */

static qn_status check_fields(const cJSON *object, const char *where, const char *const *names,
                              int n) {
    for (const cJSON *item = object->child; item; item = item->next) {
        bool is_known = false;
        for (int i = 0; i < n && item->string; i++)
            is_known |= strcmp(names[i], item->string) == 0;
        if (!is_known)
            return qn_fail(QN_ERROR_FORMAT, "there is no field \"%.40s\" in %s",
                           item->string ? item->string : "", where);
        for (const cJSON *other = item->next; other; other = other->next) {
            if (other->string && strcmp(other->string, item->string) == 0)
                return qn_fail(QN_ERROR_FORMAT, "\"%.40s\" is there twice in %s", item->string,
                               where);
        }
    }
    return QN_OK;
}

/* One of the words; *index stays where there is no such field. */
static qn_status read_word(const cJSON *object, const char *field, const char *const *words, int n,
                           int *index) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, field);
    char all[160] = "";
    if (!item)
        return QN_OK;
    for (int i = 0; i < n; i++) {
        if (cJSON_IsString(item) && strcmp(item->valuestring, words[i]) == 0) {
            *index = i;
            return QN_OK;
        }
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s\"%s\"",
                 i == 0       ? ""
                 : i == n - 1 ? " or "
                              : ", ",
                 words[i]);
    }
    return fail(field, all);
}

static qn_status read_number(const cJSON *object, const char *field, double least, double most,
                             double *number) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, field);
    char range[80];
    if (!item)
        return QN_OK;
    snprintf(range, sizeof range, "a number from %g to %g", least, most);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= least && item->valuedouble <= most))
        return fail(field, range);
    *number = item->valuedouble;
    return QN_OK;
}

/* ---- roles ---- */

static bool is_whole(qn_dtype dtype) {
    return dtype == QN_I8 || dtype == QN_I16;
}

static qn_status read_type(const cJSON *role, qn_dtype *dtype) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(role, "type");
    *dtype = cJSON_IsString(item) ? qn_dtype_find(item->valuestring) : QN_NONE;
    if (*dtype != QN_F32 && !is_whole(*dtype) && (!qn_dtype_is_float(*dtype) || *dtype == QN_F64))
        return fail("type", "f32, bf16, f16, e4m3, e5m2, i16 or i8");
    return QN_OK;
}

static qn_status read_role_fields(const cJSON *role, qn_role_type *type) {
    static const char *const names[] = {"type", "scale", "bits", "rounding", "drops"};
    int scaling, rounding = QN_ROUND_EVEN;
    QN_TRY(check_fields(role, "it", names, COUNT(names)));
    QN_TRY(read_type(role, &type->dtype));
    scaling = is_whole(type->dtype) ? QN_SCALED_EXPONENT : QN_SCALED_NONE;
    double bits = type->dtype == QN_I16 ? 15 : 7;
    QN_TRY(read_word(role, "scale", scalings, COUNT(scalings), &scaling));
    QN_TRY(read_word(role, "rounding", roundings, COUNT(roundings), &rounding));
    QN_TRY(read_number(role, "bits", 1, is_whole(type->dtype) ? bits : 16, &bits));
    type->scaling = (qn_scaling)scaling;
    type->rounding = (qn_rounding)rounding;
    type->bits = (int)bits;
    if (bits != floor(bits))
        return fail("bits", "whole");
    if (is_whole(type->dtype) && scaling == QN_SCALED_NONE)
        return fail("scale", "another one for whole numbers");
    if (!is_whole(type->dtype) && rounding != QN_ROUND_EVEN)
        return fail("rounding", "\"even\" for a type with fractions");
    if (type->dtype == QN_F32 && scaling != QN_SCALED_NONE)
        return fail("scale", "\"none\" for f32");
    return QN_OK;
}

static qn_status read_drops(const cJSON *role, qn_numerics *n) {
    const cJSON *drops = cJSON_GetObjectItemCaseSensitive(role, "drops"), *item;
    double last = 0;
    if (!drops)
        return QN_OK;
    if (!cJSON_IsArray(drops) || cJSON_GetArraySize(drops) > QN_MOST_DROPS)
        return fail("drops", "a list of at most 3 fractions of the training");
    cJSON_ArrayForEach(item, drops) {
        if (!cJSON_IsNumber(item) || !(item->valuedouble > last && item->valuedouble < 1))
            return fail("drops", "rising numbers between 0 and 1");
        n->drops[n->n_drops++] = last = item->valuedouble;
    }
    if (n->n_drops >= n->roles[QN_ROLE_GRADIENT].bits)
        return fail("drops", "fewer than the bits");
    return QN_OK;
}

static qn_status read_role(const cJSON *file, int role, qn_numerics *n) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(file, qn_role_names[role]);
    if (!item) {
        n->roles[role] = (qn_role_type){.dtype = QN_F32};
        return QN_OK;
    }
    if (!cJSON_IsObject(item))
        return fail(qn_role_names[role], "an object with a type");
    qn_status status = read_role_fields(item, &n->roles[role]);
    if (status == QN_OK && role == QN_ROLE_GRADIENT)
        status = read_drops(item, n);
    else if (status == QN_OK && cJSON_HasObjectItem(item, "drops"))
        status = fail("drops", "in \"gradient\" only");
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s", qn_role_names[role]);
}

/* ---- rules ---- */

static bool is_mantissa(qn_role_type type) {
    return type.dtype == QN_I8 && type.scaling == QN_SCALED_EXPONENT;
}

static qn_status check_together(const qn_numerics *n) {
    const qn_role_type *roles = n->roles;
    if (n->is_integer &&
        !(is_mantissa(roles[QN_ROLE_WEIGHT]) && is_mantissa(roles[QN_ROLE_ACTIVATION]) &&
          is_mantissa(roles[QN_ROLE_ERROR])))
        return fail("products",
                    "\"f32\" unless weight, activation and error are i8 with an exponent");
    if (n->stores_weights && (!n->is_integer || !is_mantissa(roles[QN_ROLE_GRADIENT])))
        return fail("update",
                    "\"optimiser\" unless products are i32 and gradients i8 with an exponent");
    if (n->n_drops && !n->stores_weights)
        return fail("drops", "left out where the update is an optimiser's");
    if (n->integer_loss && !n->is_integer)
        return fail("loss", "\"f32\" unless products are i32");
    if (n->adapts_shifts && !n->is_integer)
        return fail("shifts", "\"exact\" unless products are i32");
    for (int i = 0; i < QN_ROLE_COUNT; i++) {
        if (roles[i].rounding == QN_ROUND_PSEUDO_STOCHASTIC &&
            (!n->is_integer || i == QN_ROLE_WEIGHT))
            return fail("rounding", "\"pseudo-stochastic\" for sums in i32 only");
    }
    if (n->integer_loss && n->loss_factor != 1)
        return fail("loss-factor", "1 where the loss is in whole numbers");
    return QN_OK;
}

static qn_status read_rules(const cJSON *file, qn_numerics *n) {
    static const char *const products[] = {"f32", "i32"}, *const biases[] = {"f32", "none"};
    static const char *const losses[] = {"f32", "integer-cross-entropy"};
    static const char *const updates[] = {"optimiser", "subtract"};
    static const char *const shifts[] = {"exact", "adaptive"};
    int is_integer = 0, drops_bias = 0, integer_loss = 0, stores_weights = 0, adapts_shifts = 0;
    n->loss_factor = n->weight_range = 1;
    QN_TRY(read_word(file, "products", products, 2, &is_integer));
    QN_TRY(read_word(file, "bias", biases, 2, &drops_bias));
    QN_TRY(read_word(file, "loss", losses, 2, &integer_loss));
    QN_TRY(read_word(file, "update", updates, 2, &stores_weights));
    QN_TRY(read_word(file, "shifts", shifts, 2, &adapts_shifts));
    QN_TRY(read_number(file, "loss-factor", 0x1p-30, 0x1p30, &n->loss_factor));
    QN_TRY(read_number(file, "weight-range", 0x1p-6, 1, &n->weight_range));
    n->is_integer = is_integer;
    n->drops_bias = drops_bias;
    n->integer_loss = integer_loss;
    n->stores_weights = stores_weights;
    n->adapts_shifts = adapts_shifts;
    return check_together(n);
}

static qn_status read_name(const cJSON *file, qn_numerics *n) {
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(file, "name");
    const cJSON *summary = cJSON_GetObjectItemCaseSensitive(file, "summary");
    if (!cJSON_IsString(name) || !name->valuestring[0] ||
        strlen(name->valuestring) >= sizeof n->name ||
        strspn(name->valuestring, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
                                  ".") != strlen(name->valuestring))
        return fail("name", "1 to 31 letters, digits, '-', '_' and '.'");
    if (summary && !cJSON_IsString(summary))
        return fail("summary", "a text");
    snprintf(n->name, sizeof n->name, "%s", name->valuestring);
    return QN_OK;
}

static qn_status read_file(const cJSON *file, qn_numerics *n) {
    static const char *const names[] = {
        "name", "summary", "weight", "activation",  "error",        "gradient", "products",
        "bias", "loss",    "update", "loss-factor", "weight-range", "shifts"};
    if (!cJSON_IsObject(file))
        return qn_fail(QN_ERROR_FORMAT, "no JSON object; see quern numerics niti for one");
    QN_TRY(check_fields(file, "numerics", names, COUNT(names)));
    QN_TRY(read_name(file, n));
    for (int role = 0; role < QN_ROLE_COUNT; role++)
        QN_TRY(read_role(file, role, n));
    return read_rules(file, n);
}

static qn_status parse(const char *text, size_t bytes, cJSON **file) {
    const char *end = NULL;
    *file = NULL;
    if (bytes > MOST_BYTES)
        return qn_fail(QN_ERROR_FORMAT, "%zu bytes; numerics have at most %d", bytes, MOST_BYTES);
    *file = cJSON_ParseWithLengthOpts(text, bytes, &end, false);
    if (!*file)
        return qn_fail(QN_ERROR_FORMAT, "no JSON from byte %zu on",
                       end ? (size_t)(end - text) + 1 : 1);
    while (end < text + bytes && (*end == ' ' || *end == '\n' || *end == '\r' || *end == '\t'))
        end++;
    if (end < text + bytes && *end) {
        cJSON_Delete(*file);
        return qn_fail(QN_ERROR_FORMAT, "more than one JSON value; remove what begins at byte %zu",
                       (size_t)(end - text) + 1);
    }
    return QN_OK;
}

qn_status qn_numerics_read(const char *text, size_t bytes, qn_numerics *numerics) {
    qn_numerics read = {0};
    cJSON *file;
    QN_TRY(parse(text, bytes, &file));
    const qn_status status = read_file(file, &read);
    cJSON_Delete(file);
    if (status == QN_OK)
        *numerics = read;
    return status;
}

qn_status qn_numerics_print(const char *text, size_t bytes, qn_arena *arena, const char **printed) {
    cJSON *file;
    QN_TRY(parse(text, bytes, &file));
    char *line = cJSON_PrintUnformatted(file);
    *printed = line ? qn_arena_text(arena, line) : NULL;
    cJSON_free(line);
    cJSON_Delete(file);
    return *printed ? QN_OK : qn_fail(QN_ERROR_MEMORY, "no memory for numerics");
}

void qn_role_print(const qn_role_type *type, char text[QN_ROLE_TEXT]) {
    snprintf(text, QN_ROLE_TEXT, "%s%s%s", qn_dtype_name(type->dtype),
             type->scaling == QN_SCALED_NONE ? "" : ", ",
             type->scaling == QN_SCALED_NONE ? "" : scalings[type->scaling]);
}

/* ---- public ---- */

struct owned {
    qn_numerics numerics;
    const qn_allocator *allocator;
};

qn_status qn_numerics_create(const qn_allocator *allocator, const char *text,
                             qn_numerics **numerics) {
    QN_NEED(text, "text");
    QN_NEED(numerics, "numerics");
    struct owned *made;
    allocator = qn_allocator_or_default(allocator);
    const char *json = text[strspn(text, " \n\r\t")] == '{' ? text : qn_numerics_find(text);
    if (!json)
        return QN_ERROR_ARGUMENT;
    QN_TRY(qn_allocate(allocator, 1, sizeof *made, &made));
    made->allocator = allocator;
    const qn_status status = qn_numerics_read(json, strlen(json), &made->numerics);
    if (status != QN_OK) {
        qn_release(allocator, made, 1, sizeof *made);
        return qn_fail_within(status, "numerics");
    }
    *numerics = &made->numerics;
    return QN_OK;
}

void qn_numerics_destroy(qn_numerics *numerics) {
    struct owned *owned = (struct owned *)(void *)numerics;
    if (owned)
        qn_release(owned->allocator, owned, 1, sizeof *owned);
}
