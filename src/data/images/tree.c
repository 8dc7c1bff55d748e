/* See tree.h. A folder is CLASS/..., or train/CLASS/... beside test/CLASS/... and val/CLASS/...
 * (also valid, validation, training, testing, in any case). Pictures may lie in folders below; the
 * class is the first folder, unless options say the last one or all of them. A folder named as a
 * split is a class where it holds pictures itself: train and valid are words for other things, too.
 */
#include "data/images/tree.h"

#include "base/status.h"
#include "base/text.h"
#include "data/images/image.h"
#include "os/os.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 32 };

/* ---- filling ---- */

qn_status qn_image_tree_class(qn_image_tree *tree, const char *name, int32_t *class) {
    for (size_t i = tree->n_classes; i-- > 0;) {
        *class = (int32_t)i;
        if (strcmp(tree->classes[i], name) == 0)
            return QN_OK;
    }
    const char *kept = qn_arena_text(&tree->base->arena, name);
    if (!kept)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(tree->base->options.allocator, &tree->classes, &tree->class_capacity,
                   tree->n_classes + 1, sizeof *tree->classes));
    *class = (int32_t)tree->n_classes;
    tree->classes[tree->n_classes++] = kept;
    return QN_OK;
}

qn_status qn_image_tree_add(qn_image_tree *tree, qn_split split, const char *name, int32_t class) {
    qn_image_list *list = &tree->lists[split];
    const char *kept = qn_arena_text(&tree->base->arena, name);
    if (!kept)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(tree->base->options.allocator, &list->entries, &list->capacity, list->n + 1,
                   sizeof *list->entries));
    list->entries[list->n++] = (qn_image_entry){.name = kept, .class = class};
    return QN_OK;
}

static int by_text(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int by_class(const void *left, const void *right) {
    const qn_image_entry *a = left, *b = right;
    return a->class != b->class ? (a->class > b->class) - (a->class < b->class)
                                : strcmp(a->name, b->name);
}

qn_status qn_image_tree_sort(qn_image_tree *tree) {
    const size_t n = tree->n_classes;
    qn_arena *arena = &tree->base->arena;
    const char **sorted = qn_arena_allocate(arena, n + 1, sizeof *sorted);
    int32_t *numbers = qn_arena_allocate(arena, n + 1, sizeof *numbers);
    if (!sorted || !numbers)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < n; i++)
        sorted[i] = tree->classes[i];
    qsort(sorted, n, sizeof *sorted, by_text);
    for (size_t i = 0; i < n; i++) {
        const char **at = bsearch(&tree->classes[i], sorted, n, sizeof *sorted, by_text);
        numbers[i] = (int32_t)(at - sorted);
    }
    for (size_t i = 0; i < n; i++)
        tree->classes[i] = sorted[i];
    for (int split = 0; split < QN_SPLITS; split++) {
        qn_image_list *list = &tree->lists[split];
        for (size_t i = 0; i < list->n; i++)
            if (list->entries[i].class >= 0)
                list->entries[i].class = numbers[list->entries[i].class];
        if (list->n > 0)
            qsort(list->entries, list->n, sizeof *list->entries, by_class);
    }
    return QN_OK;
}

void qn_image_tree_deinit(qn_image_tree *tree) {
    const qn_allocator *allocator = tree->base->options.allocator;
    qn_release(allocator, tree->classes, tree->class_capacity, sizeof *tree->classes);
    for (int split = 0; split < QN_SPLITS; split++)
        qn_release(allocator, tree->lists[split].entries, tree->lists[split].capacity,
                   sizeof *tree->lists[split].entries);
}

/* ---- names ---- */

/* What systems and their programs leave in folders: nobody's pictures. */
static bool is_of_system(const char *name) {
    static const char *const names[] = {"Thumbs.db", "desktop.ini", "__MACOSX", "@eaDir",
                                        "$RECYCLE.BIN"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (qn_text_is_same(names[i], name))
            return true;
    }
    return name[0] == '.';
}

