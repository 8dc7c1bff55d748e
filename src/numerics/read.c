/* See numerics.h. Checks field by field, then what fields say together. */
#include "numerics/numerics.h"

#include "base/print.h"
#include "base/status.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 1 << 16 };

const char *const qn_role_names[QN_ROLE_COUNT] = {"weight", "activation", "error", "gradient"};

static const char *const scalings[] = {
    [QN_SCALED_NONE] = "none",        [QN_SCALED_EXPONENT] = "exponent",
    [QN_SCALED_SYMMETRIC] = "tensor", [QN_SCALED_CHANNEL] = "channel",
    [QN_SCALED_AFFINE] = "affine",    [QN_SCALED_GROUP] = "group"};
static const char *const ranges[] = {
    [QN_RANGE_FIT] = "fit", [QN_RANGE_NEAREST] = "nearest", [QN_RANGE_FIXED] = "fixed"};
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
    char all[200] = "";
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
    qn_print(range, sizeof range, "a number from %g to %g", least, most);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= least && item->valuedouble <= most))
        return fail(field, range);
    *number = item->valuedouble;
    return QN_OK;
}

static qn_status read_whole(const cJSON *object, const char *field, int least, int most,
                            int *whole) {
    double number = *whole;
    char text[80];
    QN_TRY(read_number(object, field, least, most, &number));
    snprintf(text, sizeof text, "a whole number from %d to %d", least, most);
    if (number != floor(number))
        return fail(field, text);
    *whole = (int)number;
    return QN_OK;
}

static bool has(const cJSON *object, const char *field) {
    return cJSON_HasObjectItem(object, field);
}

/* The fields of an object, or none if it is not there. */
static qn_status read_object(const cJSON *file, const char *field, const char *const *names, int n,
                             const cJSON **object) {
    *object = cJSON_GetObjectItemCaseSensitive(file, field);
    if (!*object)
        return QN_OK;
    if (!cJSON_IsObject(*object))
        return fail(field, "an object");
    return check_fields(*object, field, names, n);
}

/* ---- roles ---- */

static bool is_whole(qn_dtype dtype) {
    return dtype == QN_I8 || dtype == QN_I16;
}

static qn_status read_type(const cJSON *role, qn_dtype *dtype) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(role, "type");
    *dtype = cJSON_IsString(item) ? qn_dtype_find(item->valuestring) : QN_NONE;
    if (*dtype != QN_F32 && !is_whole(*dtype) && (!qn_dtype_is_float(*dtype) || *dtype == QN_F64))
        return fail("type", "f32, bf16, f16, f8e4m3, f8e5m2, i16 or i8");
    return QN_OK;
}

/* Numbers of a group have a type of their own, which bf16 holds: with the two bits of the group's
 * scale their fractions have six. */
static qn_status read_group(const cJSON *role, qn_role_type *type) {
    if (type->scaling != QN_SCALED_GROUP) {
        if (has(role, "exponent-bits") || has(role, "fraction-bits"))
            return fail("exponent-bits", "left out unless the scale is \"group\"");
        return QN_OK;
    }
    type->exponent_bits = 2;
    type->fraction_bits = 4;
    QN_TRY(read_whole(role, "exponent-bits", 1, 4, &type->exponent_bits));
    QN_TRY(read_whole(role, "fraction-bits", 0, 5, &type->fraction_bits));
    return type->dtype == QN_BF16 ? QN_OK : fail("type", "bf16 where the scale is \"group\"");
}

/* What whole numbers say of their range. */
static qn_status read_range(const cJSON *role, qn_role_type *type) {
    const bool is_exponent = type->scaling == QN_SCALED_EXPONENT;
    int range = QN_RANGE_FIT;
    QN_TRY(read_word(role, "range", ranges, COUNT(ranges), &range));
    QN_TRY(read_whole(role, "top", -30, 30, &type->top));
    QN_TRY(read_number(role, "clip", 0x1p-6, 1, &type->clip));
    QN_TRY(read_whole(role, "fine-bits", 1, 8, &type->fine_bits));
    QN_TRY(read_number(role, "widen-above", 0x1p-20, 1, &type->most_loss));
    type->range = (qn_range)range;
    if (range != QN_RANGE_FIT && !is_exponent)
        return fail("range", "\"fit\" unless the scale is an exponent");
    if (has(role, "top") != (range == QN_RANGE_FIXED))
        return fail("top", "there where the range is \"fixed\", and nowhere else");
    if (type->clip > 0 && (is_exponent || type->scaling == QN_SCALED_NONE))
        return fail("clip", "left out where the scale is an exponent or none");
    if (type->fine_bits > 0 &&
        (type->dtype != QN_I16 || !is_exponent || type->bits + type->fine_bits > 15))
        return fail("fine-bits", "of i16 with an exponent, at most 15 bits in all");
    if (type->most_loss > 0 && (type->dtype != QN_I16 || !is_exponent || type->bits > 7 ||
                                range != QN_RANGE_FIT || type->fine_bits > 0))
        return fail("widen-above", "of i16 with an exponent, at first 1 to 7 bits");
    return QN_OK;
}

