/* A folder of images, whose splits and classes tree.h finds; a part of the training samples is held
 * out where nothing is there to test on.
 * Files may have any size that image.h decodes; they are fitted (short side resized, centre
 * cropped) once, when the folder is scanned (scan.h). Bytes go to the network as 0 to 1, without
 * statistics. Only the list of names is in memory. */
#include "base/status.h"
#include "data/images/image.h"
#include "data/images/scan.h"
#include "data/images/several.h"
#include "data/source.h"
#include "os/os.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

typedef struct images_source {
    qn_source_base base;
    qn_image_tree tree;
    qn_shape size; /* samples are delivered like that */
    bool is_size_set;
    qn_image_store store; /* pixels of scanned_size */
    qn_shape scanned_size;
    const qn_table *table; /* of labels; null: a picture has one class */
} images_source;

/* ---- classes without pictures ---- */

/* What decides which classes there are: the training pictures, or those to test on where there are
 * no others. */
static const qn_image_list *find_deciding(const qn_image_tree *tree) {
    const qn_image_list *lists = tree->lists;
    return lists[QN_TRAIN].root && lists[QN_TRAIN].n > 0 ? &lists[QN_TRAIN]
           : lists[QN_TEST].root                         ? &lists[QN_TEST]
                                                         : &lists[QN_VALIDATION];
}

/* Numbers classes anew without those that no picture is left of. */
static qn_status count_classes(images_source *images, int32_t *numbers) {
    qn_image_tree *tree = &images->tree;
    const qn_image_list *list = find_deciding(tree);
    size_t n_kept = 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->entries[i].class >= 0)
            numbers[list->entries[i].class] = 1;
    for (size_t i = 0; i < tree->n_classes; i++) {
        if (numbers[i]) {
            tree->classes[n_kept] = tree->classes[i];
            numbers[i] = (int32_t)n_kept++;
            continue;
        }
        numbers[i] = -1;
        if (images->base.options.strict)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s/%s holds no picture; add some or remove the folder, or leave "
                           "--strict out to skip it",
                           list->root, tree->classes[i]);
        qn_data_tell(&images->base, 1, "%s/%s has no readable image and is not used as a class",
                     list->root, tree->classes[i]);
    }
    tree->n_classes = n_kept;
    return n_kept > 0 ? QN_OK
                      : qn_fail(QN_ERROR_FORMAT, "%s holds no pictures that can be read",
                                images->base.argument);
}

static qn_status drop_empty_classes(images_source *images) {
    qn_image_tree *tree = &images->tree;
    const size_t n = tree->n_classes;
    int32_t *numbers = qn_arena_allocate(&images->base.arena, n, sizeof *numbers);
    if (!numbers)
        return QN_ERROR_MEMORY;
    memset(numbers, 0, n * sizeof *numbers);
    QN_TRY(count_classes(images, numbers));
    const bool are_labels = qn_images_have_labels(&images->base);
    for (int split = 0; split < QN_SPLITS && tree->n_classes < n; split++) {
        qn_image_list *list = &tree->lists[split];
        size_t n_kept = 0;
        for (size_t i = 0; i < list->n; i++) {
            const int32_t class = list->entries[i].class;
            list->entries[n_kept] = list->entries[i];
            list->entries[n_kept].class = class >= 0 ? numbers[class] : -1;
            n_kept += list->entries[n_kept].class >= 0 || are_labels;
        }
        list->n = n_kept;
    }
    return QN_OK;
}

/* ---- source ---- */

static qn_status images_read_class(void *self, qn_split split, int64_t index, int32_t *class) {
    const images_source *images = self;
    *class = images->tree.lists[split].entries[index].class;
    return QN_OK;
}

static qn_status load(const images_source *images, const qn_image_list *list, size_t i, void *x) {
    char path[PATH_MAX];
    if (!qn_image_path(list, &list->entries[i], path, sizeof path))
        return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", path);
    return qn_image_load(path, &images->size, true, x);
}