static qn_status leave_out(qn_image_tree *tree, const char *kind, const char *why,
                           const char *name) {
    return qn_data_facts_count(tree->base, &tree->base->facts.dropped, kind, why, name, 1);
}

static qn_status leave_file_out(qn_image_tree *tree, const char *name) {
    const char *dot = strrchr(name, '.');
    char kind[64];
    snprintf(kind, sizeof kind, dot ? "%.40s" : "without an ending", dot ? dot : "");
    return leave_out(tree, kind, "no picture", name);
}

/* ---- walking ---- */

/* A folder below the root of a split. */
typedef struct walk {
    qn_image_tree *tree;
    qn_split split;
    const char *below; /* path below the root; "": the root itself */
    int depth;
    int32_t class; /* -1: pictures here are of none */
    bool *has_pictures;
} walk;

static qn_status walk_folder(const walk *w);

/* The class of pictures that lie in a folder: by its first name, its last or all. */
static const char *class_of(const qn_image_tree *tree, const char *below, char *text,
                            size_t bytes) {
    const char *slash = strchr(below, '/'), *last = strrchr(below, '/');
    switch (tree->base->options.classes_from) {
    case QN_CLASSES_FROM_LEAF:
        return last ? last + 1 : below;
    case QN_CLASSES_FROM_PATH:
        return below;
    case QN_CLASSES_FROM_TOP:
        break;
    }
    snprintf(text, bytes, "%.*s", slash ? (int)(slash - below) : (int)strlen(below), below);
    return text;
}

static qn_status find_class(const walk *w, const char *below, int32_t *class) {
    char text[NAME_MAX + 1];
    return qn_image_tree_class(w->tree, class_of(w->tree, below, text, sizeof text), class);
}

static qn_status visit_folder(const walk *w, const char *below) {
    walk deeper = *w;
    deeper.below = below;
    deeper.depth++;
    deeper.class = -1;
    if (deeper.depth > DEEPEST)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s/%s: more than %d folders within each other; a link may lead back",
                       w->tree->lists[w->split].root, below, DEEPEST);
    /* A class of the first level is one even without pictures, which is said later. */
    if (deeper.depth == 1 && w->split == QN_TRAIN &&
        w->tree->base->options.classes_from == QN_CLASSES_FROM_TOP)
        QN_TRY(find_class(w, below, &deeper.class));
    return walk_folder(&deeper);
}

static qn_status visit(void *context, const char *name, bool is_folder) {
    walk *w = context;
    char below[PATH_MAX];
    if (is_of_system(name))
        return QN_OK;
    const int length =
        snprintf(below, sizeof below, "%s%s%s", w->below, *w->below ? "/" : "", name);
    if (length < 0 || (size_t)length >= sizeof below)
        return qn_fail(QN_ERROR_FORMAT, "%s: the path is too long", below);
    if (is_folder)
        return visit_folder(w, below);
    if (!qn_image_has_name(name))
        return leave_file_out(w->tree, below);
    if (w->depth == 0)
        return leave_out(w->tree, "pictures", "in no class folder", below);
    if (w->class < 0)
        QN_TRY(find_class(w, w->below, &w->class));
    return qn_image_tree_add(w->tree, w->split, below, w->class);
}

static qn_status walk_folder(const walk *w) {
    const char *root = w->tree->lists[w->split].root;
    char path[PATH_MAX];
    walk here = *w;
    const int length = snprintf(path, sizeof path, "%s%s%s", root, *w->below ? "/" : "", w->below);
    if (length < 0 || (size_t)length >= sizeof path)
        return qn_fail(QN_ERROR_FORMAT, "%s: the path is too long", path);
    return qn_folder_list(w->tree->base->options.allocator, path, visit, &here);
}

/* ---- splits ---- */

/* What the folder holds. */
typedef struct survey {
    qn_image_tree *tree;
    const char *folder;
    const char *names[QN_SPLITS]; /* of the folders that are splits; null: there is none */
    const char *other;            /* the first other folder, or null */
    int64_t n_others;
} survey;

static qn_status look_for_folder(void *context, const char *name, bool is_folder) {
    *(bool *)context |= is_folder && !is_of_system(name);
    return QN_OK;
}

