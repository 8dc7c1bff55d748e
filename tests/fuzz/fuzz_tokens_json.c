/* Tokenizers of tokenizer.json: the input is the file and, after a zero byte, a text. */
#include "fuzz/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_file(const qn_allocator *allocator, const char *text, size_t size) {
    qn_tokenizer *t;
    if (qn_tokenizer_of_json(allocator, input_folder(), "tokenizer.json", &t) != QN_OK)
        return;
    if (!allocator)
        tokens_check(t, text, size);
    qn_tokenizer_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t bytes = zero ? (size_t)(zero - data) : size;
    const char *text = zero ? (const char *)zero + 1 : "";
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    input_write("tokenizer.json", data, bytes);
    try_file(&allocator, text, zero ? size - bytes - 1 : 0);
    input_check_memory(&f);
    try_file(NULL, text, zero ? size - bytes - 1 : 0);
    return 0;
}
