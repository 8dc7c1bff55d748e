/* Tokenizers when memory is out: each allocation fails in turn while one is made and while a text
 * is encoded; nothing is left, and tokens are as they were. What tokens a text has is for
 * tests/cli/test_tokens.py. */
#include "base/status.h"
#include "check.h"
#include "data/tokens/tokenizer.h"
#include "failing.h"

#include <stdlib.h>

static const char text[] = "a bb <s> \xff\n\nab ab e\xcc\x81 12 'S";

/* The tokens of the text, behind one that was there. */
static qn_status encode(const qn_allocator *allocator, const char *path, qn_tokens *tokens) {
    qn_tokenizer *t;
    QN_TRY(qn_tokenizer_open(allocator, path, &t));
    const qn_status status = qn_tokenizer_encode(t, text, sizeof text - 1, tokens);
    qn_tokenizer_destroy(t);
    return status;
}

static void check_failing(const char *name) {
    char path[512];
    qn_tokens whole;
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/tokens_gguf/%s", getenv("QUERN_SOURCE"),
             name);
    qn_tokens_init(&whole, NULL);
    CHECK_OK(encode(NULL, path, &whole));
    CHECK(whole.n > 5);
    for (int64_t i = 0;; i++) {
        failing f = {.left = i};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_tokens tokens;
        qn_tokens_init(&tokens, &allocator);
        const qn_status status = encode(&allocator, path, &tokens);
        const bool is_equal = tokens.n == whole.n &&
                              memcmp(tokens.list, whole.list, whole.n * sizeof *whole.list) == 0;
        CHECK(status == QN_OK ? is_equal : tokens.n == 0);
        qn_tokens_deinit(&tokens);
        CHECK(f.held_bytes == 0);
        if (f.left >= 0) {
            CHECK(status == QN_OK && i > 10);
            break;
        }
        CHECK(status == QN_ERROR_MEMORY);
    }
    qn_tokens_deinit(&whole);
}

int main(void) {
    check_failing("gpt2");
    check_failing("qwen2");
    check_failing("llama");
    return checks_finish();
}
