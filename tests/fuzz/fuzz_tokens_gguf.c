/* Tokenizers of GGUF files: the input is a file, and a text too. */
#include "format/pretrained/gguf.h"
#include "fuzz/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_file(const qn_gguf *file, const qn_allocator *allocator, const uint8_t *data,
                     size_t size) {
    qn_tokenizer *t;
    if (qn_tokenizer_of_gguf(allocator, file, "fuzz", &t) != QN_OK)
        return;
    if (!allocator)
        tokens_check(t, (const char *)data, size);
    qn_tokenizer_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    qn_gguf file;
    qn_gguf_init(&file, NULL);
    if (qn_gguf_parse(&file, "fuzz", data, size) == QN_OK) {
        try_file(&file, &allocator, data, size);
        input_check_memory(&f);
        try_file(&file, NULL, data, size);
    }
    qn_gguf_deinit(&file);
    return 0;
}
