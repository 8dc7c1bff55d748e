/* See rotary.h. */
#include "models/language/rotary.h"

#include "base/memory.h"
#include "base/status.h"
#include "models/language/settings.h"
#include "tensor/blocks.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

/* ---- the angles ---- */

/* Llama 3: long waves are divided by the factor, short ones stay, those between are mixed. */
static double scale_llama3(const qn_language_rotary *r, double frequency) {
    const double waves = r->original * frequency / (2 * M_PI);
    if (waves < r->low)
        return frequency / r->factor;
    if (waves > r->high)
        return frequency;
    const double part = (waves - r->low) / (r->high - r->low);
    return (1 - part) * frequency / r->factor + part * frequency;
}

static double frequency_of(const qn_language_rotary *r, bool is_local, int64_t pair,
                           int64_t length) {
    const double base = is_local ? r->local_base : r->base;
    const double plain = pow(base, -2.0 * (double)pair / (double)r->width);
    const bool is_long = r->scaling == QN_SCALED_LONG && (double)length > r->original;
    const float *by = is_long ? r->long_by : r->short_by;
    if (is_local && !r->is_local_scaled)
        return plain;
    if (r->scaling == QN_SCALED_LLAMA3)
        return scale_llama3(r, plain);
    return plain / (r->scaling == QN_SCALED_LINEAR ? r->factor : 1) / (by ? (double)by[pair] : 1);
}

void qn_language_fill_rotary(const qn_language_rotary *r, bool is_local, int64_t first, int64_t n,
                             int64_t length, float *cosines, float *sines) {
    const int64_t half = r->width / 2;
    for (int64_t i = 0; i < half; i++) {
        const double frequency = frequency_of(r, is_local, i, length);
        for (int64_t t = 0; t < n; t++) {
            const double angle = (double)(first + t) * frequency;
            cosines[t * half + i] = (float)(r->attention * cos(angle));
            sines[t * half + i] = (float)(r->attention * sin(angle));
        }
    }
}

/* ---- what files say ---- */

/* Where a folder has what belongs to its rotary positions: an object of their own, in which each
 * kind of layer may have one, or beside all other settings. */
typedef struct places {
    const cJSON *global, *local, *scaling;
} places;

static const cJSON *member(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNull(item) ? NULL : item;
}

static places find_places(const cJSON *config) {
    const cJSON *own = member(config, "rope_parameters");
    const cJSON *global = member(own, "full_attention");
    const cJSON *local = member(own, "sliding_attention");
    if (own)
        return (places){global ? global : own, local ? local : own, global ? global : own};
    return (places){config, config, member(config, "rope_scaling")};
}

/* A number of an object, else the fallback; what is there and is none is a problem. */
static qn_status read_number(qn_language *language, const cJSON *object, const char *name,
                             double fallback, double *number) {
    const cJSON *item = member(object, name);
    *number = cJSON_IsNumber(item) ? item->valuedouble : fallback;
    if ((item && !cJSON_IsNumber(item)) || !isfinite(*number))
        return qn_language_refuse(language, "%s is no number", name);
    return QN_OK;
}

static qn_status read_factors(qn_language *language, const cJSON *scaling, const char *name,
                              const float **factors) {
    const cJSON *list = member(scaling, name);
    const int n = (int)(language->rotary.width / 2);
    if (!list)
        return QN_OK;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n)
        return qn_language_refuse(language, "%s is no list of %d numbers", name, n);
    float *made = qn_arena_allocate(&language->texts, (size_t)n + 1, sizeof *made);
    if (!made)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < n; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, i);
        made[i] = cJSON_IsNumber(item) ? (float)item->valuedouble : 0;
        if (!(made[i] > 0) || !isfinite(made[i]))
            return qn_language_refuse(language, "%s has a number that is none above 0", name);
    }
    *factors = made;
    return QN_OK;
}

/* Wider attention in longer contexts, where the files do not say how much. */
static double usual_attention(const qn_language *language, const qn_language_rotary *r) {
    const double context = (double)language->sizes[QN_LANGUAGE_CONTEXT];
    const double factor = r->factor > 0 ? r->factor : context / r->original;
    return factor > 1 && r->original > 1 ? sqrt(1 + log(factor) / log(r->original)) : 1;
}

static qn_status read_folder(qn_language *language, qn_language_rotary *r) {
    const cJSON *config = language->files->config;
    const places p = find_places(config);
    double part;
    const double local = member(config, "rope_local_base_freq")
                             ? member(config, "rope_local_base_freq")->valuedouble
                             : 0;
    QN_TRY(read_number(language, p.global, "rope_theta", 0, &r->base));
    QN_TRY(read_number(language, p.local, "rope_theta", 0, &r->local_base));
    QN_TRY(read_number(language, member(p.global, "partial_rotary_factor") ? p.global : config,
                       "partial_rotary_factor", 1, &part));
    if (!(part > 0 && part <= 1))
        return qn_language_refuse(language, "partial_rotary_factor is no part of a head");
    if (local > 0)
        r->local_base = local;
    r->is_local_scaled = local <= 0 && p.local == p.global;
    r->width = (int64_t)((double)language->sizes[QN_LANGUAGE_HEAD_WIDTH] * part);
    QN_TRY(read_number(language, p.scaling, "factor", 0, &r->factor));
    QN_TRY(read_number(language, p.scaling, "low_freq_factor", 0, &r->low));
    QN_TRY(read_number(language, p.scaling, "high_freq_factor", 0, &r->high));
    QN_TRY(read_number(language, p.scaling, "attention_factor", 0, &r->attention));
    const char *const original = "original_max_position_embeddings";
    QN_TRY(read_number(language, member(p.scaling, original) ? p.scaling : config, original, 0,
                       &r->original));
    QN_TRY(read_factors(language, p.scaling, "short_factor", &r->short_by));
    return read_factors(language, p.scaling, "long_factor", &r->long_by);
}

