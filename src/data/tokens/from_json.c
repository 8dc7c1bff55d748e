/* Tokenizers of tokenizer.json, as Hugging Face's library writes it: a BPE model with what goes
 * before it. Every part that would change tokens is understood or refused by its name. */
#include "base/status.h"
#include "data/tokens/build.h"
#include "format/pretrained/json_file.h"

#include <cjson/cJSON.h>
#include <string.h>

typedef struct builder {
    qn_tokenizer *t;
    const cJSON *root, *model, *vocabulary, *added;
    bool has_bytes, has_digits, marks_blanks; /* parts that were met */
    size_t n_most;                            /* numbers of tokens are below this */
    bool *is_split;                           /* (n_most) */
} builder;

static const cJSON *get(const cJSON *object, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const char *get_text(const cJSON *object, const char *name) {
    const char *text = cJSON_GetStringValue(get(object, name));
    return text ? text : "";
}

static bool get_flag(const cJSON *object, const char *name, bool fallback) {
    const cJSON *item = get(object, name);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : fallback;
}

static qn_status refuse(const char *part, const char *what) {
    return qn_fail(QN_ERROR_UNSUPPORTED, "its %s is \"%.80s\", which quern does not have", part,
                   what);
}

/* ---- what goes before the model ---- */

static qn_status read_normaliser(builder *b, const cJSON *of) {
    const char *type = get_text(of, "type");
    const cJSON *pattern = get(get(of, "pattern"), "String");
    if (strcmp(type, "NFC") == 0) {
        b->t->composes = true;
    } else if (strcmp(type, "Prepend") == 0 &&
               strcmp(get_text(of, "prepend"), QN_BLANK_MARK) == 0 && !b->marks_blanks) {
        b->t->prefix = QN_PREFIX_ALWAYS;
    } else if (strcmp(type, "Replace") == 0 && cJSON_IsString(pattern) &&
               strcmp(pattern->valuestring, " ") == 0 &&
               strcmp(get_text(of, "content"), QN_BLANK_MARK) == 0) {
        b->marks_blanks = true;
    } else {
        return refuse("normalizer", type);
    }
    return QN_OK;
}

static qn_status read_metaspace(builder *b, const cJSON *of) {
    const char *scheme = get_text(of, "prepend_scheme");
    const bool adds = get_flag(of, "add_prefix_space", true);
    if (strcmp(get_text(of, "replacement"), QN_BLANK_MARK) != 0 || get_flag(of, "split", true))
        return refuse("pre_tokenizer", "Metaspace that splits");
    b->marks_blanks = true;
    if (strcmp(scheme, "never") == 0 || (!*scheme && !adds))
        b->t->prefix = QN_PREFIX_NONE;
    else
        b->t->prefix = strcmp(scheme, "first") == 0 ? QN_PREFIX_FIRST : QN_PREFIX_EACH;
    return QN_OK;
}

static qn_status read_bytes(builder *b, const cJSON *of) {
    if (get_flag(of, "add_prefix_space", true))
        return refuse("pre_tokenizer", "ByteLevel with add_prefix_space");
    b->has_bytes = true;
    if (!get_flag(of, "use_regex", true))
        return QN_OK;
    if (b->t->split)
        return refuse("pre_tokenizer", "a pattern and that of ByteLevel");
    b->t->split = qn_split_named(b->has_digits ? "SmolLM" : "GPT-2");
    return QN_OK;
}

static qn_status read_split(builder *b, const cJSON *of) {
    const cJSON *pattern = get(of, "pattern");
    const char *regex = get_text(pattern, "Regex"), *text = get_text(pattern, "String");
    /* Where blanks have been replaced there is none to split at. */
    if (strcmp(text, " ") == 0 && b->marks_blanks)
        return QN_OK;
    if (b->t->split || b->has_digits || get_flag(of, "invert", false) ||
        strcmp(get_text(of, "behavior"), "Isolated") != 0)
        return refuse("pre_tokenizer", "Split in another way than once, isolated");
    b->t->split = qn_split_of_regex(regex);
    return b->t->split ? QN_OK : refuse("pattern of its pre_tokenizer", *regex ? regex : text);
}

static qn_status read_splitter(builder *b, const cJSON *of) {
    const char *type = get_text(of, "type");
    if (b->has_bytes)
        return refuse("pre_tokenizer", "one that follows ByteLevel");
    if (strcmp(type, "ByteLevel") == 0)
        return read_bytes(b, of);
    if (strcmp(type, "Split") == 0)
        return read_split(b, of);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(b, of);
    if (strcmp(type, "Digits") == 0 && get_flag(of, "individual_digits", false) && !b->t->split) {
        b->has_digits = true;
        return QN_OK;
    }
    return refuse("pre_tokenizer", type);
}

/* A part, or the parts of a sequence under the name of their list. */
static qn_status read_parts(builder *b, const char *name, const char *list,
                            qn_status (*read)(builder *b, const cJSON *of)) {
    const cJSON *part = get(b->root, name), *item;
    if (!part || cJSON_IsNull(part))
        return QN_OK;
    if (strcmp(get_text(part, "type"), "Sequence") != 0)
        return read(b, part);
    cJSON_ArrayForEach(item, get(part, list)) QN_TRY(read(b, item));
    return QN_OK;
}

static qn_status read_before(builder *b) {
    QN_TRY(read_parts(b, "normalizer", "normalizers", read_normaliser));
    QN_TRY(read_parts(b, "pre_tokenizer", "pretokenizers", read_splitter));
    b->t->is_byte_level = b->has_bytes;
    if (b->has_bytes && (b->marks_blanks || b->t->prefix != QN_PREFIX_NONE))
        return refuse("normalizer", "SentencePiece's before ByteLevel");
    if (b->has_bytes)
        return QN_OK;
    if (!b->marks_blanks || b->t->composes || b->t->split || b->has_digits)
        return refuse("pre_tokenizer", "neither ByteLevel nor SentencePiece's");
    return QN_OK;
}

/* ---- the model ---- */

static qn_status check_model(const builder *b) {
    const cJSON *dropout = get(b->model, "dropout");
    const char *type = get_text(b->model, "type");
    if (*type && strcmp(type, "BPE") != 0)
        return refuse("model", type);
    if (*get_text(b->model, "continuing_subword_prefix") ||
        *get_text(b->model, "end_of_word_suffix"))
        return refuse("model", "BPE with marks inside or at the end of words");
    if (cJSON_IsNumber(dropout) && dropout->valuedouble != 0)
        return refuse("model", "BPE with dropout");
    return QN_OK;
}

/* A whole number of a token. */
static qn_status get_number(const builder *b, const cJSON *item, int64_t *number) {
    const bool is_count =
        cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < (double)b->n_most;
    *number = is_count ? (int64_t)item->valuedouble : 0;
    return is_count && (double)*number == item->valuedouble
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT, "the number of a token is none, or far beyond the count "
                                          "of tokens");
}

