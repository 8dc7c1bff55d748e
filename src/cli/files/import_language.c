/* See import_language.h. */
#include "cli/files/import_language.h"

#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "models/language/description.h"
#include "models/language/template.h"

#include <stdio.h>
#include <string.h>

enum { MOST_TYPES = 48 };

/* Tensors of one type. */
typedef struct type_count {
    const char *name;
    int64_t n_tensors, n_numbers;
} type_count;

static int count_types(const qn_pretrained_tensors *all, type_count counts[MOST_TYPES]) {
    int n = 0;
    for (size_t i = 0; i < all->n; i++) {
        int k = 0;
        while (k < n && strcmp(counts[k].name, all->list[i].type) != 0)
            k++;
        if (k == MOST_TYPES)
            continue;
        if (k == n)
            counts[n++] = (type_count){.name = all->list[i].type};
        counts[k].n_tensors++;
        counts[k].n_numbers += qn_shape_count(all->list[i].shape);
    }
    return n;
}

static const char *family_name(const qn_language *model) {
    return model->family ? model->family->name : "unknown";
}

/* ---- text ---- */

/* A text of the file, which may hold what moves a terminal's cursor. */
static const char *shown(const char *text, char to[128]) {
    return qn_text_printable(text, to, 128);
}

static void print_sizes(const qn_language *model) {
    const int64_t *s = model->sizes;
    char a[32], b[32], c[32], text[128];
    printf("%-12s%lld of width %s, feed-forward %s\n", "layers", (long long)s[QN_LANGUAGE_LAYERS],
           grouped(s[QN_LANGUAGE_WIDTH], a), grouped(s[QN_LANGUAGE_FEED_FORWARD], b));
    printf("%-12s%lld heads of width %lld, %lld of keys and values\n", "attention",
           (long long)s[QN_LANGUAGE_HEADS], (long long)s[QN_LANGUAGE_HEAD_WIDTH],
           (long long)s[QN_LANGUAGE_KEY_HEADS]);
    if (model->rotary_base > 0)
        printf("%-12srotary, base %s%s%s\n", "positions", grouped((int64_t)model->rotary_base, a),
               *model->scaling ? ", scaling " : "", shown(model->scaling, text));
    printf("%-12s%s tokens%s\n", "context", grouped(s[QN_LANGUAGE_CONTEXT], a),
           s[QN_LANGUAGE_WINDOW] > 0 ? ", with a sliding window" : "");
    printf("%-12s%s tokens, %s\n", "vocabulary", grouped(s[QN_LANGUAGE_VOCABULARY], c),
           model->is_tied ? "the embedding is the last product too" : "a last product of its own");
}

static void print_types(const qn_language *model) {
    type_count counts[MOST_TYPES];
    char n[32], numbers[32];
    const int n_types = count_types(model->files->tensors, counts);
    for (int i = 0; i < n_types; i++)
        printf("%-12s%-8s %12s numbers in %s tensors%s\n", "type", counts[i].name,
               grouped(counts[i].n_numbers, numbers), grouped(counts[i].n_tensors, n),
               qn_blocks_find(counts[i].name) == QN_BLOCKS_NONE ? "  not supported" : "");
}

static void print_model(const qn_language *model) {
    char size[QN_SIZE_TEXT], text[128];
    const char *form = qn_language_template_form(model->chat);
    printf("%s: a language model, %s, %s\n", terminal_name(model->files->path),
           model->files->is_gguf ? "GGUF" : "a folder of Hugging Face's",
           qn_text_print_size((uint64_t)qn_pretrained_bytes(model->files), size));
    printf("%-12s%s (%s)%s%s\n", "family", family_name(model),
           shown(model->architecture, (char[128]){0}), *model->name ? ": " : "",
           shown(model->name, text));
    if (model->family) {
        printf("%-12s%s\n", "built of", model->family->features);
        print_sizes(model);
    }
    print_types(model);
    printf("%-12s%s\n", "template",
           form           ? form
           : *model->chat ? "a chat template of a form that quern does not know"
                          : "none");
    for (size_t i = 0; i < model->n_problems; i++)
        printf("%-12s%s\n", "refused", shown(model->problems[i], (char[512]){0}));
    printf("%s\n", model->n_problems == 0 ? "everything in it is supported: quern reads its weights"
                                          : "quern does not read it as it is");
}

/* ---- JSON ---- */

static void add_sizes(const qn_language *model) {
    static const char *const names[QN_LANGUAGE_SIZES] = {"layers",    "width",      "heads",
                                                         "key_heads", "head_width", "feed_forward",
                                                         "context",   "window",     "vocabulary"};
    for (int i = 0; i < QN_LANGUAGE_SIZES; i++)
        json_count(names[i], model->sizes[i]);
    json_number("rotary_base", model->rotary_base);
    json_number("epsilon", model->epsilon);
    json_text("scaling", model->scaling);
    json_flag("tied", model->is_tied);
}

static void add_types(const qn_language *model) {
    type_count counts[MOST_TYPES];
    const int n = count_types(model->files->tensors, counts);
    json_open_list("types");
    for (int i = 0; i < n; i++) {
        json_begin_item();
        json_text("type", counts[i].name);
        json_count("tensors", counts[i].n_tensors);
        json_count("numbers", counts[i].n_numbers);
        json_flag("supported", qn_blocks_find(counts[i].name) != QN_BLOCKS_NONE);
        json_end_item();
    }
    json_close_list();
}

static void write_json(const qn_language *model) {
    const char *form = qn_language_template_form(model->chat);
    json_begin();
    json_text("file", model->files->path);
    json_text("kind", model->files->is_gguf ? "gguf" : "folder");
    json_count("bytes", qn_pretrained_bytes(model->files));
    json_text("family", family_name(model));
    json_text("architecture", model->architecture);
    json_text("name", model->name);
    if (model->family)
        add_sizes(model);
    add_types(model);
    json_text("template", form ? form : *model->chat ? "other" : "none");
    json_open_list("problems");
    for (size_t i = 0; i < model->n_problems; i++)
        json_item_text(model->problems[i]);
    json_close_list();
    json_flag("supported", model->n_problems == 0);
    json_end();
}

int import_language(const char *path, bool is_check, bool is_json) {
    qn_pretrained *files;
    qn_language model;
    qn_status status = qn_pretrained_open(NULL, path, &files);
    if (status != QN_OK)
        return report_failure(status);
    status = qn_language_describe(files, &model);
    if (status != QN_OK) {
        qn_pretrained_close(files);
        return report_failure(status);
    }
    if (is_json)
        write_json(&model);
    else
        print_model(&model);
    const bool is_refused = is_check && model.n_problems > 0;
    qn_language_deinit(&model);
    qn_pretrained_close(files);
    return is_refused ? EXIT_FAILED : EXIT_DONE;
}
