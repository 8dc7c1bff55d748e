/* Writes a tensor of a language model, widened to f32, to standard output. */
#include "format/pretrained/pretrained.h"

#include <stdio.h>

int main(int n, char **words) {
    float numbers[QN_BLOCKS_MOST_NUMBERS];
    qn_pretrained *model;
    if (n != 3 || qn_pretrained_open(NULL, words[1], &model) != QN_OK) {
        fprintf(stderr, "%s\n", n == 3 ? qn_error_message() : "dump_tensor MODEL NAME");
        return 1;
    }
    const qn_pretrained_tensor *tensor = qn_tensors_find(model->tensors, words[2]);
    const bool is_read = tensor && tensor->blocks != QN_BLOCKS_NONE;
    const int64_t count = is_read ? qn_shape_count(tensor->shape) : 0;
    for (int64_t i = 0; is_read && i < count / qn_blocks_numbers(tensor->blocks); i++) {
        qn_blocks_widen(tensor->blocks, tensor->data, i, i + 1, numbers);
        fwrite(numbers, sizeof *numbers, (size_t)qn_blocks_numbers(tensor->blocks), stdout);
    }
    qn_pretrained_close(model);
    return !is_read;
}
