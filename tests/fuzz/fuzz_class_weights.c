/* Weights of classes, as a list where the input begins with l, else as a file: what is taken is a
 * number that is not below 0 for each class. */
#include "fuzz/input.h"
#include "tasks/class_weights.h"

#include <math.h>

enum { N_CLASSES = 4 };

static qn_status read_class(void *self, qn_split split, int64_t index, int32_t *class) {
    (void)self;
    (void)split;
    *class = (int32_t)(index * index % N_CLASSES);
    return QN_OK;
}

static qn_status find(const qn_allocator *allocator, const char *text, bool has_names,
                      double *weights) {
    static const char *const names[] = {"ant", "bee", "cat, black", "dog"};
    const qn_data_source source = {
        .name = "fuzz",
        .n_samples = {8, 0, 0},
        .preparation = {.n_classes = N_CLASSES, .class_names = has_names ? names : NULL},
        .read_class = read_class,
    };
    return qn_class_weights_find(allocator, &source, text, N_CLASSES, weights);
}

static void check(const char *text, bool is_list) {
    for (int has_names = 0; has_names < 2; has_names++) {
        double weights[N_CLASSES];
        if (find(qn_allocator_default(), text, has_names, weights) != QN_OK)
            continue;
        for (int i = 0; i < N_CLASSES; i++) {
            if (isnan(weights[i]) || (!is_list && weights[i] < 0))
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const bool is_list = size > 0 && data[0] == 'l';
    char path[128], *text = malloc(size + 1);
    double weights[N_CLASSES];
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    if (!text)
        return 0;
    memcpy(text, data + is_list, size - is_list);
    text[size - is_list] = 0;
    snprintf(path, sizeof path, "%s/weights.csv", input_folder());
    input_write("weights.csv", text, size - is_list);
    check(is_list ? text : path, is_list);
    (void)find(&allocator, is_list ? text : path, true, weights);
    input_check_memory(&f);
    free(text);
    return 0;
}