/* A token's text is written in characters that stand for bytes, but for special ones. */
static qn_status read_token(builder *b, const cJSON *item) {
    const size_t bytes = strlen(item->string);
    int64_t number, n = -1;
    char *raw;
    QN_TRY(get_number(b, item, &number));
    QN_TRY(qn_allocate(b->t->allocator, bytes + 1, 1, &raw));
    if (b->t->is_byte_level)
        n = qn_bytes_of_characters(item->string, bytes, raw);
    b->is_split[number] = true;
    const int byte = b->t->is_byte_level ? -1 : qn_byte_of_token(item->string, bytes);
    if (byte >= 0 && get_flag(b->model, "byte_fallback", false))
        b->t->byte_tokens[byte] = (int32_t)number;
    const qn_status status = qn_vocabulary_set(
        &b->t->vocabulary, number, n < 0 ? item->string : raw, n < 0 ? bytes : (size_t)n);
    qn_release(b->t->allocator, raw, bytes + 1, 1);
    return status;
}

static qn_status read_added(builder *b, const cJSON *item) {
    const char *text = get_text(item, "content");
    int64_t number;
    QN_TRY(get_number(b, get(item, "id"), &number));
    if (get_flag(item, "single_word", false))
        return refuse("added token", "one of single words alone");
    QN_TRY(qn_vocabulary_set(&b->t->vocabulary, number, text, strlen(text)));
    return qn_tokenizer_add(b->t, (qn_added){.token = (int32_t)number,
                                             .takes_left = get_flag(item, "lstrip", false),
                                             .takes_right = get_flag(item, "rstrip", false)});
}

