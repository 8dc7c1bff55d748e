/* A folder of images: train/CLASS/FILE and test/CLASS/FILE, or CLASS/FILE with a tenth held out by
 * seed (also of train/ where there is no test/). Classes are the folders in order of their names;
 * PNG and JPEG files of any size, decoded and fitted (short side resized, centre cropped) when they
 * are read. Bytes go to the network as 0 to 1, without statistics: those would cost decoding all
 * files. Only the list of names is in memory. */
#include "base/status.h"
#include "data/image.h"
#include "data/source.h"
#include "os/os.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

typedef struct image_entry {
    const char *name; /* within the folder of its class, in the arena */
    int32_t class;
} image_entry;

/* The files of one split; entries are sorted by class, then name. */
typedef struct image_list {
    const char *root;     /* in the arena */
    image_entry *entries; /* (n) of capacity */
    size_t n, capacity;
} image_list;

typedef struct images_source {
    qn_source_base base;
    const char **classes; /* (n_classes) of class_capacity; names in the arena */
    size_t n_classes, class_capacity;
    image_list lists[2]; /* by split; the second is empty where samples are held out */
    qn_holdout holdout;  /* of the first list */
    qn_shape size;       /* samples are delivered like that */
    bool is_size_set;
    int64_t n_ignored;
    const char *first_ignored; /* in the arena */
} images_source;

static bool is_image_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
                   strcasecmp(dot, ".jpeg") == 0);
}

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
    image_list *list;
    int32_t class;
} list_context;

static qn_status visit_file(void *context, const char *name, bool is_folder) {
    list_context *c = context;
    image_list *list = c->list;
    if (is_folder || name[0] == '.' || !is_image_name(name))
        return ignore(c->images, name);
    const char *kept = qn_arena_text(&c->images->base.arena, name);
    if (!kept)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(c->images->base.options.allocator, &list->entries, &list->capacity, list->n + 1,
                   sizeof *list->entries));
    list->entries[list->n++] = (image_entry){kept, c->class};
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
    image_list *list = &images->lists[split];
    qn_arena *arena = &images->base.arena;
    for (size_t i = 0; i < images->n_classes; i++) {
        list_context context = {images, list, (int32_t)i};
        size_t before = list->n;
        const char *folder = qn_arena_format(arena, "%s/%s", list->root, images->classes[i]);
        if (!folder)
            return QN_ERROR_MEMORY;
        if (split == QN_TEST && !qn_path_is_folder(folder))
            continue;
        QN_TRY(qn_folder_list(images->base.options.allocator, folder, visit_file, &context));
        if (list->n == before)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s holds no PNG or JPEG file; add some or remove the folder", folder);
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
    const image_list *train = &images->lists[QN_TRAIN], *test = &images->lists[QN_TEST];
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
                     "%s: ignored %" PRId64 " files that are no PNG or JPEG of "
                     "a class, the first is %s",
                     images->base.argument, images->n_ignored, images->first_ignored);
    return QN_OK;
}

/* ---- source ---- */

static const image_entry *find_entry(const images_source *images, qn_split split, int64_t index,
                                     const image_list **list) {
    *list = &images->lists[split];
    if (!images->lists[QN_TEST].root) {
        *list = &images->lists[QN_TRAIN];
        index = qn_holdout_index(&images->holdout, split, index);
    }
    return &(*list)->entries[index];
}

static qn_status images_read_class(void *self, qn_split split, int64_t index, int32_t *class) {
    const image_list *list;
    *class = find_entry(self, split, index, &list)->class;
    return QN_OK;
}

static qn_status images_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    images_source *images = self;
    char path[4096];
    const image_list *list;
    const image_entry *entry = find_entry(images, split, index, &list);
    int length = snprintf(path, sizeof path, "%s/%s/%s", list->root, images->classes[entry->class],
                          entry->name);
    if ((size_t)length >= sizeof path)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", path);
    memcpy(y, &entry->class, sizeof entry->class);
    return qn_image_load(path, &images->size, true, x);
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

static qn_status set_splits(images_source *images, qn_data_source *source) {
    const qn_data_options *options = &images->base.options;
    int64_t n = (int64_t)images->lists[QN_TRAIN].n;
    double part = options->holdout != 0 ? options->holdout : 0.1;
    if (images->lists[QN_TEST].root)
        part = 0;
    QN_TRY(qn_holdout_make(n, part, options->seed, &images->holdout));
    source->n_samples[QN_TRAIN] = n - images->holdout.n_test;
    source->n_samples[QN_TEST] =
        images->lists[QN_TEST].root ? (int64_t)images->lists[QN_TEST].n : images->holdout.n_test;
    return QN_OK;
}

static qn_status images_open(qn_source_base *base, qn_data_source *source) {
    images_source *images = (images_source *)base;
    const qn_shape *wanted = &base->options.sample;
    QN_TRY(list_all(images));
    QN_TRY(set_splits(images, source));
    images->size = wanted->rank == 3 ? *wanted : QN_SHAPE(32, 32, 3);
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
    qn_release(allocator, images->classes, images->class_capacity, sizeof *images->classes);
    for (int split = 0; split < 2; split++)
        qn_release(allocator, images->lists[split].entries, images->lists[split].capacity,
                   sizeof *images->lists[split].entries);
}

const qn_data_format qn_format_images = {"images", "DIR", sizeof(images_source), images_open,
                                         images_release};
