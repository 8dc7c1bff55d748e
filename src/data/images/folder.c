/* A folder of images: train/CLASS/FILE and test/CLASS/FILE, or CLASS/FILE with a part held out by
 * seed (also from train/ if there is no test/). Classes are the folders in order of their names.
 * Files may have any size that image.h decodes; they are fitted (short side resized, centre
 * cropped) once, when the folder is scanned (scan.h). Bytes go to the network as 0 to 1, without
 * statistics. Only the list of names is in memory. */
#include "base/status.h"
#include "data/images/image.h"
#include "data/images/scan.h"
#include "data/source.h"
#include "os/os.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

typedef struct images_source {
    qn_source_base base;
    const char **classes; /* (n_classes) of class_capacity; names in the arena */
    size_t n_classes, class_capacity;
    qn_image_list lists[2]; /* by split; the second is empty where samples are held out */
    qn_shape size;          /* samples are delivered like that */
    bool is_size_set;
    qn_image_store store; /* pixels of scanned_size */
    qn_shape scanned_size;
    int64_t n_ignored;
    const char *first_ignored; /* in the arena */
} images_source;

static qn_status ignore(images_source *images, const char *name) {
    if (images->n_ignored++ == 0) {
        images->first_ignored = qn_arena_text(&images->base.arena, name);
        return images->first_ignored ? QN_OK : QN_ERROR_MEMORY;
    }
    return QN_OK;
}

/* ---- listing ---- */

typedef struct list_context {
    images_source *images;
    qn_image_list *list;
    int32_t class;
} list_context;

static qn_status visit_file(void *context, const char *name, bool is_folder) {
    list_context *c = context;
    qn_image_list *list = c->list;
    if (is_folder || name[0] == '.' || !qn_image_has_name(name))
        return ignore(c->images, name);
    const char *kept = qn_arena_text(&c->images->base.arena, name);
    if (!kept)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(c->images->base.options.allocator, &list->entries, &list->capacity, list->n + 1,
                   sizeof *list->entries));
    list->entries[list->n++] = (qn_image_entry){.name = kept, .class = c->class};
    return QN_OK;
}

static qn_status visit_class(void *context, const char *name, bool is_folder) {
    images_source *images = context;
    if (!is_folder || name[0] == '.')
        return ignore(images, name);
    QN_TRY(qn_grow(images->base.options.allocator, &images->classes, &images->class_capacity,
                   images->n_classes + 1, sizeof *images->classes));
    const char *kept = qn_arena_text(&images->base.arena, name);
    if (!kept)
        return QN_ERROR_MEMORY;
    images->classes[images->n_classes++] = kept;
    return QN_OK;
}

static qn_status visit_test_class(void *context, const char *name, bool is_folder) {
    images_source *images = context;
    if (!is_folder || name[0] == '.')
        return ignore(images, name);
    for (size_t i = 0; i < images->n_classes; i++)
        if (strcmp(images->classes[i], name) == 0)
            return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "%s/%s: a class that the training set does not have",
                   images->lists[QN_TEST].root, name);
}

/* Lists the files of all classes below the root of a split. */
static qn_status list_split(images_source *images, qn_split split) {
    qn_image_list *list = &images->lists[split];
    qn_arena *arena = &images->base.arena;
    for (size_t i = 0; i < images->n_classes; i++) {
        list_context context = {images, list, (int32_t)i};
        const char *folder = qn_arena_format(arena, "%s/%s", list->root, images->classes[i]);
        if (!folder)
            return QN_ERROR_MEMORY;
        if (split == QN_TEST && !qn_path_is_folder(folder))
            continue;
        QN_TRY(qn_folder_list(images->base.options.allocator, folder, visit_file, &context));
    }
    return QN_OK;
}

/* The roots of the splits: the second is null where there is no test folder. */
static qn_status find_roots(images_source *images) {
    qn_arena *arena = &images->base.arena;
    const char *folder = images->base.argument;
    const char *train = qn_arena_format(arena, "%s/train", folder);
    const char *test = qn_arena_format(arena, "%s/test", folder);
    if (!train || !test)
        return QN_ERROR_MEMORY;
    bool has_train = qn_path_is_folder(train);
    images->lists[QN_TRAIN].root = has_train ? train : folder;
    images->lists[QN_TEST].root = has_train && qn_path_is_folder(test) ? test : NULL;
    return QN_OK;
}

