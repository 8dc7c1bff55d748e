/* The IDX format of MNIST and similar sets: fashion-mnist from its Debian package, and any folder
 * with the four files, gzipped or not. Images are (N, H, W) bytes; labels, one byte each, are kept
 * in memory. All sizes, magic numbers and labels are checked when the set is opened. */
#include "base/status.h"
#include "data/cache.h"
#include "data/headers.h"
#include "data/source.h"

#include <inttypes.h>
#include <string.h>

typedef struct idx_source {
    qn_source_base base;
    qn_file *images[2];             /* by split */
    const unsigned char *labels[2]; /* (n_samples) */
    int64_t sample_bytes;
} idx_source;

static uint32_t read_be32(const unsigned char *data) {
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

qn_status qn_idx_parse(const unsigned char *data, size_t bytes, int rank, qn_idx_header *header) {
    size_t header_bytes = 4 + 4 * (size_t)rank;
    if (bytes < header_bytes)
        return qn_fail(QN_ERROR_FORMAT, "too short for an IDX header of %zu bytes", header_bytes);
    uint32_t magic = read_be32(data), wanted = 0x800 + (uint32_t)rank;
    if (magic != wanted)
        return qn_fail(QN_ERROR_FORMAT,
                       "magic number 0x%08" PRIx32 " instead of 0x%08" PRIx32
                       " (IDX, unsigned bytes, %d dimensions)",
                       magic, wanted, rank);
    *header = (qn_idx_header){.header_bytes = (int64_t)header_bytes};
    int64_t elements = 1;
    for (int i = 0; i < rank; i++) {
        header->dims[i] = read_be32(data + 4 + 4 * i);
        bool is_bad = header->dims[i] < 1 || (i > 0 && header->dims[i] > 65535);
        if (is_bad || __builtin_mul_overflow(elements, header->dims[i], &elements))
            return qn_fail(QN_ERROR_FORMAT, "extent %" PRId64 " in dimension %d of an IDX file",
                           header->dims[i], i);
    }
    header->data_bytes = elements;
    return QN_OK;
}

/* Reads and checks the header against the size of the file. */
static qn_status check_file(qn_file *file, int rank, qn_idx_header *header) {
    unsigned char data[16] = {0};
    size_t bytes = qn_file_bytes(file) < 16 ? (size_t)qn_file_bytes(file) : 16;
    QN_TRY(qn_file_read(file, 0, data, bytes));
    if (qn_idx_parse(data, bytes, rank, header) != QN_OK)
        return qn_fail_within(QN_ERROR_FORMAT, "%s", qn_file_path(file));
    int64_t wanted = header->header_bytes + header->data_bytes;
    if (qn_file_bytes(file) != wanted)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: %s: its header tells of %" PRId64 " bytes, there are %" PRId64,
                       qn_file_path(file), qn_file_bytes(file) < wanted ? "truncated" : "too long",
                       wanted, qn_file_bytes(file));
    return QN_OK;
}

/* Opens the file under its usual names, plain or gzipped. */
static qn_status open_named(qn_source_base *base, const char *folder, const char *stem, int rank,
                            qn_file **file) {
    for (int i = 0; i < 4; i++) {
        const char *path = qn_arena_format(&base->arena, "%s/%s%cidx%d-ubyte%s", folder, stem,
                                           "-."[i % 2], rank, i < 2 ? "" : ".gz");
        if (!path)
            return QN_ERROR_MEMORY;
        if (qn_path_is_file(path))
            return qn_data_open_file(base, path, file);
    }
    return qn_fail(QN_ERROR_IO, "cannot find %s/%s-idx%d-ubyte, plain or .gz", folder, stem, rank);
}

