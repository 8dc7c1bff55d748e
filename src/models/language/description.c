/* See description.h. */
#include "models/language/description.h"

#include "base/print.h"
#include "base/status.h"
#include "format/pretrained/json_file.h"
#include "models/language/settings.h"
#include "models/language/tensors_check.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { MOST_PROBLEM = 512 };

static const double most_size = 0x1p31;

static const struct {
    qn_language_key key;
    const char *name; /* for messages; null: it may be missing */
} sizes[QN_LANGUAGE_SIZES] = {
    [QN_LANGUAGE_LAYERS] = {{"%s.block_count", "num_hidden_layers n_layer"}, "layers"},
    [QN_LANGUAGE_WIDTH] = {{"%s.embedding_length", "hidden_size n_embd"}, "the width"},
    [QN_LANGUAGE_HEADS] = {{"%s.attention.head_count", "num_attention_heads n_head"},
                           "attention heads"},
    [QN_LANGUAGE_KEY_HEADS] = {{"%s.attention.head_count_kv", "num_key_value_heads"}, NULL},
    [QN_LANGUAGE_HEAD_WIDTH] = {{"%s.attention.key_length", "head_dim"}, NULL},
    [QN_LANGUAGE_FEED_FORWARD] = {{"%s.feed_forward_length", "intermediate_size n_inner"}, NULL},
    [QN_LANGUAGE_CONTEXT] = {{"%s.context_length", "max_position_embeddings n_positions n_ctx"},
                             "tokens of context"},
    [QN_LANGUAGE_WINDOW] = {{"%s.attention.sliding_window", "sliding_window"}, NULL},
    [QN_LANGUAGE_VOCABULARY] = {{"%s.vocab_size", "vocab_size"}, NULL},
};

qn_status qn_language_refuse(qn_language *language, const char *format, ...) {
    char text[MOST_PROBLEM];
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    QN_TRY(qn_grow(language->texts.allocator, &language->problems, &language->capacity,
                   language->n_problems + 1, sizeof *language->problems));
    const char *kept = qn_arena_text(&language->texts, text);
    if (!kept)
        return QN_ERROR_MEMORY;
    language->problems[language->n_problems++] = kept;
    return QN_OK;
}

/* ---- sizes ---- */

static qn_status read_size(qn_language *language, qn_language_size size) {
    double number = 0;
    const char *name = sizes[size].name;
    switch (qn_language_number(language, sizes[size].key, &number)) {
    case QN_LANGUAGE_ABSENT:
        return name ? qn_language_refuse(language, "the files do not say how many %s it has", name)
                    : QN_OK;
    case QN_LANGUAGE_FOUND:
        if (number == floor(number) && number >= 1 && number <= most_size) {
            language->sizes[size] = (int64_t)number;
            return QN_OK;
        }
        break;
    case QN_LANGUAGE_WRONG:
        break;
    }
    return size == QN_LANGUAGE_WINDOW && number == 0
               ? QN_OK
               : qn_language_refuse(language, "%s is no count from 1 to 2^31 for all layers",
                                    language->files->is_gguf ? sizes[size].key.gguf + 3
                                                             : sizes[size].key.folder);
}

/* What follows from other sizes where the files do not say it. */
static void fill_sizes(qn_language *language) {
    int64_t *s = language->sizes;
    if (s[QN_LANGUAGE_KEY_HEADS] == 0)
        s[QN_LANGUAGE_KEY_HEADS] = s[QN_LANGUAGE_HEADS];
    if (s[QN_LANGUAGE_HEAD_WIDTH] == 0 && s[QN_LANGUAGE_HEADS] > 0)
        s[QN_LANGUAGE_HEAD_WIDTH] = s[QN_LANGUAGE_WIDTH] / s[QN_LANGUAGE_HEADS];
    if (s[QN_LANGUAGE_FEED_FORWARD] == 0)
        s[QN_LANGUAGE_FEED_FORWARD] = 4 * s[QN_LANGUAGE_WIDTH];
    if (qn_language_is_denied(language, "use_sliding_window"))
        s[QN_LANGUAGE_WINDOW] = 0;
}

static qn_status check_heads(qn_language *language) {
    const int64_t heads = language->sizes[QN_LANGUAGE_HEADS];
    const int64_t key_heads = language->sizes[QN_LANGUAGE_KEY_HEADS];
    if (heads > 0 && key_heads > 0 && heads % key_heads != 0)
        return qn_language_refuse(
            language, "its %lld attention heads do not share %lld heads of keys and values evenly",
            (long long)heads, (long long)key_heads);
    return QN_OK;
}

static qn_status read_sizes(qn_language *language) {
    static const qn_language_key epsilons[] = {
        {"%s.attention.layer_norm_rms_epsilon", "rms_norm_eps"},
        {"%s.attention.layer_norm_epsilon", "layer_norm_epsilon layer_norm_eps"}};
    for (int i = 0; i < QN_LANGUAGE_SIZES; i++)
        QN_TRY(read_size(language, (qn_language_size)i));
    fill_sizes(language);
    QN_TRY(check_heads(language));
    if (qn_language_number(language, epsilons[0], &language->epsilon) != QN_LANGUAGE_FOUND)
        (void)qn_language_number(language, epsilons[1], &language->epsilon);
    return QN_OK;
}

