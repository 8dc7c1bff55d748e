/* GGUF files: what is accepted lies inside the bytes that were parsed, every value can be read, and
 * the model is described. The input is a whole file. */
#include "format/pretrained/gguf.h"
#include "fuzz/input.h"
#include "models/language/description.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile double kept;

static void check_pair(const qn_gguf_pair *pair, const uint8_t *data, size_t size) {
    const qn_gguf_value *value = &pair->value;
    const uint8_t *at = value->data;
    double number;
    size_t bytes;
    if (value->data < data || value->data + value->bytes > data + size || !*pair->key)
        abort();
    for (uint64_t i = 0; i < value->n; i++) {
        if (value->kind != QN_GGUF_TEXT) {
            kept = qn_gguf_get_number(value, i, &number) ? number : 0;
            continue;
        }
        const char *text = qn_gguf_next_text(&at, &bytes);
        if ((const uint8_t *)text + bytes > value->data + value->bytes)
            abort();
    }
    if (qn_gguf_get_number(value, value->n, &number))
        abort();
}

static void check_tensor(const qn_pretrained_tensor *t, const uint8_t *data, size_t size) {
    float numbers[QN_BLOCKS_MOST_NUMBERS];
    if (t->data < data || t->data + t->bytes > data + size)
        abort();
    for (size_t i = 0; t->blocks != QN_BLOCKS_NONE; i++) {
        if ((i + 1) * (size_t)qn_blocks_bytes(t->blocks) > t->bytes)
            break;
        qn_blocks_widen(t->blocks, t->data, (int64_t)i, (int64_t)i + 1, numbers);
        kept = (double)numbers[0];
    }
}

static void check_file(const qn_gguf *file, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < file->n_pairs; i++) {
        check_pair(&file->pairs[i], data, size);
        if (qn_gguf_find(file, file->pairs[i].key) != &file->pairs[i].value)
            abort();
    }
    for (size_t i = 0; i < file->tensors.n; i++) {
        check_tensor(&file->tensors.list[i], data, size);
        if (qn_tensors_find(&file->tensors, file->tensors.list[i].name) != &file->tensors.list[i])
            abort();
    }
}

static void describe(const qn_allocator *allocator) {
    char path[128];
    qn_pretrained *files;
    qn_language model;
    snprintf(path, sizeof path, "%s/m.gguf", input_folder());
    if (qn_pretrained_open(allocator, path, &files) != QN_OK)
        return;
    if (!qn_pretrained_is(NULL, path) || qn_pretrained_bytes(files) < 24)
        abort();
    if (qn_language_describe(files, &model) == QN_OK) {
        if (!model.family && model.n_problems == 0)
            abort();
        qn_language_deinit(&model);
    }
    qn_pretrained_close(files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    qn_gguf file;
    qn_gguf_init(&file, NULL);
    if (qn_gguf_parse(&file, "fuzz", data, size) == QN_OK)
        check_file(&file, data, size);
    qn_gguf_deinit(&file);
    input_write("m.gguf", data, size);
    describe(&allocator);
    input_check_memory(&f);
    describe(NULL);
    return 0;
}