/* A file that could be read when training began and cannot now is replaced by the next of its
 * class, or labels, that can: hours of training do not end with it, and what stands for it does not
 * depend on when it went. */
static qn_status load_other(const images_source *images, const qn_image_list *list, size_t first,
                            void *x) {
    qn_image_entry *entries = list->entries;
    qn_status status = load(images, list, first, x);
    for (size_t i = first + 1; status != QN_OK && status != QN_ERROR_MEMORY; i++) {
        if (!__atomic_exchange_n(&entries[first].is_told, 1, __ATOMIC_RELAXED))
            qn_data_tell(&images->base, 1, "%s; another of its class stands for it",
                         qn_error_message());
        while (i % list->n != first && !qn_images_are_alike(list, i % list->n, first))
            i++;
        if (i % list->n == first)
            return status;
        status = load(images, list, i % list->n, x);
    }
    return status;
}

static qn_status images_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    const images_source *images = self;
    const qn_image_list *list = &images->tree.lists[split];
    const qn_image_entry *entry = &list->entries[index];
    if (images->table)
        qn_images_put_labels(list, (size_t)index, images->table->n_targets, y);
    else
        memcpy(y, &entry->class, sizeof entry->class);
    if (images->store.file && qn_shape_equal(images->size, images->scanned_size))
        return qn_file_read(images->store.file, entry->row * (int64_t)images->store.row_bytes, x,
                            images->store.row_bytes);
    return load_other(images, list, (size_t)index, x);
}

static qn_status images_set_size(void *self, int64_t h, int64_t w, int64_t c) {
    images_source *images = self;
    qn_shape size = QN_SHAPE(h, w, c);
    if (images->is_size_set && !qn_shape_equal(size, images->size))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "images:%s is in use with another size; open it once more for this one",
                       images->base.argument);
    if (h < 1 || w < 1 || h > 65535 || w > 65535 || (c != 1 && c != 3))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "images cannot be %" PRId64 "x%" PRId64 "x%" PRId64 "; channels are 1 or 3",
                       h, w, c);
    images->size = size;
    images->is_size_set = true;
    return QN_OK;
}

/* A tenth, but some 200 where there are few: of 25 pictures a test would say little. */
static double choose_part(int64_t n) {
    const double wanted = 200.0 / (double)n, least = 0.1, most = 0.25;
    return wanted < least ? least : wanted > most ? most : wanted;
}

static qn_status images_look(qn_source_base *base, int64_t index, uint64_t *content,
                             int32_t *class) {
    const images_source *images = (const images_source *)base;
    const qn_image_entry *entry = &images->tree.lists[QN_TRAIN].entries[index];
    *content = entry->group ? entry->group : entry->content;
    *class = images->table ? 0 : entry->class;
    return QN_OK;
}

static bool images_file_of(const qn_source_base *base, qn_split split, int64_t index,
                           qn_sample_file *file) {
    const images_source *images = (const images_source *)base;
    const qn_image_list *list = &images->tree.lists[split];
    const qn_image_entry *entry = &list->entries[index];
    const char *class = entry->class >= 0 ? images->tree.classes[entry->class] : "";
    const size_t n = strlen(class);
    const bool is_folder = n > 0 && !images->tree.is_of_table && !images->table &&
                           strncmp(entry->name, class, n) == 0 && entry->name[n] == '/';
    *file = (qn_sample_file){list->root, entry->name, is_folder ? class : NULL};
    return true;
}

/* Kinds of pictures, by the endings of their names. */
static qn_status count_formats(images_source *images) {
    for (int split = 0; split < QN_SPLITS; split++) {
        const qn_image_list *list = &images->tree.lists[split];
        for (size_t i = 0; i < list->n; i++)
            QN_TRY(qn_data_facts_count(&images->base, &images->base.facts.formats,
                                       qn_image_format_name(list->entries[i].name), NULL,
                                       list->entries[i].name, 1));
    }
    return QN_OK;
}

