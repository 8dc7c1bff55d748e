/* Folders of language models. The input is the texts of config.json, the index and
 * tokenizer_config.json with zero bytes between; an empty text is a file that is not there. The
 * weights are a file with a tensor for each text that the index lists, of no elements. */
#include "format/pretrained/pretrained.h"
#include "format/safetensors.h"
#include "fuzz/input.h"
#include "models/language/description.h"

#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"config.json", "model.safetensors.index.json",
                                    "tokenizer_config.json", "chat_template.jinja"};

enum { N_NAMES = sizeof names / sizeof names[0] };

/* One tensor of each kind of name: where a folder has one file, and where it has two. */
static void write_weights(void) {
    static const float numbers[64];
    const qn_safetensor tensors[] = {
        {.name = "model.embed_tokens.weight",
         .dtype = QN_F32,
         .shape = {2, {8, 8}},
         .bytes = sizeof numbers,
         .data = numbers},
        {.name = "wte.weight", .dtype = QN_U8, .shape = {1, {4}}, .bytes = 4, .data = numbers},
    };
    char path[256];
    const char *const files[] = {"model.safetensors", "a.safetensors", "b.safetensors"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/m/%s", input_folder(), files[i]);
        if (qn_safetensors_write(NULL, path, tensors + i / 2, i == 0 ? 2 : 1, NULL, 0) != QN_OK)
            abort();
    }
}

static void write_texts(const uint8_t *data, size_t size) {
    char name[128];
    for (int i = 0; i < N_NAMES; i++) {
        const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
        const size_t bytes = zero ? (size_t)(zero - data) : size;
        snprintf(name, sizeof name, "m/%s", names[i]);
        if (bytes > 0) {
            input_write(name, data, bytes);
        } else {
            char path[256];
            snprintf(path, sizeof path, "%s/%s", input_folder(), name);
            unlink(path);
        }
        data += zero ? bytes + 1 : bytes;
        size -= zero ? bytes + 1 : bytes;
    }
}

static void open_folder(const qn_allocator *allocator) {
    char path[128];
    qn_pretrained *files;
    qn_language model;
    snprintf(path, sizeof path, "%s/m", input_folder());
    if (qn_pretrained_open(allocator, path, &files) != QN_OK)
        return;
    if (!qn_pretrained_is(NULL, path) || qn_pretrained_bytes(files) < 8)
        abort();
    if (qn_language_describe(files, &model) == QN_OK)
        qn_language_deinit(&model);
    qn_pretrained_close(files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool is_made;
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    if (!is_made) {
        char path[128];
        snprintf(path, sizeof path, "%s/m", input_folder());
        mkdir(path, 0700);
        write_weights();
        is_made = true;
    }
    write_texts(data, size);
    open_folder(&allocator);
    input_check_memory(&f);
    open_folder(NULL);
    return 0;
}
