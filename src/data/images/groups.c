/* Groups of pictures in folders (options.group), by where they lie or what they are called:
 *     folder      the folder that a picture lies in, as CLASS/PERSON/a.png
 *     folder:N    the N-th below the data's folder, or below train and test
 *     name:TEXT   what its file's name has before TEXT: "p7" of p7_03.png by name:_
 * A folder of one name is one group, in whatever class. Where the data come in train and test, what
 * lies in both is told. */
#include "base/rng.h"
#include "base/status.h"
#include "data/images/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16 };

typedef struct grouping {
    const char *told;
    int level;          /* of a folder, from 1; 0: the last */
    const char *before; /* of names; null: folders tell */
} grouping;

static qn_status parse(const char *told, const char *folder, grouping *g) {
    static const char of_folder[] = "folder", of_name[] = "name:";
    const size_t n = strlen(of_folder);
    *g = (grouping){.told = told};
    if (strcmp(told, of_folder) == 0)
        return QN_OK;
    if (strncmp(told, of_folder, n) == 0 && told[n] == ':') {
        char *end;
        const long level = strtol(told + n + 1, &end, 10);
        g->level = level >= 1 && level <= DEEPEST && !*end ? (int)level : 0;
        if (g->level > 0)
            return QN_OK;
    }
    if (strncmp(told, of_name, strlen(of_name)) == 0 && told[strlen(of_name)]) {
        g->before = told + strlen(of_name);
        return QN_OK;
    }
    return qn_fail(QN_ERROR_ARGUMENT,
                   "--group %s: of pictures in folders it is folder (the one that a picture lies "
                   "in), folder:N (the N-th below %s), or name:TEXT (what its file's name has "
                   "before TEXT); of a table of files and labels, images:%s,LABELS.csv, a column",
                   told, folder, folder);
}

/* The group's text in the name of an entry; null: it has none. */
static const char *find_text(const grouping *g, const char *name, size_t *n) {
    const char *file = strrchr(name, '/'), *at = name;
    file = file ? file + 1 : name;
    if (g->before) {
        const char *end = strstr(file, g->before);
        *n = end ? (size_t)(end - file) : 0;
        return *n > 0 ? file : NULL;
    }
    for (int level = 1; g->level > 0 && level < g->level && at < file; level++)
        at += strcspn(at, "/") + 1;
    for (; g->level == 0 && at + strcspn(at, "/") + 1 < file; at += strcspn(at, "/") + 1)
        ;
    *n = at < file ? strcspn(at, "/") : 0;
    return at < file ? at : NULL;
}

/* A folder that is the class itself groups nothing. */
static bool is_class(const qn_source_base *base, const grouping *g, const char *name,
                     const char *text) {
    const qn_classes_from from = base->options.classes_from;
    const char *last = strrchr(name, '/');
    if (g->before || !text)
        return false;
    return from == QN_CLASSES_FROM_PATH || (from == QN_CLASSES_FROM_TOP && text == name) ||
           (from == QN_CLASSES_FROM_LEAF && last && text + strcspn(text, "/") == last);
}

static qn_status group_entry(const qn_source_base *base, const grouping *g,
                             const qn_image_list *list, qn_image_entry *entry) {
    size_t n = 0;
    char group[1024];
    const char *text = find_text(g, entry->name, &n);
    if (is_class(base, g, entry->name, text))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--group %s: of %s/%s that folder is the class; a group has pictures of "
                       "several classes (--group none: there are no groups)",
                       g->told, list->root, entry->name);
    if (!text || n >= sizeof group)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--group %s: %s/%s has none (--group none: there are no groups)", g->told,
                       list->root, entry->name);
    memcpy(group, text, n);
    group[n] = 0;
    entry->group = qn_hash_text(group) | 1;
    return QN_OK;
}

/* ---- both sides ---- */

static int compare(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Tells how many pictures of a list are of groups that are trained on. */
static void tell_shared(const qn_image_tree *tree, const uint64_t *trained, size_t n_trained,
                        const qn_image_list *list) {
    const char *example = NULL;
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (!bsearch(&list->entries[i].group, trained, n_trained, sizeof *trained, compare))
            continue;
        example = example ? example : list->entries[i].name;
        n++;
    }
    if (n > 0)
        qn_data_tell(tree->base, 1,
                     "%s: %zu of %zu pictures are of groups (--group %s) that are trained on, as "
                     "%s: what is measured on them says little of others",
                     list->root, n, list->n, tree->base->options.group, example);
}

qn_status qn_image_groups_check(const qn_image_tree *tree) {
    const qn_image_list *train = &tree->lists[QN_TRAIN];
    const qn_allocator *allocator = tree->base->options.allocator;
    uint64_t *trained;
    if (!qn_source_group(tree->base) || train->n == 0 ||
        tree->lists[QN_TEST].n + tree->lists[QN_VALIDATION].n == 0)
        return QN_OK;
    QN_TRY(qn_allocate(allocator, train->n, sizeof *trained, &trained));
    for (size_t i = 0; i < train->n; i++)
        trained[i] = train->entries[i].group;
    qsort(trained, train->n, sizeof *trained, compare);
    tell_shared(tree, trained, train->n, &tree->lists[QN_TEST]);
    tell_shared(tree, trained, train->n, &tree->lists[QN_VALIDATION]);
    qn_release(allocator, trained, train->n, sizeof *trained);
    return QN_OK;
}

/* ---- all ---- */

qn_status qn_image_groups_find(qn_image_tree *tree, const char *folder) {
    qn_source_base *base = tree->base;
    const char *told = qn_source_group(base);
    grouping g;
    if (!told)
        return QN_OK;
    QN_TRY(parse(told, folder, &g));
    for (int split = 0; split < QN_SPLITS; split++) {
        const qn_image_list *list = &tree->lists[split];
        for (size_t i = 0; i < list->n; i++)
            QN_TRY(group_entry(base, &g, list, &list->entries[i]));
    }
    base->units = qn_arena_format(&base->arena, "values of '%s'", told);
    return base->units ? QN_OK : QN_ERROR_MEMORY;
}