static qn_status survey_entry(void *context, const char *name, bool is_folder) {
    survey *s = context;
    const qn_source_base *base = s->tree->base;
    bool has_folders = false;
    qn_split split;
    if (!is_folder || is_of_system(name))
        return QN_OK;
    const char *kept = qn_arena_text(&s->tree->base->arena, name);
    const char *path = qn_arena_format(&s->tree->base->arena, "%s/%s", s->folder, name);
    if (!kept || !path)
        return QN_ERROR_MEMORY;
    if (qn_split_of_name(name, &split))
        QN_TRY(qn_folder_list(base->options.allocator, path, look_for_folder, &has_folders));
    if (has_folders && s->names[split])
        return qn_fail(QN_ERROR_FORMAT,
                       "%s holds %s and %s, which say the same; leave one, or put one into the "
                       "other",
                       s->folder, s->names[split], kept);
    if (has_folders)
        s->names[split] = kept;
    s->other = has_folders || s->other ? s->other : kept;
    s->n_others += !has_folders;
    return QN_OK;
}

static bool has_splits(const survey *s) {
    return s->names[QN_TRAIN] || s->names[QN_TEST] || s->names[QN_VALIDATION];
}

static qn_status set_root(const survey *s, qn_split split, const char *name) {
    qn_image_list *list = &s->tree->lists[split];
    list->root = qn_arena_format(&s->tree->base->arena, "%s/%s", s->folder, name);
    return list->root ? QN_OK : QN_ERROR_MEMORY;
}

/* Class folders beside folders of splits are either. */
static qn_status check_others(const survey *s) {
    const char *split = s->names[QN_TEST] ? s->names[QN_TEST] : s->names[QN_VALIDATION];
    if (s->n_others == 0)
        return QN_OK;
    if (!s->names[QN_TRAIN])
        return qn_fail(QN_ERROR_FORMAT,
                       "%s holds %s, with folders in it, beside %s: is %s a class, or a part to "
                       "test on? Move the classes to train on into %s/train, or give %s another "
                       "name",
                       s->folder, split, s->other, split, s->folder, split);
    return qn_data_facts_count(s->tree->base, &s->tree->base->facts.dropped, "folders",
                               "beside those of the splits", s->other, s->n_others);
}

/* Without a test folder, what validates elsewhere is what is tested on here. */
static qn_status set_roots(const survey *s) {
    const char *const *names = s->names;
    qn_source_base *base = s->tree->base;
    const bool tests_val = names[QN_VALIDATION] && !names[QN_TEST];
    QN_TRY(check_others(s));
    if (names[QN_TRAIN])
        QN_TRY(set_root(s, QN_TRAIN, names[QN_TRAIN]));
    if (names[QN_TEST] || tests_val)
        QN_TRY(set_root(s, QN_TEST, tests_val ? names[QN_VALIDATION] : names[QN_TEST]));
    if (names[QN_VALIDATION] && !tests_val)
        QN_TRY(set_root(s, QN_VALIDATION, names[QN_VALIDATION]));
    if (tests_val)
        QN_TRY(qn_data_facts_note(base, "%s is what is tested on, as there is no folder test",
                                  names[QN_VALIDATION]));
    return QN_OK;
}

static qn_status find_roots(qn_image_tree *tree, const char *folder) {
    survey s = {.tree = tree, .folder = folder};
    QN_TRY(qn_folder_list(tree->base->options.allocator, folder, survey_entry, &s));
    if (has_splits(&s))
        return set_roots(&s);
    tree->lists[QN_TRAIN].root = folder;
    return QN_OK;
}

/* ---- all ---- */

/* Classes of the training set are all there are. */
static qn_status check_classes(const qn_image_tree *tree, size_t n_known, qn_split split) {
    const qn_image_list *list = &tree->lists[split];
    for (size_t i = 0; i < list->n; i++) {
        if ((size_t)list->entries[i].class >= n_known)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s/%s: a class (%s) that the training set does not have", list->root,
                           list->entries[i].name, tree->classes[list->entries[i].class]);
    }
    return QN_OK;
}