static qn_status list_all(images_source *images) {
    const qn_allocator *allocator = images->base.options.allocator;
    const qn_image_list *train = &images->lists[QN_TRAIN], *test = &images->lists[QN_TEST];
    QN_TRY(find_roots(images));
    QN_TRY(qn_folder_list(allocator, train->root, visit_class, images));
    if (images->n_classes == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s holds no class folders (CLASS/*.png, *.jpg)",
                       train->root);
    QN_TRY(list_split(images, QN_TRAIN));
    if (test->root) {
        QN_TRY(qn_folder_list(allocator, test->root, visit_test_class, images));
        QN_TRY(list_split(images, QN_TEST));
    }
    if (images->n_ignored > 0)
        qn_data_tell(&images->base, 0,
                     "%s: ignored %" PRId64 " files that are no pictures of a class, "
                     "the first is %s",
                     images->base.argument, images->n_ignored, images->first_ignored);
    return QN_OK;
}

/* ---- classes without pictures ---- */

/* Numbers classes anew without those that no training picture is left of. */
static qn_status count_classes(images_source *images, int32_t *numbers) {
    const qn_image_list *train = &images->lists[QN_TRAIN];
    size_t n_kept = 0;
    for (size_t i = 0; i < train->n; i++)
        numbers[train->entries[i].class] = 1;
    for (size_t i = 0; i < images->n_classes; i++) {
        if (numbers[i]) {
            images->classes[n_kept] = images->classes[i];
            numbers[i] = (int32_t)n_kept++;
            continue;
        }
        numbers[i] = -1;
        if (images->base.options.strict)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s/%s holds no picture; add some or remove the folder, or leave "
                           "--strict out to skip it",
                           train->root, images->classes[i]);
        qn_data_tell(&images->base, 1, "%s/%s has no readable image and is not used as a class",
                     train->root, images->classes[i]);
    }
    images->n_classes = n_kept;
    return n_kept > 0 ? QN_OK
                      : qn_fail(QN_ERROR_FORMAT, "%s holds no pictures that can be read",
                                images->base.argument);
}

static qn_status drop_empty_classes(images_source *images) {
    const size_t n = images->n_classes;
    int32_t *numbers = qn_arena_allocate(&images->base.arena, n, sizeof *numbers);
    if (!numbers)
        return QN_ERROR_MEMORY;
    memset(numbers, 0, n * sizeof *numbers);
    QN_TRY(count_classes(images, numbers));
    for (int split = 0; split < 2 && images->n_classes < n; split++) {
        qn_image_list *list = &images->lists[split];
        size_t n_kept = 0;
        for (size_t i = 0; i < list->n; i++) {
            list->entries[n_kept] = list->entries[i];
            list->entries[n_kept].class = numbers[list->entries[i].class];
            n_kept += list->entries[n_kept].class >= 0;
        }
        list->n = n_kept;
    }
    return QN_OK;
}

/* ---- source ---- */

static size_t find_entry(const images_source *images, qn_split split, int64_t index,
                         const qn_image_list **list) {
    *list = &images->lists[split];
    return (size_t)index;
}

static qn_status images_read_class(void *self, qn_split split, int64_t index, int32_t *class) {
    const qn_image_list *list;
    const size_t i = find_entry(self, split, index, &list);
    *class = list->entries[i].class;
    return QN_OK;
}

static qn_status load(const images_source *images, const qn_image_list *list, size_t i, void *x) {
    char path[PATH_MAX];
    if (!qn_image_path(list, images->classes, &list->entries[i], path, sizeof path))
        return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", path);
    return qn_image_load(path, &images->size, true, x);
}

/* A file that could be read when training began and cannot now is replaced by the next of its class
 * that can: hours of training do not end with it, and what stands for it does not depend on when
 * it went. */
static qn_status load_other(const images_source *images, const qn_image_list *list, size_t first,
                            void *x) {
    qn_image_entry *entries = list->entries;
    qn_status status = load(images, list, first, x);
    for (size_t i = first + 1; status != QN_OK && status != QN_ERROR_MEMORY; i++) {
        if (!__atomic_exchange_n(&entries[first].is_told, 1, __ATOMIC_RELAXED))
            qn_data_tell(&images->base, 1, "%s; another of its class stands for it",
                         qn_error_message());
        if (i == list->n || entries[i].class != entries[first].class)
            for (i = first; i > 0 && entries[i - 1].class == entries[first].class;)
                i--;
        if (i == first)
            return status;
        status = load(images, list, i, x);
    }
    return status;
}

static qn_status images_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    const images_source *images = self;
    const qn_image_list *list;
    const size_t i = find_entry(images, split, index, &list);
    const qn_image_entry *entry = &list->entries[i];
    memcpy(y, &entry->class, sizeof entry->class);
    if (images->store.file && qn_shape_equal(images->size, images->scanned_size))
        return qn_file_read(images->store.file, entry->row * (int64_t)images->store.row_bytes, x,
                            images->store.row_bytes);
    return load_other(images, list, i, x);
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
    const qn_image_entry *entry = &images->lists[QN_TRAIN].entries[index];
    *content = entry->content;
    *class = entry->class;
    return QN_OK;
}

static qn_status images_open(qn_source_base *base, qn_data_source *source) {
    images_source *images = (images_source *)base;
    const qn_shape *wanted = &base->options.sample;
    images->size = wanted->rank == 3 ? *wanted : QN_SHAPE(32, 32, 3);
    images->scanned_size = images->size;
    QN_TRY(list_all(images));
    QN_TRY(qn_images_scan(base, images->classes, images->lists, &images->size, &images->store));
    QN_TRY(drop_empty_classes(images));
    source->n_samples[QN_TRAIN] = (int64_t)images->lists[QN_TRAIN].n;
    source->n_samples[QN_TEST] = (int64_t)images->lists[QN_TEST].n;
    if (images->lists[QN_TEST].root)
        base->options.holdout = 0; /* its test folder is the test set, even an empty one */
    else
        base->holdout_part = choose_part(source->n_samples[QN_TRAIN]);
    base->look = images_look;
    source->sample = QN_SHAPE(0, 0, 0);
    source->dtype = QN_U8;
    source->read = images_read;
    source->read_class = images_read_class;
    source->set_size = images_set_size;
    source->preparation = (qn_preparation){.sample = images->size,
                                           .centre_crop = true,
                                           .n_classes = (int)images->n_classes,
                                           .class_names = images->classes};
    return QN_OK;
}

static void images_release(qn_source_base *base) {
    images_source *images = (images_source *)base;
    const qn_allocator *allocator = base->options.allocator;
    qn_file_close(images->store.file);
    qn_release(allocator, images->classes, images->class_capacity, sizeof *images->classes);
    for (int split = 0; split < 2; split++)
        qn_release(allocator, images->lists[split].entries, images->lists[split].capacity,
                   sizeof *images->lists[split].entries);
}

const qn_data_format qn_format_images = {"images", "DIR", sizeof(images_source), images_open,
                                         images_release};
