/* Which pictures of which classes lie below a folder, and in which split: from the names of folders
 * (tree.c), or from a table of files and labels (labels.c). Nothing is decoded here. */
#ifndef QN_DATA_IMAGES_TREE_H
#define QN_DATA_IMAGES_TREE_H

#include "data/source.h"

typedef struct qn_image_entry {
    const char *name; /* path below the list's root, in the source's arena */
    int32_t class;    /* -1: none (several.h) */
    int32_t row;      /* in the store (scan.h) */
    uint8_t is_told;  /* that it cannot be read any more; set atomically */
    uint64_t content; /* a hash that pictures of the same pixels share (image.h) */
    uint64_t group;   /* a hash of the group's name (options.group); 0: none */
} qn_image_entry;

/* The files of one split, sorted by class, then name. */
typedef struct qn_image_list {
    const char *root;        /* in the source's arena; null: there is no such split */
    qn_image_entry *entries; /* (n) of capacity */
    size_t n, capacity;
    uint64_t *labels; /* (n, n_words) a bit for each label, in the arena; null: a picture has a
                         class (several.h) */
    size_t n_words;
} qn_image_list;

/* Classes are sorted by name; every class of an entry is below n_classes. */
typedef struct qn_image_tree {
    qn_source_base *base;
    const char **classes; /* (n_classes) of class_capacity; names in the arena */
    size_t n_classes, class_capacity;
    bool is_of_table; /* classes are those of a table, not names of folders */
    qn_image_list lists[QN_SPLITS];
} qn_image_tree;

/* Lists the pictures of base->argument: DIR, or DIR,LABELS.csv[,label=NAME]. tree: its base set,
 * all else zero. What fails leaves it to deinit. */
qn_status qn_image_tree_list(qn_image_tree *tree);
void qn_image_tree_deinit(qn_image_tree *tree);

/* For those who fill it: the number of a class by its name, a new one if there is none yet; an
 * entry more; and, at the end, the order. */
qn_status qn_image_tree_class(qn_image_tree *tree, const char *name, int32_t *class);
qn_status qn_image_tree_add(qn_image_tree *tree, qn_split split, const char *name, int32_t class);
qn_status qn_image_tree_sort(qn_image_tree *tree);

/* Lists the pictures that a table of files and labels names, below folder. label: name of its
 * column; null: to be found. */
qn_status qn_image_labels_list(qn_image_tree *tree, const char *folder, const char *table,
                               const char *label);

/* Sets the groups of entries that lie in folders, by options.group (groups.c). */
qn_status qn_image_groups_find(qn_image_tree *tree, const char *folder);

/* Tells of groups that lie in training and in what it is tested on, where the data come divided. */
qn_status qn_image_groups_check(const qn_image_tree *tree);

#endif