/* A test folder whose pictures are of no class says nothing. */
static void drop_empty(qn_image_tree *tree, qn_split split) {
    qn_image_list *list = &tree->lists[split];
    if (!list->root || list->n > 0)
        return;
    qn_data_tell(tree->base, 1, "%s holds no picture in a class folder and is not used",
                 list->root);
    list->root = NULL;
}

static qn_status list_splits(qn_image_tree *tree) {
    size_t n_known = 0;
    for (int split = 0; split < QN_SPLITS; split++) {
        const walk w = {.tree = tree, .split = (qn_split)split, .below = "", .class = -1};
        if (!tree->lists[split].root)
            continue;
        QN_TRY(walk_folder(&w));
        if (split == QN_TRAIN)
            n_known = tree->n_classes;
        else if (tree->lists[QN_TRAIN].root)
            QN_TRY(check_classes(tree, n_known, (qn_split)split));
    }
    drop_empty(tree, QN_TEST);
    drop_empty(tree, QN_VALIDATION);
    return QN_OK;
}

/* "1 .txt (no pictures: notes.txt), 2 ..." in one line. */
static void tell_left_out(const qn_image_tree *tree) {
    const qn_count_facts *dropped = &tree->base->facts.dropped;
    char text[512] = "";
    int64_t n = 0;
    for (size_t i = 0; i < dropped->n; i++) {
        const qn_count_fact *d = &dropped->list[i];
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%lld %s (%s: %.60s)", n > 0 ? ", " : "",
                 (long long)d->n, d->kind, d->why, d->example);
        n += d->n;
    }
    if (n > 0)
        qn_data_tell(tree->base, 0, "%s: left out %lld: %s", tree->base->argument, (long long)n,
                     text);
}

/* One class folder that holds folders itself: they may be the classes. */
static qn_status check_level(const qn_image_tree *tree, const char *folder) {
    const qn_image_list *list = &tree->lists[QN_TRAIN];
    bool are_deeper = list->n > 0 && tree->n_classes == 1 && list->root == folder;
    for (size_t i = 0; i < list->n && are_deeper; i++)
        are_deeper = strchr(list->entries[i].name, '/') != strrchr(list->entries[i].name, '/');
    if (!are_deeper)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT,
                   "%s holds one class folder, %s, whose pictures lie in folders below; if those "
                   "are the classes, use images:%s/%s, or --classes-from leaf",
                   folder, tree->classes[0], folder, tree->classes[0]);
}

static qn_status list_folder(qn_image_tree *tree, const char *folder) {
    QN_TRY(find_roots(tree, folder));
    QN_TRY(list_splits(tree));
    tell_left_out(tree);
    if (tree->n_classes == 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s holds no class folders (CLASS/*.png, *.jpg); labels in a table are "
                       "read with images:%s,LABELS.csv",
                       folder, folder);
    QN_TRY(check_level(tree, folder));
    QN_TRY(qn_image_groups_find(tree, folder));
    QN_TRY(qn_image_tree_sort(tree));
    static const char *const levels[] = {"the folder below", "the folder that a picture lies in",
                                         "all folders above a picture"};
    return qn_data_facts_set(tree->base, &tree->base->facts.target, "%s",
                             levels[tree->base->options.classes_from]);
}

/* DIR[,LABELS.csv[,label=NAME]]; a folder whose name has a comma is one. */
qn_status qn_image_tree_list(qn_image_tree *tree) {
    static const char mark[] = ",label=";
    const char *argument = tree->base->argument;
    const char *label = strstr(argument, mark);
    const int n = label ? (int)(label - argument) : (int)strlen(argument);
    char *folder = qn_arena_format(&tree->base->arena, "%.*s", n, argument);
    if (!folder)
        return QN_ERROR_MEMORY;
    char *comma = strrchr(folder, ',');
    if (!comma || qn_path_is_folder(argument))
        return list_folder(tree, argument);
    *comma = 0;
    return qn_image_labels_list(tree, folder, comma + 1, label ? label + strlen(mark) : NULL);
}
