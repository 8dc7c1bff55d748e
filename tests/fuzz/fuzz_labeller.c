/* Files of labellers: what is taken must label samples without leaving its memory; what it has
 * become then is saved, and, loaded and saved again, is the same file. */
#include "fuzz/input.h"
#include "quern/data.h"
#include "quern/label.h"
#include "tensor/tensor.h"

enum { N_SAMPLES = 60 };

/* Questions are answered; of samples that may be told. */
static void ask(qn_labeller *labeller) {
    static const char *const names[2] = {"a", "b"};
    qn_label_question questions[2];
    int64_t ages[2];
    int n = 0;
    qn_status status = qn_labeller_ask(labeller, 2, questions, &n);
    for (int i = 0; i < n; i++)
        ages[i] = questions[i].age;
    if (status == QN_OK)
        status = qn_labeller_tell(labeller, n, ages, names);
    if (status != QN_OK && status != QN_ERROR_NUMERIC)
        abort();
}

static void use(qn_labeller *labeller) {
    static float x[QN_LABEL_MAX_VALUES];
    qn_label_answer answer;
    for (int i = 0; i < N_SAMPLES; i++) {
        x[0] = (float)(i % 5);
        const qn_status status = qn_labeller_add(labeller, x, &answer);
        if (status == QN_ERROR_NUMERIC && qn_labeller_sample(labeller).rank > 0)
            return; /* a network of such weights may not be trained any further */
        if (status != QN_OK)
            abort();
    }
    int64_t n_changed;
    const qn_status status = qn_labeller_review(labeller, &n_changed);
    if (status != QN_OK && status != QN_ERROR_NUMERIC)
        abort();
    ask(labeller);
    for (int i = 0; i < qn_labeller_class_count(labeller); i++)
        if (!qn_labeller_class_at(labeller, i).name)
            abort();
}

/* Saves a labeller; what was written, in as many bytes. */
static char *save(const qn_labeller *labeller, const char *path, size_t *bytes) {
    char *text;
    if (qn_labeller_save(labeller, path) != QN_OK ||
        qn_file_read_whole(NULL, path, &text, bytes) != QN_OK)
        abort();
    return text;
}

/* Numbers that no learning gave may lead to such as a file is refused for; nothing else may. */
static void check_saved(const qn_labeller *labeller) {
    char path[128];
    size_t n_first, n_second;
    qn_labeller *back = NULL;
    snprintf(path, sizeof path, "%s/saved", input_folder());
    char *first = save(labeller, path, &n_first);
    const qn_status status = qn_labeller_load(NULL, path, &back);
    if (status != QN_OK && !strstr(qn_error_message(), "its numbers are invalid"))
        abort();
    if (status == QN_OK) {
        char *second = save(back, path, &n_second);
        if (n_first != n_second || memcmp(first, second, n_first) != 0)
            abort();
        qn_release(qn_allocator_default(), second, n_second + 1, 1);
    }
    qn_labeller_destroy(back);
    qn_release(qn_allocator_default(), first, n_first + 1, 1);
}

/* The file as a data set: all of its samples are numbers with a class and a weight. */
static void use_as_data(const char *path, const qn_allocator *allocator) {
    char name[160];
    qn_data_source source;
    static float x[QN_LABEL_MAX_VALUES];
    snprintf(name, sizeof name, "labelled:%s", path);
    const qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .allocator = allocator};
    if (qn_data_open(name, &options, &source) != QN_OK)
        return;
    for (int64_t i = 0; i < source.n_samples[QN_TRAIN] && qn_shape_count(source.sample) < 9999;
         i++) {
        int32_t class;
        float weight;
        if (source.read(source.self, QN_TRAIN, i, x, &class) != QN_OK ||
            source.read_weight(source.self, QN_TRAIN, i, &weight) != QN_OK || class < 0 ||
            class >= source.preparation.n_classes || !(weight >= 0))
            abort();
    }
    qn_data_close(&source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[128];
    qn_labeller *labeller = NULL;
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    snprintf(path, sizeof path, "%s/labeller", input_folder());
    input_write("labeller", data, size);
    if (qn_labeller_load(&allocator, path, &labeller) == QN_OK)
        qn_labeller_destroy(labeller);
    use_as_data(path, &allocator);
    input_check_memory(&f);
    use_as_data(path, NULL);
    if (qn_labeller_load(NULL, path, &labeller) == QN_OK) {
        use(labeller);
        check_saved(labeller);
        qn_labeller_destroy(labeller);
    }
    return 0;
}
