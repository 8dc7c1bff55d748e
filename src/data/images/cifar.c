/* CIFAR-10 and CIFAR-100 in their binary format: records of one label (CIFAR-100: a coarse and a
 * fine one, of which the fine one is used) and 32x32 pixels in colour planes, which are converted
 * to channels last. DIR is the folder with the .bin files, or its parent. */
#include "base/status.h"
#include "data/source.h"
#include "os/os.h"

#include <inttypes.h>
#include <string.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, PIXELS = 3 * PLANE, MAX_FILES = 6 };

/* What differs between the two sets. */
typedef struct cifar_kind {
    const char *folder;           /* as in the archive */
    const char *files[MAX_FILES]; /* the last one is the test set */
    int n_files, label_bytes, n_classes;
    const char *names_file;
} cifar_kind;

static const cifar_kind cifar10 = {"cifar-10-batches-bin",
                                   {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                    "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"},
                                   6,
                                   1,
                                   10,
                                   "batches.meta.txt"};
static const cifar_kind cifar100 = {"cifar-100-binary",    {"train.bin", "test.bin"}, 2, 2, 100,
                                    "fine_label_names.txt"};

/* File f holds n_records[f]; the training samples are those of all files but the last, in order. */
typedef struct cifar_source {
    qn_source_base base;
    const cifar_kind *kind;
    qn_file *files[MAX_FILES];
    int64_t n_records[MAX_FILES];
} cifar_source;

static qn_status open_records(cifar_source *cifar, int f, const char *folder) {
    int64_t record_bytes = cifar->kind->label_bytes + PIXELS;
    const char *path = qn_arena_format(&cifar->base.arena, "%s/%s", folder, cifar->kind->files[f]);
    if (!path)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_file_open(cifar->base.options.allocator, path, &cifar->files[f]));
    int64_t bytes = qn_file_bytes(cifar->files[f]);
    if (bytes < record_bytes || bytes % record_bytes != 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: truncated, or of another format: %" PRId64
                       " bytes are not a whole number of records of %" PRId64,
                       path, bytes, record_bytes);
    cifar->n_records[f] = bytes / record_bytes;
    return QN_OK;
}

static void interleave(const unsigned char *planes, unsigned char *x) {
    for (int i = 0; i < PLANE; i++)
        for (int c = 0; c < 3; c++)
            x[3 * i + c] = planes[c * PLANE + i];
}

static qn_status cifar_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    cifar_source *cifar = self;
    unsigned char record[2 + PIXELS];
    int label_bytes = cifar->kind->label_bytes;
    size_t record_bytes = (size_t)(label_bytes + PIXELS);
    int f = split == QN_TEST ? cifar->kind->n_files - 1 : 0;
    while (split == QN_TRAIN && index >= cifar->n_records[f])
        index -= cifar->n_records[f++];
    QN_TRY(qn_file_read(cifar->files[f], index * (int64_t)record_bytes, record, record_bytes));
    int32_t label = record[label_bytes - 1];
    if (label >= cifar->kind->n_classes)
        return qn_fail(QN_ERROR_FORMAT, "%s: record %" PRId64 " has label %d, there are %d classes",
                       qn_file_path(cifar->files[f]), index, (int)label, cifar->kind->n_classes);
    interleave(record + label_bytes, x);
    memcpy(y, &label, sizeof label);
    return QN_OK;
}

/* All labels of the test set; those of the training set are checked when its statistics are. */
static qn_status check_test_labels(cifar_source *cifar, int64_t n) {
    unsigned char x[PIXELS];
    int32_t y;
    for (int64_t i = 0; i < n; i++)
        QN_TRY(cifar_read(cifar, QN_TEST, i, x, &y));
    return QN_OK;
}

/* Class names, a line each, if their file is there and names them all. */
static qn_status load_names(cifar_source *cifar, const char *folder, const char *const **result) {
    char text[4096] = "", *rest = text;
    qn_file *file = NULL;
    qn_arena *arena = &cifar->base.arena;
    const char *path = qn_arena_format(arena, "%s/%s", folder, cifar->kind->names_file);
    const char **names = qn_arena_allocate(arena, (size_t)cifar->kind->n_classes, sizeof *names);
    if (!path || !names)
        return QN_ERROR_MEMORY;
    if (!qn_path_is_file(path))
        return QN_OK;
    QN_TRY(qn_file_open(cifar->base.options.allocator, path, &file));
    size_t bytes = qn_file_bytes(file) < 4095 ? (size_t)qn_file_bytes(file) : 4095;
    qn_status status = qn_file_read(file, 0, text, bytes);
    qn_file_close(file);
    for (int i = 0; i < cifar->kind->n_classes && status == QN_OK; i++) {
        const char *name = strtok_r(rest, "\r\n", &rest);
        if (!name)
            return QN_OK;
        names[i] = qn_arena_text(arena, name);
        status = names[i] ? QN_OK : QN_ERROR_MEMORY;
    }
    *result = names;
    return status;
}

static qn_status open_kind(cifar_source *cifar, const cifar_kind *kind, qn_data_source *source) {
    const char *folder =
        qn_arena_format(&cifar->base.arena, "%s/%s", cifar->base.argument, kind->folder);
    if (!folder)
        return QN_ERROR_MEMORY;
    if (!qn_path_is_folder(folder))
        folder = cifar->base.argument;
    cifar->kind = kind;
    int last = kind->n_files - 1;
    for (int f = 0; f <= last; f++) {
        QN_TRY(open_records(cifar, f, folder));
        source->n_samples[f == last ? QN_TEST : QN_TRAIN] += cifar->n_records[f];
    }
    QN_TRY(check_test_labels(cifar, source->n_samples[QN_TEST]));
    source->sample = QN_SHAPE(SIDE, SIDE, 3);
    source->dtype = QN_U8;
    source->read = cifar_read;
    source->preparation.sample = source->sample;
    source->preparation.n_classes = kind->n_classes;
    cifar->base.wants_statistics = true;
    return load_names(cifar, folder, &source->preparation.class_names);
}

static qn_status cifar10_open(qn_source_base *base, qn_data_source *source) {
    return open_kind((cifar_source *)base, &cifar10, source);
}

static qn_status cifar100_open(qn_source_base *base, qn_data_source *source) {
    return open_kind((cifar_source *)base, &cifar100, source);
}

static void cifar_release(qn_source_base *base) {
    cifar_source *cifar = (cifar_source *)base;
    for (int f = 0; f < MAX_FILES; f++)
        qn_file_close(cifar->files[f]);
}

const qn_data_format qn_format_cifar10 = {
    .name = "cifar10",
    .usage = "DIR",
    .self_bytes = sizeof(cifar_source),
    .open = cifar10_open,
    .release = cifar_release,
};
const qn_data_format qn_format_cifar100 = {
    .name = "cifar100",
    .usage = "DIR",
    .self_bytes = sizeof(cifar_source),
    .open = cifar100_open,
    .release = cifar_release,
};