static qn_status read_vocabulary(builder *b) {
    const cJSON *item;
    const char *unknown = get_text(b->model, "unk_token");
    size_t n = 0;
    cJSON_ArrayForEach(item, b->vocabulary) n++;
    cJSON_ArrayForEach(item, b->added) n++;
    b->n_most = 2 * n + 1024 < QN_MOST_TOKENS ? 2 * n + 1024 : QN_MOST_TOKENS;
    QN_TRY(qn_allocate(b->t->allocator, b->n_most, sizeof *b->is_split, &b->is_split));
    cJSON_ArrayForEach(item, b->vocabulary) QN_TRY(read_token(b, item));
    cJSON_ArrayForEach(item, b->added) QN_TRY(read_added(b, item));
    QN_TRY(qn_tokenizer_finish(b->t, b->is_split));
    if (*unknown)
        b->t->unknown = qn_vocabulary_find(&b->t->vocabulary, unknown, strlen(unknown));
    b->t->fuses = get_flag(b->model, "fuse_unk", false);
    b->t->whole_words = get_flag(b->model, "ignore_merges", false);
    return QN_OK;
}

/* ---- merges ---- */

/* The text of one side of a merge, in to, which has as many bytes. */
static int64_t get_side(const builder *b, const char *text, size_t bytes, char *to) {
    if (b->t->is_byte_level)
        return qn_bytes_of_characters(text, bytes, to);
    memcpy(to, text, bytes);
    return (int64_t)bytes;
}

static qn_status add_merge(builder *b, const char *left, size_t left_bytes, const char *right) {
    QN_TRY(qn_tokenizer_reserve(b->t, left_bytes + strlen(right)));
    char *raw = b->t->changed;
    const int64_t n = get_side(b, left, left_bytes, raw);
    const int64_t more = n < 0 ? -1 : get_side(b, right, strlen(right), raw + n);
    if (more < 0)
        return qn_fail(QN_ERROR_FORMAT, "merge %zu has characters that stand for no byte",
                       b->t->merges.n + 1);
    return qn_tokenizer_merge(b->t, raw, (size_t)n, (size_t)(n + more));
}

/* "left right", or, in newer files, a list of both. */
static qn_status read_merge(builder *b, const cJSON *item) {
    const char *left = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
    const char *right = cJSON_GetStringValue(cJSON_GetArrayItem(item, 1));
    if (left && right && cJSON_GetArraySize(item) == 2)
        return add_merge(b, left, strlen(left), right);
    const char *blank =
        cJSON_IsString(item) && *item->valuestring ? strchr(item->valuestring + 1, ' ') : NULL;
    if (!blank)
        return qn_fail(QN_ERROR_FORMAT, "merge %zu is not two texts", b->t->merges.n + 1);
    return add_merge(b, item->valuestring, (size_t)(blank - item->valuestring), blank + 1);
}

static qn_status read_merges(builder *b) {
    const cJSON *merges = get(b->model, "merges"), *item;
    if (!cJSON_IsArray(merges))
        return qn_fail(QN_ERROR_FORMAT, "its model has no merges");
    QN_TRY(qn_merges_reserve(&b->t->merges, (size_t)cJSON_GetArraySize(merges)));
    cJSON_ArrayForEach(item, merges) QN_TRY(read_merge(b, item));
    return QN_OK;
}

static qn_status build(builder *b) {
    b->model = get(b->root, "model");
    b->vocabulary = get(b->model, "vocab");
    b->added = get(b->root, "added_tokens");
    QN_TRY(check_model(b));
    if (!cJSON_IsObject(b->vocabulary))
        return qn_fail(QN_ERROR_FORMAT, "its model has no vocab");
    QN_TRY(read_before(b));
    QN_TRY(read_vocabulary(b));
    QN_TRY(read_merges(b));
    qn_tokenizer_settle(b->t);
    return QN_OK;
}

qn_status qn_tokenizer_of_json(const qn_allocator *allocator, const char *folder, const char *name,
                               qn_tokenizer **tokenizer) {
    cJSON *tree;
    builder b = {.root = NULL};
    QN_TRY(qn_json_file_read(allocator, folder, name, &tree));
    b.root = tree;
    qn_status status = qn_tokenizer_create(allocator, &b.t);
    if (status == QN_OK) {
        status = build(&b);
        if (b.is_split)
            qn_release(b.t->allocator, b.is_split, b.n_most, sizeof *b.is_split);
        if (status == QN_OK)
            *tokenizer = b.t;
        else
            qn_tokenizer_destroy(b.t);
    }
    cJSON_Delete(tree);
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s/%s", folder, name);
}
