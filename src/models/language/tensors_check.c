/* See tensors_check.h. */
#include "models/language/tensors_check.h"

#include "base/print.h"
#include "base/status.h"
#include "models/language/settings.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_NAME = 160,
    MOST_TOLD = 8, /* problems of one kind that are named one by one */
};

/* ---- names ---- */

/* A row's name with the layer in place of '#'. */
static void print_name(const char *name, int64_t layer, char text[MOST_NAME]) {
    const char *mark = strchr(name, '#');
    if (mark)
        qn_print(text, MOST_NAME, "%.*s%lld%s", (int)(mark - name), name, (long long)layer,
                 mark + 1);
    else
        qn_print(text, MOST_NAME, "%s", name);
}

static const char *name_of(const qn_language *language, const qn_language_tensor *row) {
    return language->files->is_gguf ? row->gguf : row->folder;
}

const qn_pretrained_tensor *qn_language_find(const qn_language *language,
                                             const qn_language_tensor *row, int64_t layer) {
    char name[MOST_NAME];
    const char *prefix = language->family->prefix;
    if (!name_of(language, row))
        return NULL;
    print_name(name_of(language, row), layer, name);
    const qn_pretrained_tensor *tensor = qn_tensors_find(language->files->tensors, name);
    const size_t bytes = strlen(prefix);
    if (!tensor && !language->files->is_gguf && bytes > 0 && strncmp(name, prefix, bytes) == 0)
        tensor = qn_tensors_find(language->files->tensors, name + bytes);
    return tensor;
}

/* ---- shapes ---- */

/* What a letter of a shape stands for; -1: any. */
static int64_t letter_size(const qn_language *language, char letter) {
    const int64_t *s = language->sizes;
    switch (letter) {
    case 'V':
        return s[QN_LANGUAGE_VOCABULARY];
    case 'E':
        return s[QN_LANGUAGE_WIDTH];
    case 'Q':
        return s[QN_LANGUAGE_HEADS] * s[QN_LANGUAGE_HEAD_WIDTH];
    case 'K':
        return s[QN_LANGUAGE_KEY_HEADS] * s[QN_LANGUAGE_HEAD_WIDTH];
    case 'H':
        return s[QN_LANGUAGE_HEAD_WIDTH];
    case 'F':
        return s[QN_LANGUAGE_FEED_FORWARD];
    case 'C':
        return s[QN_LANGUAGE_CONTEXT];
    default:
        return language->rotary.width / 2; /* R */
    }
}

/* "2F", "Q+2K": up to a blank, which *at goes behind. */
static int64_t axis_size(const qn_language *language, const char **at) {
    int64_t sum = 0, factor = 1;
    for (; **at && **at != ' '; ++*at) {
        if (**at >= '1' && **at <= '9') {
            factor = **at - '0';
        } else if (**at != '+') {
            sum += factor * letter_size(language, **at);
            factor = 1;
        }
    }
    *at += **at == ' ';
    return sum;
}

static qn_shape wanted_shape(const qn_language *language, const qn_language_tensor *row) {
    qn_shape shape = {.rank = 0};
    const bool is_folder = !language->files->is_gguf;
    const char *at = is_folder && row->folder_shape ? row->folder_shape : row->shape;
    while (*at)
        shape.dims[shape.rank++] = axis_size(language, &at);
    return shape;
}

/* ---- the check ---- */

typedef struct check {
    qn_language *language;
    bool *is_known; /* (n) of the files' tensors */
    int n_missing, n_wrong, n_others;
    char first[MOST_NAME];
} check;

static qn_status check_shape(check *c, const qn_language_tensor *row,
                             const qn_pretrained_tensor *tensor) {
    char is[QN_SHAPE_TEXT], wanted[QN_SHAPE_TEXT];
    const qn_shape shape = wanted_shape(c->language, row);
    if (qn_shape_equal(shape, tensor->shape) || c->n_wrong++ >= MOST_TOLD)
        return QN_OK;
    return qn_language_refuse(c->language, "tensor %.80s is %s, and the model's sizes ask for %s",
                              tensor->name, qn_shape_print(tensor->shape, is),
                              qn_shape_print(shape, wanted));
}