/* ---- texts ---- */

/* The part of a path that people know a folder or file by. */
static const char *last_part(const char *path) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    while (end > 0 && path[end - 1] != '/')
        end--;
    return path + end;
}

/* Newer files have one object of positions, which may hold one for each kind of layer; in older
 * ones "rope_type" is "type". */
static const char *read_folder_scaling(qn_language *language) {
    const cJSON *config = language->files->config;
    const cJSON *scaling = cJSON_GetObjectItemCaseSensitive(config, "rope_parameters");
    if (cJSON_HasObjectItem(scaling, "full_attention"))
        scaling = cJSON_GetObjectItemCaseSensitive(scaling, "full_attention");
    if (!scaling)
        scaling = cJSON_GetObjectItemCaseSensitive(config, "rope_scaling");
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(scaling, "rope_type"));
    if (!type)
        type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(scaling, "type"));
    return type ? qn_arena_text(&language->texts, type) : "";
}

/* Of templates with names the one that is meant where none is asked for; null: there is none. */
static const cJSON *find_default(const cJSON *list) {
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
        if (name && strcmp(name, "default") == 0)
            return cJSON_GetObjectItemCaseSensitive(item, "template");
    }
    return NULL;
}

/* A file of its own, or a member of tokenizer_config.json: a text, or a list of named ones. */
static const char *read_folder_chat(qn_language *language) {
    const qn_pretrained *files = language->files;
    const char *path = qn_arena_format(&language->texts, "%s/chat_template.jinja", files->path);
    const char *copy = "";
    char *text;
    size_t bytes;
    cJSON *tree;
    if (path && qn_path_is_file(path) &&
        qn_file_read_whole(files->allocator, path, &text, &bytes) == QN_OK) {
        copy = qn_arena_text(&language->texts, text);
        qn_release(files->allocator, text, bytes + 1, 1);
        return copy;
    }
    if (qn_json_file_read(files->allocator, files->path, "tokenizer_config.json", &tree) != QN_OK)
        return copy;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(tree, "chat_template");
    if (cJSON_IsArray(item))
        item = find_default(item);
    if (cJSON_IsString(item))
        copy = qn_arena_text(&language->texts, item->valuestring);
    cJSON_Delete(tree);
    return copy;
}

static qn_status read_texts(qn_language *language) {
    static const qn_language_key name = {"general.name", "_name_or_path"},
                                 scaling = {"%s.rope.scaling.type", ""},
                                 chat = {"tokenizer.chat_template", ""};
    const bool is_gguf = language->files->is_gguf;
    language->name = qn_language_text(language, name);
    if (language->name)
        language->name = last_part(language->name);
    language->scaling =
        is_gguf ? qn_language_text(language, scaling) : read_folder_scaling(language);
    language->chat = is_gguf ? qn_language_text(language, chat) : read_folder_chat(language);
    if (!language->name || !language->scaling || !language->chat)
        return QN_ERROR_MEMORY;
    if (strcmp(language->scaling, "none") == 0 || strcmp(language->scaling, "default") == 0)
        language->scaling = "";
    return QN_OK;
}

/* ---- what layers compute ---- */

/* Of the only 62 layers that there are, the scale is that of another width than a head's. */
static double usual_scale(const qn_language *language) {
    enum { GEMMA_27B_LAYERS = 62 };
    const int64_t *s = language->sizes;
    const bool is_other = language->files->is_gguf && language->family->traits.scales_embedding &&
                          s[QN_LANGUAGE_LAYERS] == GEMMA_27B_LAYERS;
    return 1 / sqrt(is_other ? (double)s[QN_LANGUAGE_WIDTH] / (double)s[QN_LANGUAGE_HEADS]
                             : (double)s[QN_LANGUAGE_HEAD_WIDTH]);
}

static qn_status read_attention(qn_language *language) {
    static const qn_language_key scale = {"%s.attention.scale", ""},
                                 width = {"", "query_pre_attn_scalar"},
                                 attention = {"%s.attn_logit_softcapping",
                                              "attn_logit_softcapping"},
                                 final = {"%s.final_logit_softcapping", "final_logit_softcapping"};
    double number = 0;
    language->attention_scale = usual_scale(language);
    if (qn_language_number(language, scale, &number) == QN_LANGUAGE_FOUND && number > 0)
        language->attention_scale = number;
    if (qn_language_number(language, width, &number) == QN_LANGUAGE_FOUND && number > 0)
        language->attention_scale = 1 / sqrt(number);
    if (qn_language_number(language, final, &language->final_cap) == QN_LANGUAGE_WRONG ||
        !(language->final_cap >= 0))
        return qn_language_refuse(language, "the soft cap of logits is no number from 0");
    number = 0;
    if (qn_language_number(language, attention, &number) == QN_LANGUAGE_WRONG || number != 0)
        return qn_language_refuse(language, "its attention has a soft cap, which none of the "
                                            "families that quern knows has");
    if (qn_language_is_denied(language, "scale_attn_weights") ||
        qn_language_is_true(language, "scale_attn_by_inverse_layer_idx"))
        return qn_language_refuse(language, "its attention is not scaled as quern knows it");
    return QN_OK;
}