static qn_status check_role(const qn_role_type *type) {
    const bool is_narrow = is_whole(type->dtype);
    if (is_narrow && type->scaling == QN_SCALED_NONE)
        return fail("scale", "another one for whole numbers");
    if (is_narrow && type->scaling == QN_SCALED_GROUP)
        return fail("scale", "another one for whole numbers");
    if (!is_narrow && type->rounding != QN_ROUND_EVEN && type->scaling != QN_SCALED_GROUP)
        return fail("rounding", "\"even\" for a type with fractions");
    if (type->scaling == QN_SCALED_GROUP && type->rounding == QN_ROUND_PSEUDO_STOCHASTIC)
        return fail("rounding", "another one for groups");
    if (!is_narrow && type->scaling == QN_SCALED_AFFINE)
        return fail("scale", "\"affine\" of whole numbers only");
    if (type->dtype == QN_F32 && type->scaling != QN_SCALED_NONE)
        return fail("scale", "\"none\" for f32");
    return QN_OK;
}

static qn_status read_role_fields(const cJSON *role, qn_role_type *type) {
    static const char *const names[] = {
        "type", "scale",         "bits",          "rounding",  "drops",       "range",    "top",
        "clip", "exponent-bits", "fraction-bits", "fine-bits", "widen-above", "backward", "unit"};
    int scaling, rounding = QN_ROUND_EVEN;
    QN_TRY(check_fields(role, "it", names, COUNT(names)));
    QN_TRY(read_type(role, &type->dtype));
    scaling = is_whole(type->dtype) ? QN_SCALED_EXPONENT : QN_SCALED_NONE;
    type->bits = type->dtype == QN_I16 && !has(role, "widen-above") ? 15 : 7;
    QN_TRY(read_word(role, "scale", scalings, COUNT(scalings), &scaling));
    QN_TRY(read_word(role, "rounding", roundings, COUNT(roundings), &rounding));
    const int most = type->dtype == QN_I8 ? 7 : type->dtype == QN_I16 ? 15 : 16;
    QN_TRY(read_whole(role, "bits", 1, most, &type->bits));
    type->scaling = (qn_scaling)scaling;
    type->rounding = (qn_rounding)rounding;
    QN_TRY(check_role(type));
    QN_TRY(read_group(role, type));
    return read_range(role, type);
}

/* A type beside those of the roles: neither bits that fall nor types of its own. */
static qn_status read_other_type(const cJSON *object, const char *field, qn_role_type *type) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, field);
    *type = (qn_role_type){.dtype = QN_F32};
    if (!item)
        return QN_OK;
    if (!cJSON_IsObject(item))
        return fail(field, "an object with a type");
    qn_status status = read_role_fields(item, type);
    if (status == QN_OK && (has(item, "drops") || has(item, "backward") || has(item, "unit")))
        status = fail("drops, backward and unit", "left out here");
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s", field);
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

static qn_status read_gradient(const cJSON *role, qn_numerics *n) {
    n->has_unit = has(role, "unit");
    QN_TRY(read_whole(role, "unit", -40, 10, &n->unit));
    if (n->has_unit && !is_whole(n->roles[QN_ROLE_GRADIENT].dtype))
        return fail("unit", "left out unless gradients are whole numbers");
    return read_drops(role, n);
}

