/* A data source of one's own: 8x8 images of one bright row or column among noise, made on demand,
 * read ahead by quern's loader and given to a network of its zoo; with callbacks for progress and
 * an allocator of one's own that counts. */
#include <quern/quern.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 8, N_TRAIN = 4096, N_TEST = 512, BATCH = 32, EPOCHS = 3 };

/* Sample `index`: the same pixels whenever it is asked for. Class 0: a row, class 1: a column. */
static qn_status read_bar(void *self, qn_split split, int64_t index, void *x, void *y) {
    (void)self;
    uint8_t *pixels = x; /* (SIZE, SIZE, 1) */
    uint32_t state = (uint32_t)index * 2654435761u + (uint32_t)split * 40503u + 1;
    for (int i = 0; i < SIZE * SIZE; i++) {
        state = state * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)((state >> 24) / 2);
    }
    state = state * 1664525u + 1013904223u;
    int32_t is_column = (int32_t)(state >> 31);
    int place = (int)(state >> 24 & (SIZE - 1));
    for (int i = 0; i < SIZE; i++)
        pixels[is_column ? i * SIZE + place : place * SIZE + i] = 200;
    memcpy(y, &is_column, sizeof is_column);
    return QN_OK;
}

static qn_data_source open_bars(void) {
    static const float mean = 0.3f, deviation = 0.25f;
    static const char *const names[] = {"row", "column"};
    return (qn_data_source){
        .name = "bars",
        .n_samples = {N_TRAIN, N_TEST},
        .sample = QN_SHAPE(SIZE, SIZE, 1),
        .dtype = QN_U8,
        .preparation = {.sample = QN_SHAPE(SIZE, SIZE, 1),
                        .n_statistics = 1,
                        .mean = &mean,
                        .std_dev = &deviation,
                        .n_classes = 2,
                        .class_names = names},
        .read = read_bar,
    };
}

/* An allocator that counts what is held. */
static void *count_allocate(void *user, size_t bytes, size_t align) {
    void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (memory)
        *(size_t *)user += bytes;
    return memory;
}

static void count_release(void *user, void *memory, size_t bytes) {
    free(memory);
    *(size_t *)user -= bytes;
}

static qn_status print_epoch(void *user, const qn_epoch_result *result) {
    *(double *)user = result->test_accuracy;
    printf("epoch %d: training loss %.4f, test accuracy %.1f %%\n", (int)result->epoch,
           result->train_loss, 100 * result->test_accuracy);
    return QN_OK;
}

static qn_status open_loader(const qn_data_source *source, const qn_allocator *allocator,
                             qn_split split, qn_loader **loader) {
    const qn_loader_options options = {
        QN_OPTIONS_INIT(qn_loader_options),
        .allocator = allocator,
        .split = split,
        .batch = BATCH,
        .seed = 1,
        .shuffle = split == QN_TRAIN,
        .pad_last = split == QN_TEST,
        .n_batches = split == QN_TRAIN ? -1 : (N_TEST + BATCH - 1) / BATCH,
        .n_prefetched = split == QN_TRAIN ? 2 : 0,
    };
    return qn_loader_create(source, &source->preparation, &options, loader);
}

static qn_status train(const qn_data_source *source, const qn_allocator *allocator,
                       double *accuracy) {
    qn_loader *training = NULL, *testing = NULL;
    qn_trainer *trainer = NULL;
    qn_trainer_options options = qn_trainer_options_for(qn_model_find("mlp"));
    options.engine.allocator = allocator;
    options.input = source->sample;
    options.n_outputs = source->preparation.n_classes;
    options.batch = BATCH;
    qn_status status = qn_trainer_create(&options, &trainer);
    if (status == QN_OK)
        status = open_loader(source, allocator, QN_TRAIN, &training);
    if (status == QN_OK)
        status = open_loader(source, allocator, QN_TEST, &testing);
    if (status == QN_OK) {
        int64_t epoch_batches = qn_loader_epoch_batches(training);
        status = qn_trainer_fit(trainer, &(qn_fit_options){
                                             QN_OPTIONS_INIT(qn_fit_options),
                                             .train = qn_loader_batches(training),
                                             .test = qn_loader_batches(testing),
                                             .epoch_batches = epoch_batches,
                                             .steps = EPOCHS * epoch_batches,
                                             .user = accuracy,
                                             .on_epoch = print_epoch,
                                         });
    }
    qn_loader_destroy(testing);
    qn_loader_destroy(training);
    qn_trainer_destroy(trainer);
    return status;
}

int main(void) {
    size_t held_bytes = 0;
    double accuracy = 0;
    const qn_allocator allocator = {&held_bytes, count_allocate, count_release};
    qn_data_source source = open_bars();
    if (train(&source, &allocator, &accuracy) != QN_OK) {
        fprintf(stderr, "own_data: %s\n", qn_error_message());
        return 1;
    }
    printf("%zu bytes are still held\n", held_bytes);
    return held_bytes != 0 || accuracy < 0.9;
}