static const char *name_split(const qn_image_list *lists) {
    return !lists[QN_TRAIN].root ? "a folder that is to test on alone"
           : lists[QN_TEST].root ? "the folders, or the table, that the data come in"
                                 : NULL;
}

static void set_splits(images_source *images, qn_data_source *source) {
    qn_source_base *base = &images->base;
    const qn_image_list *lists = images->tree.lists;
    for (int split = 0; split < QN_SPLITS; split++)
        source->n_samples[split] = (int64_t)lists[split].n;
    base->facts.split_by = name_split(lists);
    base->needs_no_training = !lists[QN_TRAIN].root;
    if (lists[QN_TEST].root)
        base->options.holdout = 0; /* its test folder is the test set */
    else
        base->holdout_part = choose_part(source->n_samples[QN_TRAIN]);
    if (lists[QN_VALIDATION].root && base->options.validation > 0)
        qn_data_tell(base, 0, "%s validates: --validation holds nothing out",
                     lists[QN_VALIDATION].root);
    if (lists[QN_VALIDATION].root)
        base->options.validation = 0;
}

static qn_status list_and_scan(images_source *images) {
    qn_image_tree *tree = &images->tree;
    tree->base = &images->base;
    QN_TRY(qn_image_tree_list(tree));
    QN_TRY(qn_image_groups_check(tree));
    QN_TRY(qn_images_scan(&images->base, tree->lists, &images->size, &images->store));
    QN_TRY(drop_empty_classes(images));
    QN_TRY(count_formats(images));
    return qn_images_have_labels(&images->base) ? qn_images_join(tree, &images->table) : QN_OK;
}

static void set_labels(const images_source *images, qn_data_source *source) {
    source->read_class = NULL;
    source->n_targets = images->table->n_targets;
    source->preparation.table = images->table;
    source->preparation.n_classes = 0;
    source->preparation.class_names = NULL;
}

static qn_status check_task(const qn_source_base *base) {
    const char *task = base->options.task;
    return task && strcmp(task, "regression") == 0
               ? qn_fail(QN_ERROR_ARGUMENT,
                         "--task regression takes numbers of a table (csv:FILE) as amounts; "
                         "images:%s has classes, or labels",
                         base->argument)
               : QN_OK;
}

static qn_status images_open(qn_source_base *base, qn_data_source *source) {
    images_source *images = (images_source *)base;
    QN_TRY(check_task(base));
    const qn_shape *wanted = &base->options.sample;
    images->size = wanted->rank == 3 ? *wanted : QN_SHAPE(32, 32, 3);
    images->scanned_size = images->size;
    QN_TRY(list_and_scan(images));
    set_splits(images, source);
    base->look = images_look;
    base->file_of = images_file_of;
    source->sample = QN_SHAPE(0, 0, 0);
    source->dtype = QN_U8;
    source->read = images_read;
    source->read_class = images_read_class;
    source->set_size = images_set_size;
    source->preparation = (qn_preparation){.sample = images->size,
                                           .centre_crop = true,
                                           .n_classes = (int)images->tree.n_classes,
                                           .class_names = images->tree.classes};
    if (images->table) {
        base->facts.target_kind = QN_TARGET_LABELS;
        set_labels(images, source);
    }
    return QN_OK;
}

static void images_release(qn_source_base *base) {
    images_source *images = (images_source *)base;
    qn_file_close(images->store.file);
    if (images->tree.base)
        qn_image_tree_deinit(&images->tree);
}

const qn_data_format qn_format_images = {.name = "images",
                                         .usage = "DIR[,LABELS.csv]",
                                         .self_bytes = sizeof(images_source),
                                         .open = images_open,
                                         .release = images_release,
                                         .has_groups = true,
                                         .has_labels = true};