static qn_status read_role(const cJSON *file, int role, qn_numerics *n) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(file, qn_role_names[role]);
    n->roles[role] = (qn_role_type){.dtype = QN_F32};
    if (role <= QN_ROLE_ACTIVATION)
        n->backward[role] = n->roles[role];
    if (!item)
        return QN_OK;
    if (!cJSON_IsObject(item))
        return fail(qn_role_names[role], "an object with a type");
    qn_status status = read_role_fields(item, &n->roles[role]);
    if (status == QN_OK && role == QN_ROLE_GRADIENT)
        status = read_gradient(item, n);
    else if (status == QN_OK && has(item, "drops"))
        status = fail("drops", "in \"gradient\" only");
    else if (status == QN_OK && has(item, "unit"))
        status = fail("unit", "in \"gradient\" only");
    if (status == QN_OK && role <= QN_ROLE_ACTIVATION)
        status = read_other_type(item, "backward", &n->backward[role]);
    else if (status == QN_OK && has(item, "backward"))
        status = fail("backward", "in \"weight\" and \"activation\" only");
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s", qn_role_names[role]);
}

/* ---- rules ---- */

static bool is_mantissa(qn_role_type type) {
    return type.dtype == QN_I8 && type.scaling == QN_SCALED_EXPONENT;
}

static bool is_summed(qn_role_type type) {
    return type.dtype == QN_I8 &&
           (type.scaling == QN_SCALED_EXPONENT || type.scaling == QN_SCALED_SYMMETRIC ||
            type.scaling == QN_SCALED_AFFINE);
}

static qn_status check_integers(const qn_numerics *n) {
    const qn_role_type *roles = n->roles;
    const bool are_mantissas = is_mantissa(roles[QN_ROLE_WEIGHT]) &&
                               is_mantissa(roles[QN_ROLE_ACTIVATION]) &&
                               is_mantissa(roles[QN_ROLE_ERROR]);
    if (n->is_integer && !(is_summed(roles[QN_ROLE_WEIGHT]) &&
                           is_summed(roles[QN_ROLE_ACTIVATION]) && is_summed(roles[QN_ROLE_ERROR])))
        return fail(
            "products",
            "\"f32\" unless weight, activation and error are i8 with a scale of the tensor");
    if (n->stores_weights &&
        (!n->is_integer || !are_mantissas || !is_mantissa(roles[QN_ROLE_GRADIENT])))
        return fail("update",
                    "\"optimiser\" unless products are i32 and all roles i8 with an exponent");
    if (n->integer_loss && (!n->is_integer || !are_mantissas))
        return fail("loss", "\"f32\" unless products are i32 of i8 with an exponent");
    if (n->shifts != QN_SHIFTS_EXACT && !n->is_integer)
        return fail("shifts", "\"exact\" unless products are i32");
    return QN_OK;
}

/* What an update by whole gradients cannot be with. */
static qn_status check_stored(const qn_numerics *n) {
    const char *wrong = n->wide                          ? "float-layers"
                        : n->compensation_deviation > 0  ? "compensation"
                        : n->weight_settles.is_used      ? "weight-update"
                        : n->has_unit                    ? "unit"
                        : n->backward[0].dtype != QN_F32 ? "backward"
                        : n->backward[1].dtype != QN_F32 ? "backward"
                                                         : NULL;
    for (int i = 0; i < QN_ROLE_COUNT && n->stores_weights; i++) {
        if (n->roles[i].range != QN_RANGE_FIT)
            wrong = "range";
    }
    return n->stores_weights && wrong ? fail(wrong, "left out where the update is \"subtract\"")
                                      : QN_OK;
}

static qn_status check_together(const qn_numerics *n) {
    const qn_role_type *roles = n->roles;
    QN_TRY(check_integers(n));
    QN_TRY(check_stored(n));
    if (n->n_drops && !n->stores_weights)
        return fail("drops", "left out where the update is an optimiser's");
    if (n->chunked.chunk > 0 && n->is_integer)
        return fail("sums", "left out where products are i32");
    for (int i = 0; i < QN_ROLE_COUNT; i++) {
        if (roles[i].rounding == QN_ROUND_PSEUDO_STOCHASTIC &&
            (!n->is_integer || i == QN_ROLE_WEIGHT))
            return fail("rounding", "\"pseudo-stochastic\" for sums in i32 only");
    }
    if (n->integer_loss && n->loss_factor != 1)
        return fail("loss-factor", "1 where the loss is in whole numbers");
    return QN_OK;
}

/* ---- rules beside roles ---- */

