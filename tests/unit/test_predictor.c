/* The predictor: what it computes is what a trainer computes with the same weights, to the bit, of
 * images in memory as the loader prepares those of a data set; its memory is that of weights and
 * one forward pass; files that do not fit are refused; any allocation may fail. */
#include "image_files.h"

#include "quern/predictor.h"
#include "quern/quern.h"
#include "small_models.h"

enum { N_CLASSES = 2, N_IMAGES = 6, SIDE = 8, N_X = SIDE * SIDE * 3 };

static const char *const names[N_CLASSES] = {"cat", "dog"};

/* Extents of the images, which differ, as photos' do. */
static const int extents[N_IMAGES][2] = {{8, 8}, {13, 9}, {7, 20}, {31, 30}, {5, 5}, {9, 8}};
static unsigned char pixels[N_IMAGES][31 * 30 * 3];
static float trained[N_IMAGES * N_CLASSES]; /* what the trainer says */

/* images:@/photos/train/CLASS/I.png with pixels of some pattern. */
static void write_images(void) {
    make_folder("@/photos/train/cat");
    make_folder("@/photos/train/dog");
    make_folder("@/photos/test/cat");
    for (int i = 0; i < N_IMAGES; i++) {
        const int h = extents[i][0], w = extents[i][1];
        unsigned char rows[31 * (30 * 3 + 1)];
        char path[64];
        for (int k = 0; k < h * w * 3; k++)
            pixels[i][k] = (unsigned char)(k * k * 7 + k * 31 + i * 50);
        for (int y = 0; y < h; y++) {
            rows[y * (w * 3 + 1)] = 0;
            memcpy(rows + y * (w * 3 + 1) + 1, pixels[i] + y * w * 3, (size_t)w * 3);
        }
        snprintf(path, sizeof path, "@/photos/train/%s/%d.png", names[i % 2], i);
        write_png(path, w, h, 8, 2, false, rows, (size_t)(h * (w * 3 + 1)));
    }
    write_grey_png("@/photos/test/cat/a.png", 8, 8, 100);
}

static void save(qn_trainer *trainer, const qn_preparation *preparation, const char *path,
                 const char *model) {
    qn_metadata *pairs = NULL;
    CHECK_OK(qn_metadata_create(NULL, &pairs));
    CHECK_OK(qn_metadata_set(pairs, "input", "8x8x3"));
    CHECK_OK(qn_metadata_set(pairs, "classes", "2"));
    CHECK_OK(qn_metadata_set(pairs, "model", model));
    CHECK_OK(qn_metadata_set_preparation(pairs, preparation));
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), pairs, at_root(path)));
    qn_metadata_destroy(pairs);
}

/* Trains two steps on the photos, keeps what the trainer says of each, and saves it. */
static void train(void) {
    const float mean[] = {0.5f, 0.4f, 0.3f}, deviation[] = {0.25f, 0.2f, 0.3f};
    const qn_data_options how = {QN_OPTIONS_INIT(qn_data_options), .sample = small_conv.input,
                                 .seed = 1};
    qn_trainer_options options = qn_trainer_options_for(&small_conv);
    qn_trainer *trainer = NULL;
    qn_loader *loader = NULL;
    qn_data_source source = {0};
    qn_step_result result;
    qn_batch batch;
    options.n_outputs = N_CLASSES;
    CHECK_OK(qn_data_open(at_root("images:@/photos"), &how, &source));
    qn_preparation preparation = source.preparation;
    preparation.n_statistics = 3;
    preparation.mean = mean;
    preparation.std_dev = deviation;
    const qn_loader_options load = {QN_OPTIONS_INIT(qn_loader_options), .batch = N_IMAGES,
                                    .n_batches = -1};
    CHECK_OK(qn_loader_create(&source, &preparation, &load, &loader));
    CHECK_OK(qn_trainer_create(&options, &trainer));
    for (int step = 0; step < 2; step++) {
        CHECK_OK(qn_loader_next(loader, &batch));
        CHECK_OK(qn_trainer_step(trainer, batch.x, batch.y, &result));
    }
    CHECK_OK(qn_loader_next(loader, &batch));
    CHECK_OK(qn_trainer_predict(trainer, batch.x, trained));
    save(trainer, &preparation, "@/mine.st", "small-conv");
    save(trainer, &preparation, "@/zoo.st", "lenet5");
    qn_loader_destroy(loader);
    qn_trainer_destroy(trainer);
    qn_data_close(&source);
}

/* The loader lists by class: first the even images, then the odd ones. */
static int listed_at(int i) {
    return i % 2 * (N_IMAGES / 2) + i / 2;
}

