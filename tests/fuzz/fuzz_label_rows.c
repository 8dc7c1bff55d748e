/* Records of numbers of streams to label. */
#include "label/rows.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_csv_reader row;
    bool is_end = false;
    qn_csv_read_text(&row, NULL, "rows", (const char *)data, size);
    while (qn_csv_next(&row, &is_end) == QN_OK && !is_end) {
        float x[3] = {7.0f, 7.0f, 7.0f};
        const bool is_header = qn_label_row_is_header(&row, 3);
        if (qn_label_row_parse(&row, 3, x) == QN_OK) {
            if (is_header || !__builtin_isfinite(x[0] + x[1] * 0.0f))
                abort();
        } else if (x[0] != 7.0f || x[2] != 7.0f) {
            abort();
        }
    }
    qn_csv_deinit(&row);
    return 0;
}