/* Exponents like those of IEEE 754, but for infinities. */
static qn_status read_sums(const cJSON *file, qn_chunked *chunked) {
    static const char *const names[] = {"chunk", "exponent-bits", "fraction-bits"};
    const cJSON *sums;
    int bits = 6;
    QN_TRY(read_object(file, "sums", names, COUNT(names), &sums));
    if (!sums)
        return QN_OK;
    *chunked = (qn_chunked){.chunk = 64, .fraction_bits = 9};
    QN_TRY(read_whole(sums, "chunk", 1, 65536, &chunked->chunk));
    QN_TRY(read_whole(sums, "exponent-bits", 3, 7, &bits));
    QN_TRY(read_whole(sums, "fraction-bits", 2, 22, &chunked->fraction_bits));
    chunked->top = 1 << (bits - 1);
    chunked->least = 2 - chunked->top;
    chunked->top--;
    return QN_OK;
}

static qn_status read_settling(const cJSON *file, const char *field, qn_settling *settling) {
    static const char *const names[] = {"exponent-bits", "fraction-bits", "limit", "rounding",
                                        "scale"};
    static const char *const scales[] = {"none", "channel"};
    const cJSON *object;
    int rounding = QN_ROUND_EVEN, scale = 0;
    QN_TRY(read_object(file, field, names, COUNT(names), &object));
    if (!object)
        return QN_OK;
    qn_format *f = &settling->format;
    QN_TRY(read_whole(object, "exponent-bits", 0, 8, &f->exponent_bits));
    QN_TRY(read_whole(object, "fraction-bits", 0, 30, &f->fraction_bits));
    QN_TRY(read_number(object, "limit", 0x1p-30, 0x1p30, &f->limit));
    QN_TRY(read_word(object, "rounding", roundings, QN_ROUND_PSEUDO_STOCHASTIC, &rounding));
    QN_TRY(read_word(object, "scale", scales, COUNT(scales), &scale));
    f->rounding = rounding;
    f->top_exponent = f->exponent_bits > 0 ? (1 << (f->exponent_bits - 1)) - 1 : 0;
    settling->is_used = true;
    settling->has_channels = scale;
    if (f->exponent_bits > 0 && (f->limit > 0 || scale || f->fraction_bits > 23))
        return fail(field, "without limit and scale where exponents have bits");
    if (f->top_exponent > 126)
        f->top_exponent = 126;
    return QN_OK;
}

static qn_status read_compensation(const cJSON *file, qn_numerics *n) {
    static const char *const names[] = {"spread", "decay"};
    const cJSON *object;
    QN_TRY(read_object(file, "compensation", names, COUNT(names), &object));
    if (!object)
        return QN_OK;
    n->compensation_deviation = 0x1p-10;
    QN_TRY(read_number(object, "spread", 0x1p-30, 1, &n->compensation_deviation));
    return read_number(object, "decay", 0, 10, &n->compensation_decay);
}

/* A name that has another meaning in the text of qn_sparse. */
static bool is_word_of_updates(const char *name) {
    return strcmp(name, "weights") == 0 || strcmp(name, "biases") == 0 ||
           strcmp(name, "channels") == 0;
}

/* {"LAYER": X} as the text of qn_sparse. */
static qn_status read_trained_parts(const cJSON *object, qn_numerics *n) {
    const cJSON *parts = cJSON_GetObjectItemCaseSensitive(object, "parts"), *part;
    size_t used = 0;
    if (parts && !cJSON_IsObject(parts))
        return fail("parts", "an object with a number for each layer");
    cJSON_ArrayForEach(part, parts) {
        const size_t left = sizeof n->trained_parts - used;
        if (!cJSON_IsNumber(part) || !(part->valuedouble > 0 && part->valuedouble <= 1))
            return fail("parts", "of numbers that are more than 0 and at most 1");
        if (!part->string[0] || strpbrk(part->string, ",=") || is_word_of_updates(part->string))
            return fail("parts", "of names of layers, without \",\" and \"=\"");
        const int n_bytes = qn_print(n->trained_parts + used, left, "%s%s=%.9g", used ? "," : "",
                                     part->string, part->valuedouble);
        if (n_bytes < 0 || (size_t)n_bytes >= left)
            return fail("parts", "shorter: 255 bytes in all");
        used += (size_t)n_bytes;
    }
    return QN_OK;
}