static void test_same_bits(int64_t batch, int n_threads) {
    const qn_predictor_options how = {QN_OPTIONS_INIT(qn_predictor_options),
                                      .own_model = &small_conv, .batch = batch,
                                      .n_threads = n_threads};
    qn_predictor *p = NULL;
    qn_image images[N_IMAGES];
    float outputs[N_IMAGES * N_CLASSES], of_file[N_CLASSES];
    qn_prediction best, all[3];
    CHECK_OK(qn_predictor_open(at_root("@/mine.st"), &how, &p));
    for (int i = 0; i < N_IMAGES; i++)
        images[listed_at(i)] = (qn_image){pixels[i], extents[i][0], extents[i][1], 3};
    CHECK_OK(qn_predictor_predict(p, images, N_IMAGES, outputs));
    CHECK(memcmp(outputs, trained, sizeof trained) == 0);
    CHECK_OK(qn_predictor_predict_file(p, at_root("@/photos/train/dog/3.png"), of_file));
    CHECK(memcmp(of_file, trained + listed_at(3) * N_CLASSES, sizeof of_file) == 0);
    CHECK_OK(qn_predictor_classify(p, &images[4], &best));
    CHECK(best.value == (double)fmaxf(outputs[8], outputs[9]));
    CHECK(outputs[8 + best.index] == (float)best.value &&
          strcmp(best.name, names[best.index]) == 0);
    CHECK(qn_predictor_rank(p, outputs, 3, all) == N_CLASSES);
    CHECK(all[0].value >= all[1].value && all[0].index != all[1].index);
    qn_predictor_close(p);
}

/* Weights once, one forward pass, and little else: no state, no gradients. */
static void test_memory(void) {
    const qn_preparation preparation = {
        .sample = {3, {32, 32, 3}}, .centre_crop = true, .n_classes = 10};
    const qn_model *model = qn_model_find("squeezenet");
    qn_trainer_options options = qn_trainer_options_for(model);
    qn_trainer *trainer = NULL;
    qn_predictor *p = NULL;
    options.batch = 1;
    CHECK_OK(qn_trainer_create(&options, &trainer));
    qn_metadata *pairs = NULL;
    CHECK_OK(qn_metadata_create(NULL, &pairs));
    CHECK_OK(qn_metadata_set(pairs, "input", "32x32x3"));
    CHECK_OK(qn_metadata_set(pairs, "classes", "10"));
    CHECK_OK(qn_metadata_set(pairs, "model", "squeezenet"));
    CHECK_OK(qn_metadata_set_preparation(pairs, &preparation));
    CHECK_OK(qn_checkpoint_save(qn_trainer_engine(trainer), pairs, at_root("@/squeezenet.st")));
    qn_metadata_destroy(pairs);
    qn_trainer_destroy(trainer);
    CHECK_OK(qn_predictor_open(at_root("@/squeezenet.st"), NULL, &p));
    const qn_predictor_facts facts = qn_predictor_get_facts(p);
    CHECK(facts.n_outputs == 10 && !facts.is_regression && facts.input.dims[0] == 32);
    CHECK(strcmp(facts.model, "squeezenet") == 0 && facts.weight_bytes > 2800000);
    CHECK(facts.held_bytes <= facts.weight_bytes + facts.arena_bytes + 262144);
    CHECK((double)facts.peak_bytes <= 1.3 * (double)facts.weight_bytes + 262144);
    qn_predictor_close(p);
}

/* Every allocation of opening may fail; nothing is lost, and the message is there. */
static void test_failing(void) {
    for (int n = 0;; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        const qn_predictor_options how = {QN_OPTIONS_INIT(qn_predictor_options),
                                          .allocator = &allocator, .own_model = &small_conv,
                                          .n_threads = 1};
        qn_predictor *p = NULL;
        const qn_status status = qn_predictor_open(at_root("@/mine.st"), &how, &p);
        qn_predictor_close(p);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
        CHECK(status == QN_ERROR_MEMORY && !p);
    }
}

static void test_refused(void) {
    const qn_predictor_options own = {QN_OPTIONS_INIT(qn_predictor_options),
                                      .own_model = &small_conv};
    qn_predictor *p = NULL;
    float outputs[N_CLASSES];
    CHECK_FAILS(qn_predictor_open(at_root("@/none.st"), NULL, &p), QN_ERROR_IO, "none.st");
    CHECK_FAILS(qn_predictor_open(at_root("@/mine.st"), NULL, &p), QN_ERROR_ARGUMENT, "small-conv");
    CHECK_FAILS(qn_predictor_open(at_root("@/zoo.st"), NULL, &p), QN_ERROR_ARGUMENT, "lenet5");
    CHECK_FAILS(qn_predictor_open(at_root("@/zoo.st"),
                                  &(qn_predictor_options){QN_OPTIONS_INIT(qn_predictor_options),
                                                          .model = "dcgan"},
                                  &p),
                QN_ERROR_UNSUPPORTED, "generation");
    CHECK_FAILS(qn_predictor_open(
                    at_root("@/mine.st"),
                    &(qn_predictor_options){QN_OPTIONS_INIT(qn_predictor_options), .batch = -1},
                    &p),
                QN_ERROR_ARGUMENT, "batch");
    CHECK(!p);
    CHECK_OK(qn_predictor_open(at_root("@/mine.st"), &own, &p));
    CHECK_FAILS(qn_predictor_predict_file(p, at_root("@/none.png"), outputs), QN_ERROR_IO, "none");
    CHECK_FAILS(qn_predictor_predict(p, &(qn_image){NULL, 3, 3, 3}, 1, outputs), QN_ERROR_ARGUMENT,
                "pixels");
    CHECK_FAILS(qn_predictor_predict(p, &(qn_image){pixels[0], 0, 3, 3}, 1, outputs),
                QN_ERROR_ARGUMENT, "0 x 3");
    qn_predictor_close(p);
    qn_predictor_close(NULL);
}

int main(void) {
    files_begin();
    write_images();
    train();
    test_same_bits(0, 1);
    test_same_bits(4, 2);
    test_memory();
    test_failing();
    test_refused();
    files_end();
    return checks_finish();
}