/* Another function than the family's would give wrong numbers. */
static qn_status check_activation(qn_language *language) {
    static const qn_language_key key = {"", "hidden_activation hidden_act activation_function"};
    static const char *const names[2][2] = {{"silu", "swish"}, {"gelu_pytorch_tanh", "gelu_new"}};
    const char *name = qn_language_text(language, key);
    if (!name)
        return QN_ERROR_MEMORY;
    const char *const *known = names[language->family->traits.has_gelu];
    if (!*name || strcmp(name, known[0]) == 0 || strcmp(name, known[1]) == 0)
        return QN_OK;
    return qn_language_refuse(language, "its activation is \"%.40s\", and quern knows %s for %s",
                              name, known[0], language->family->name);
}

/* By a list of kinds, or by the family's rule. */
static qn_status find_local(qn_language *language) {
    static const qn_language_key pattern = {"", "sliding_window_pattern _sliding_window_pattern"},
                                 first = {"", "max_window_layers"};
    const int64_t n = language->sizes[QN_LANGUAGE_LAYERS];
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(language->files->config, "layer_types");
    double every = language->family->traits.global_every, from = 0;
    bool *made = qn_arena_allocate(&language->texts, (size_t)n, sizeof *made);
    if (!made)
        return QN_ERROR_MEMORY;
    (void)qn_language_number(language, pattern, &every);
    (void)qn_language_number(language, first, &from);
    for (int64_t i = 0; i < n; i++) {
        const bool is_rule =
            every >= 1 && every <= most_size ? (i + 1) % (int64_t)every != 0 : (double)i >= from;
        const char *type = cJSON_GetStringValue(cJSON_GetArrayItem(types, (int)i));
        made[i] = language->sizes[QN_LANGUAGE_WINDOW] > 0 &&
                  (type ? strcmp(type, "sliding_attention") == 0 : is_rule);
    }
    language->is_local = made;
    return QN_OK;
}

static qn_status read_layers(qn_language *language) {
    if (qn_language_row(language, "position_embd.weight") == NULL) {
        QN_TRY(qn_language_read_rotary(language));
        language->rotary_base = language->rotary.base;
    }
    QN_TRY(read_attention(language));
    if (!(language->epsilon > 0))
        QN_TRY(qn_language_refuse(language, "the files do not say the epsilon of its norms"));
    return check_activation(language);
}

/* ---- the whole ---- */

static qn_status refuse_family(qn_language *language) {
    char known[MOST_PROBLEM / 2] = "";
    size_t used = 0;
    const qn_language_family *family;
    for (int i = 0; (family = qn_language_family_at(i)); i++)
        used += (size_t)qn_print(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 family->name);
    if (!*language->architecture)
        return qn_language_refuse(language, "the files do not say which architecture it has");
    return qn_language_refuse(language, "architecture %.80s is none of those that quern knows: %s",
                              language->architecture, known);
}

static qn_status describe(qn_language *language) {
    static const qn_language_key architecture = {"general.architecture", "model_type"};
    language->architecture = language->name = language->scaling = language->chat = "";
    language->architecture = qn_language_text(language, architecture);
    if (!language->architecture)
        return QN_ERROR_MEMORY;
    language->family = qn_language_family_find(language->architecture, language->files->is_gguf);
    if (!language->family)
        QN_TRY(refuse_family(language));
    QN_TRY(read_texts(language));
    if (language->family) {
        QN_TRY(read_sizes(language));
        if (language->sizes[QN_LANGUAGE_HEAD_WIDTH] > 0)
            QN_TRY(read_layers(language));
        QN_TRY(qn_language_check_tensors(language));
    }
    QN_TRY(qn_language_check_types(language));
    return language->family && language->n_problems == 0 ? find_local(language) : QN_OK;
}

qn_status qn_language_check(const qn_language *language) {
    if (language->n_problems == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED,
                   "%s: %s; quern import --check lists all that stands "
                   "against it",
                   language->files->path, language->problems[0]);
}

const qn_language_tensor *qn_language_row(const qn_language *language, const char *gguf) {
    for (const qn_language_tensor *row = language->family->tensors; row->gguf || row->folder;
         row++) {
        if (row->gguf && strcmp(row->gguf, gguf) == 0)
            return row;
    }
    return NULL;
}

qn_status qn_language_describe(const qn_pretrained *files, qn_language *language) {
    *language = (qn_language){.files = files};
    qn_arena_init(&language->texts, files->allocator);
    const qn_status status = describe(language);
    if (status != QN_OK)
        qn_language_deinit(language);
    return status;
}

void qn_language_deinit(qn_language *language) {
    qn_release(language->texts.allocator, language->problems, language->capacity,
               sizeof *language->problems);
    qn_arena_deinit(&language->texts);
    *language = (qn_language){.files = NULL};
}