static qn_status read_layers(const cJSON *file, qn_numerics *n) {
    static const char *const names[] = {"weights", "biases", "parts", "channels"};
    static const char *const wide[] = {"none", "first", "last", "both"};
    const cJSON *object;
    int layers = QN_WIDE_NONE, channels = QN_PART_LARGEST;
    QN_TRY(read_word(file, "float-layers", wide, COUNT(wide), &layers));
    n->wide = (qn_wide_layers)layers;
    QN_TRY(read_object(file, "trained-layers", names, COUNT(names), &object));
    if (!object)
        return QN_OK;
    n->trains_some = true;
    n->trained_biases = -1;
    QN_TRY(read_whole(object, "weights", 0, 10000, &n->trained_weights));
    if (has(object, "biases"))
        n->trained_biases = 0;
    QN_TRY(read_whole(object, "biases", 0, 10000, &n->trained_biases));
    QN_TRY(read_word(object, "channels", qn_part_choices, QN_PART_CHOICES, &channels));
    n->trained_channels = (qn_part_choice)channels;
    QN_TRY(read_trained_parts(object, n));
    if (n->trained_weights == 0 && n->trained_biases <= 0 && !n->trained_parts[0])
        return fail("trained-layers", "one that has weights, biases or parts");
    return QN_OK;
}

static qn_status read_optimizer(const cJSON *file, qn_numerics_optimizer *o) {
    static const char *const names[] = {"name", "rate", "momentum", "weight-decay"};
    static const char *const kinds[] = {"sgd", "adam", "adamw"};
    const cJSON *object;
    QN_TRY(read_object(file, "optimiser", names, COUNT(names), &object));
    if (!object)
        return QN_OK;
    o->is_given = true;
    QN_TRY(read_word(object, "name", kinds, COUNT(kinds), &o->kind));
    o->rate = o->kind == 0 ? 0.01 : 0.001;
    o->momentum = o->kind == 0 ? 0.9 : 0;
    o->weight_decay = o->kind == 2 ? 0.01 : 0;
    QN_TRY(read_number(object, "rate", 0, 1e3, &o->rate));
    QN_TRY(read_number(object, "momentum", 0, 1, &o->momentum));
    return read_number(object, "weight-decay", 0, 1, &o->weight_decay);
}

static qn_status read_parts(const cJSON *file, qn_numerics *n) {
    QN_TRY(read_other_type(file, "normalisation", &n->norm));
    QN_TRY(read_sums(file, &n->chunked));
    QN_TRY(read_settling(file, "weight-update", &n->weight_settles));
    QN_TRY(read_settling(file, "state-update", &n->state_settles));
    QN_TRY(read_compensation(file, n));
    QN_TRY(read_layers(file, n));
    return read_optimizer(file, &n->optimizer);
}

static qn_status read_rules(const cJSON *file, qn_numerics *n) {
    static const char *const products[] = {"f32", "i32"}, *const biases[] = {"f32", "none"};
    static const char *const losses[] = {"f32", "integer-cross-entropy"};
    static const char *const updates[] = {"optimiser", "subtract"};
    static const char *const shifts[] = {"exact", "adaptive", "fixed"};
    int is_integer = 0, drops_bias = 0, integer_loss = 0, stores_weights = 0;
    int rule = QN_SHIFTS_EXACT;
    n->loss_factor = n->weight_range = 1;
    QN_TRY(read_word(file, "products", products, 2, &is_integer));
    QN_TRY(read_word(file, "bias", biases, 2, &drops_bias));
    QN_TRY(read_word(file, "loss", losses, 2, &integer_loss));
    QN_TRY(read_word(file, "update", updates, 2, &stores_weights));
    QN_TRY(read_word(file, "shifts", shifts, 3, &rule));
    QN_TRY(read_whole(file, "period", 1, 10000, &n->shift_period));
    if (rule == QN_SHIFTS_EXACT && n->shift_period > 0)
        return fail("period", "left out where shifts are exact");
    QN_TRY(read_number(file, "loss-factor", 0x1p-30, 0x1p30, &n->loss_factor));
    QN_TRY(read_number(file, "weight-range", 0x1p-6, 1, &n->weight_range));
    n->is_integer = is_integer;
    n->drops_bias = drops_bias;
    n->integer_loss = integer_loss;
    n->stores_weights = stores_weights;
    n->shifts = (qn_shift_rule)rule;
    QN_TRY(read_parts(file, n));
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
        "name",           "summary",      "weight",       "activation",    "error",
        "gradient",       "products",     "bias",         "loss",          "update",
        "loss-factor",    "weight-range", "shifts",       "period",        "normalisation",
        "sums",           "float-layers", "compensation", "weight-update", "state-update",
        "trained-layers", "optimiser"};
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
