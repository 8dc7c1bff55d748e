/* Files of PyTorch: the tensors of what is accepted lie inside of the file, under names that
 * differ. */
#include "format/foreign/state_dict.h"

#include "input.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const qn_state_dict *dict, size_t size) {
    for (size_t i = 0; i < dict->n_tensors; i++) {
        const qn_foreign_tensor *t = &dict->tensors[i];
        if (t->begin < 0 || (uint64_t)t->begin > size || t->bytes > size - (uint64_t)t->begin)
            abort();
        for (size_t j = 0; j < i; j++) {
            if (strcmp(dict->tensors[j].name, t->name) == 0)
                abort();
        }
    }
}

static void parse(const uint8_t *data, size_t size, const char *key) {
    failing memory = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&memory);
    qn_state_dict dict;
    qn_state_dict_init(&dict, &allocator);
    if (qn_state_dict_parse(&dict, data, size, key) == QN_OK)
        check(&dict, size);
    qn_state_dict_deinit(&dict);
    input_check_memory(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size, NULL);
    parse(data, size, "model");
    parse(data, size, "state_dict_ema");
    return 0;
}