static qn_status check_row(check *c, const qn_language_tensor *row, int64_t layer) {
    const qn_pretrained_tensors *all = c->language->files->tensors;
    const qn_pretrained_tensor *tensor = qn_language_find(c->language, row, layer);
    if (tensor) {
        c->is_known[tensor - all->list] = true;
        return row->need == QN_LANGUAGE_UNUSED ? QN_OK : check_shape(c, row, tensor);
    }
    if (row->need != QN_LANGUAGE_NEEDED || !name_of(c->language, row) ||
        c->n_missing++ >= MOST_TOLD)
        return QN_OK;
    print_name(name_of(c->language, row), layer, c->first);
    return qn_language_refuse(c->language, "tensor %s is missing", c->first);
}

static qn_status check_others(check *c) {
    const qn_pretrained_tensors *all = c->language->files->tensors;
    for (size_t i = 0; i < all->n; i++) {
        if (!c->is_known[i] && c->n_others++ < MOST_TOLD)
            QN_TRY(qn_language_refuse(c->language,
                                      "tensor %.80s is none that models of the family have",
                                      all->list[i].name));
    }
    return QN_OK;
}

static qn_status tell_rest(check *c) {
    const struct {
        int n;
        const char *what;
    } kinds[] = {{c->n_missing, "more tensors are missing"},
                 {c->n_wrong, "more tensors are of another shape"},
                 {c->n_others, "more tensors are none that models of the family have"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].n > MOST_TOLD)
            QN_TRY(qn_language_refuse(c->language, "%d %s", kinds[i].n - MOST_TOLD, kinds[i].what));
    }
    return QN_OK;
}

static qn_status check_rows(check *c) {
    const qn_language_tensor *rows = c->language->family->tensors;
    const int64_t layers = c->language->sizes[QN_LANGUAGE_LAYERS];
    /* More layers than tensors are missing anyway: the first ones say so. */
    const int64_t most = (int64_t)c->language->files->tensors->n + 1;
    for (const qn_language_tensor *row = rows; row->gguf || row->folder; row++) {
        const char *name = name_of(c->language, row);
        const int64_t n = name && strchr(name, '#') ? layers : 1;
        for (int64_t i = 0; i < (n < most ? n : most); i++)
            QN_TRY(check_row(c, row, i));
    }
    QN_TRY(check_others(c));
    return tell_rest(c);
}

/* The first two rows of every family with a last product of its own are the embedding and that;
 * the vocabulary is the embedding's rows, of which a padded one has more than tokens. */
static qn_status check_embedding(qn_language *language) {
    const qn_language_tensor *rows = language->family->tensors, *output = rows;
    const qn_pretrained_tensor *embedding = qn_language_find(language, &rows[0], 0);
    while (!output->folder || strcmp(output->folder, "lm_head.weight") != 0)
        output++;
    language->is_tied = !qn_language_find(language, output, 0);
    if (language->is_tied && qn_language_is_denied(language, "tie_word_embeddings"))
        QN_TRY(qn_language_refuse(language,
                                  "tensor lm_head.weight is missing, and config.json says "
                                  "that the embedding is not used in its place"));
    if (embedding && embedding->shape.rank == 2)
        language->sizes[QN_LANGUAGE_VOCABULARY] = embedding->shape.dims[0];
    return QN_OK;
}

qn_status qn_language_check_tensors(qn_language *language) {
    const size_t n = language->files->tensors->n;
    check c = {.language = language};
    QN_TRY(check_embedding(language));
    QN_TRY(qn_allocate(language->texts.allocator, n + 1, sizeof *c.is_known, &c.is_known));
    const qn_status status = check_rows(&c);
    qn_release(language->texts.allocator, c.is_known, n + 1, sizeof *c.is_known);
    return status;
}

/* Once for each type. */
qn_status qn_language_check_types(qn_language *language) {
    const qn_pretrained_tensors *all = language->files->tensors;
    for (size_t i = 0; i < all->n; i++) {
        bool is_first = all->list[i].blocks == QN_BLOCKS_NONE;
        for (size_t k = 0; k < i && is_first; k++)
            is_first = strcmp(all->list[k].type, all->list[i].type) != 0;
        if (is_first)
            QN_TRY(qn_language_refuse(
                language,
                "tensor %.80s is of type %s; quern reads F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
                "Q8_0, Q4_K, Q5_K and Q6_K",
                all->list[i].name, all->list[i].type));
    }
    return QN_OK;
}