/* The factors that a GGUF file keeps as a tensor, in the model's memory; absent: null. */
static qn_status read_tensor(qn_language *language, const char *name, const float **factors) {
    const qn_pretrained_tensor *tensor = qn_tensors_find(language->files->tensors, name);
    const int64_t n = language->rotary.width / 2;
    if (!tensor || tensor->blocks == QN_BLOCKS_NONE || qn_shape_count(tensor->shape) != n ||
        qn_blocks_numbers(tensor->blocks) != 1)
        return QN_OK; /* what is wrong with it is said where tensors are checked */
    float *made = qn_arena_allocate(&language->texts, (size_t)n + 1, sizeof *made);
    if (!made)
        return QN_ERROR_MEMORY;
    qn_blocks_widen(tensor->blocks, tensor->data, 0, n, made);
    for (int64_t i = 0; i < n; i++) {
        if (!(made[i] > 0) || !isfinite(made[i]))
            return qn_language_refuse(language, "tensor %s has a number that is none above 0",
                                      name);
    }
    *factors = made;
    return QN_OK;
}

static qn_status read_gguf(qn_language *language, qn_language_rotary *r) {
    static const struct {
        qn_language_key key;
        size_t at;
    } numbers[] = {
        {{"%s.rope.freq_base", ""}, offsetof(qn_language_rotary, base)},
        {{"%s.rope.freq_base_swa", ""}, offsetof(qn_language_rotary, local_base)},
        {{"%s.rope.scaling.factor", ""}, offsetof(qn_language_rotary, factor)},
        {{"%s.rope.scaling.attn_factor", ""}, offsetof(qn_language_rotary, attention)},
        {{"%s.rope.scaling.original_context_length", ""}, offsetof(qn_language_rotary, original)},
    };
    double width = (double)language->sizes[QN_LANGUAGE_HEAD_WIDTH];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)qn_language_number(language, numbers[i].key, (double *)((char *)r + numbers[i].at));
    (void)qn_language_number(language, (qn_language_key){"%s.rope.dimension_count", ""}, &width);
    r->width = width >= 0 && width < 1 << 20 ? (int64_t)width : -1;
    if (language->family->traits.global_every == 0 && r->local_base <= 0)
        r->local_base = r->base;
    r->is_local_scaled = language->family->traits.global_every == 0;
    if (r->width < 2)
        return QN_OK;
    QN_TRY(read_tensor(language, "rope_freqs.weight", &r->short_by));
    if (!r->short_by)
        QN_TRY(read_tensor(language, "rope_factors_short.weight", &r->short_by));
    return read_tensor(language, "rope_factors_long.weight", &r->long_by);
}

static qn_status choose_scaling(qn_language *language, qn_language_rotary *r) {
    static const struct {
        const char *name;
        qn_language_scaling scaling;
    } names[] = {{"", QN_SCALED_PLAIN},
                 {"linear", QN_SCALED_LINEAR},
                 {"llama3", QN_SCALED_LLAMA3},
                 {"longrope", QN_SCALED_LONG},
                 {"su", QN_SCALED_LONG}};
    size_t i = 0;
    while (i < sizeof names / sizeof *names && strcmp(names[i].name, language->scaling) != 0)
        i++;
    if (i == sizeof names / sizeof *names)
        return qn_language_refuse(language,
                                  "its rotary positions are scaled by \"%.40s\"; quern knows "
                                  "linear, llama3 and longrope",
                                  language->scaling);
    r->scaling = names[i].scaling;
    const bool needs_factor = r->scaling == QN_SCALED_LINEAR || r->scaling == QN_SCALED_LLAMA3;
    const bool needs_original = r->scaling == QN_SCALED_LLAMA3 || r->scaling == QN_SCALED_LONG;
    if ((needs_factor && !(r->factor > 0)) || (needs_original && !(r->original > 0)) ||
        (r->scaling == QN_SCALED_LLAMA3 && !(r->high > r->low)) ||
        (r->scaling == QN_SCALED_LONG && (!r->short_by || !r->long_by)))
        return qn_language_refuse(language,
                                  "the files say that rotary positions are scaled by %s, and not "
                                  "all that this needs",
                                  names[i].name);
    return QN_OK;
}

qn_status qn_language_read_rotary(qn_language *language) {
    qn_language_rotary *r = &language->rotary;
    *r = (qn_language_rotary){0};
    QN_TRY(language->files->is_gguf ? read_gguf(language, r) : read_folder(language, r));
    r->base = r->base > 0 ? r->base : 10000;
    r->local_base = r->local_base > 0 ? r->local_base : 10000;
    if (r->width < 2 || r->width % 2 || r->width > language->sizes[QN_LANGUAGE_HEAD_WIDTH])
        return qn_language_refuse(
            language, "rotary positions turn %lld numbers of a head of %lld, which is no even part",
            (long long)r->width, (long long)language->sizes[QN_LANGUAGE_HEAD_WIDTH]);
    QN_TRY(choose_scaling(language, r));
    if (!(r->attention > 0))
        r->attention = r->scaling == QN_SCALED_LONG ? usual_attention(language, r) : 1;
    return QN_OK;
}
