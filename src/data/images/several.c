/* See several.h. */
#include "data/images/several.h"

#include "base/status.h"
#include "os/heap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BITS = 64, MOST_LABELS = 4096 };

bool qn_images_have_labels(const qn_source_base *base) {
    const qn_data_options *o = &base->options;
    const bool are_known = o->table && o->table->n_targets > 0;
    return are_known ? o->table->are_labels && o->table->n_columns == 0
                     : o->task && strcmp(o->task, "labels") == 0;
}

void qn_images_put_labels(const qn_image_list *list, size_t index, int n, float *y) {
    const uint64_t *labels = list->labels + index * list->n_words;
    for (int k = 0; k < n; k++)
        y[k] = labels[k / BITS] >> k % BITS & 1 ? 1.0f : 0.0f;
}

bool qn_images_are_alike(const qn_image_list *list, size_t a, size_t b) {
    const size_t n = list->n_words;
    return list->entries[a].class == list->entries[b].class &&
           (!list->labels ||
            memcmp(list->labels + a * n, list->labels + b * n, n * sizeof *list->labels) == 0);
}

/* ---- names ---- */

/* The number of a class of the tree among the table's labels; -1: there is none. */
static int find_label(const qn_table *table, const char *name) {
    for (int k = 0; k < table->n_targets; k++)
        if (strcmp(table->targets[k], name) == 0)
            return k;
    return -1;
}

static qn_status find_numbers(const qn_image_tree *tree, const qn_table *table, int32_t *numbers) {
    for (size_t i = 0; i < tree->n_classes; i++) {
        numbers[i] = find_label(table, tree->classes[i]);
        if (numbers[i] < 0)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: the label '%s' is none that the network was trained for",
                           tree->base->argument, tree->classes[i]);
    }
    return QN_OK;
}

static qn_status make_table(const qn_image_tree *tree, const qn_table **table) {
    const qn_table *known = tree->base->options.table;
    *table = known;
    if (known && known->n_targets > 0)
        return QN_OK;
    if (tree->n_classes > MOST_LABELS)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s: %zu labels; a sample may have %d at most",
                       tree->base->argument, tree->n_classes, MOST_LABELS);
    qn_table *made = qn_arena_allocate(&tree->base->arena, 1, sizeof *made);
    if (!made)
        return QN_ERROR_MEMORY;
    *made =
        (qn_table){.n_targets = (int)tree->n_classes, .targets = tree->classes, .are_labels = true};
    *table = made;
    return QN_OK;
}

/* ---- joining ---- */

typedef struct place {
    uint64_t content;
    size_t index;
} place;

static int by_content(const void *left, const void *right) {
    const place *a = left, *b = right;
    if (a->content != b->content)
        return a->content < b->content ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Gives the first of equal pictures the labels of all, and the others the row -1. */
static int64_t gather(qn_image_list *list, const place *order) {
    const size_t n_words = list->n_words;
    int64_t n_joined = 0;
    for (size_t i = 1, first = 0; i < list->n; i++) {
        if (order[i].content != order[first].content) {
            first = i;
            continue;
        }
        uint64_t *to = list->labels + order[first].index * n_words;
        const uint64_t *from = list->labels + order[i].index * n_words;
        for (size_t w = 0; w < n_words; w++)
            to[w] |= from[w];
        list->entries[order[i].index].row = -1;
        n_joined++;
    }
    return n_joined;
}

static void compact(qn_image_list *list) {
    const size_t n_words = list->n_words;
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (list->entries[i].row < 0)
            continue;
        list->entries[n] = list->entries[i];
        memmove(list->labels + n * n_words, list->labels + i * n_words,
                n_words * sizeof *list->labels);
        n++;
    }
    list->n = n;
}

static qn_status join_list(qn_source_base *base, qn_image_list *list, const int32_t *numbers,
                           const qn_table *table, int64_t *n_joined) {
    const size_t n = list->n;
    place *order;
    list->n_words = ((size_t)table->n_targets + BITS - 1) / BITS;
    list->labels =
        qn_arena_allocate(&base->arena, list->n * list->n_words + 1, sizeof *list->labels);
    if (!list->labels)
        return QN_ERROR_MEMORY;
    memset(list->labels, 0, list->n * list->n_words * sizeof *list->labels);
    QN_TRY(qn_allocate(base->options.allocator, n, sizeof *order, &order));
    for (size_t i = 0; i < n; i++) {
        const int32_t class = list->entries[i].class;
        const int label = class >= 0 ? numbers[class] : -1;
        order[i] = (place){list->entries[i].content, i};
        if (label >= 0)
            list->labels[i * list->n_words + (size_t)label / BITS] |= UINT64_C(1) << label % BITS;
    }
    qsort(order, n, sizeof *order, by_content);
    *n_joined += gather(list, order);
    compact(list);
    qn_release(base->options.allocator, order, n, sizeof *order);
    return QN_OK;
}

static qn_status tell(qn_source_base *base, int64_t n_joined) {
    if (n_joined == 0)
        qn_data_tell(base, 1,
                     "%s: no picture has two labels; without --task labels, each has one class",
                     base->argument);
    return qn_data_facts_note(base,
                              "a picture in several class folders or rows (a link, or a copy of "
                              "the same pixels) is one sample of several labels: %" PRId64
                              " files or rows are joined to others",
                              n_joined);
}

qn_status qn_images_join(qn_image_tree *tree, const qn_table **table) {
    qn_source_base *base = tree->base;
    int64_t n_joined = 0;
    QN_TRY(make_table(tree, table));
    int32_t *numbers = qn_arena_allocate(&base->arena, tree->n_classes + 1, sizeof *numbers);
    if (!numbers)
        return QN_ERROR_MEMORY;
    QN_TRY(find_numbers(tree, *table, numbers));
    for (int split = 0; split < QN_SPLITS; split++)
        if (tree->lists[split].n > 0)
            QN_TRY(join_list(base, &tree->lists[split], numbers, *table, &n_joined));
    return tell(base, n_joined);
}