static qn_status load_labels(idx_source *idx, const char *folder, qn_split split, int64_t n) {
    qn_file *file = NULL;
    qn_idx_header header;
    QN_TRY(open_named(&idx->base, folder, split == QN_TRAIN ? "train-labels" : "t10k-labels", 1,
                      &file));
    qn_status status = check_file(file, 1, &header);
    if (status == QN_OK && header.dims[0] != n)
        status = qn_fail(QN_ERROR_FORMAT, "%s: %" PRId64 " labels for %" PRId64 " images in %s",
                         qn_file_path(file), header.dims[0], n, qn_file_path(idx->images[split]));
    unsigned char *labels = NULL;
    if (status == QN_OK) {
        labels = qn_arena_allocate(&idx->base.arena, (size_t)n, 1);
        status =
            labels ? qn_file_read(file, header.header_bytes, labels, (size_t)n) : QN_ERROR_MEMORY;
    }
    idx->labels[split] = labels;
    qn_file_close(file);
    return status;
}

static int largest_label(const unsigned char *labels, int64_t n) {
    int largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = labels[i] > largest ? labels[i] : largest;
    return largest;
}

static qn_status open_split(idx_source *idx, const char *folder, qn_split split,
                            qn_data_source *source) {
    qn_idx_header header;
    QN_TRY(open_named(&idx->base, folder, split == QN_TRAIN ? "train-images" : "t10k-images", 3,
                      &idx->images[split]));
    QN_TRY(check_file(idx->images[split], 3, &header));
    QN_TRY(load_labels(idx, folder, split, header.dims[0]));
    qn_shape sample = QN_SHAPE(header.dims[1], header.dims[2], 1);
    if (split == QN_TEST && !qn_shape_equal(sample, source->sample))
        return qn_fail(QN_ERROR_FORMAT, "%s: images of another size than the training set's",
                       qn_file_path(idx->images[split]));
    source->sample = sample;
    source->n_samples[split] = header.dims[0];
    return QN_OK;
}

static qn_status idx_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    idx_source *idx = self;
    *(int32_t *)y = idx->labels[split][index];
    return qn_file_read(idx->images[split], 16 + index * idx->sample_bytes, x,
                        (size_t)idx->sample_bytes);
}

static qn_status open_folder(idx_source *idx, const char *folder, int n_classes,
                             qn_data_source *source) {
    int classes = 0;
    for (int split = 0; split < 2; split++) {
        QN_TRY(open_split(idx, folder, (qn_split)split, source));
        int largest = largest_label(idx->labels[split], source->n_samples[split]);
        if (n_classes > 0 && largest >= n_classes)
            return qn_fail(QN_ERROR_FORMAT, "%s: a label of %d, there are %d classes", folder,
                           largest, n_classes);
        classes = largest + 1 > classes ? largest + 1 : classes;
    }
    source->dtype = QN_U8;
    source->read = idx_read;
    source->preparation.sample = source->sample;
    source->preparation.n_classes = n_classes > 0 ? n_classes : classes;
    idx->sample_bytes = qn_shape_count(source->sample);
    idx->base.wants_statistics = true;
    return QN_OK;
}

static qn_status idx_open(qn_source_base *base, qn_data_source *source) {
    return open_folder((idx_source *)base, base->argument, 0, source);
}

static qn_status fashion_mnist_open(qn_source_base *base, qn_data_source *source) {
    static const char folder[] = "/usr/share/datasets/fashion-mnist";
    static const char *const names[] = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                        "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                        "Bag",         "Ankle boot"};
    if (!qn_path_is_folder(folder))
        return qn_fail(QN_ERROR_IO,
                       "cannot find %s; install it: apt-get install dataset-fashion-mnist", folder);
    QN_TRY(open_folder((idx_source *)base, folder, 10, source));
    source->preparation.class_names = names;
    return QN_OK;
}

static void idx_release(qn_source_base *base) {
    idx_source *idx = (idx_source *)base;
    qn_file_close(idx->images[QN_TRAIN]);
    qn_file_close(idx->images[QN_TEST]);
}

const qn_data_format qn_format_idx = {
    .name = "idx",
    .usage = "DIR",
    .self_bytes = sizeof(idx_source),
    .open = idx_open,
    .release = idx_release,
};
const qn_data_format qn_format_fashion_mnist = {
    .name = "fashion-mnist",
    .self_bytes = sizeof(idx_source),
    .open = fashion_mnist_open,
    .release = idx_release,
};
