/* Records of numbers and texts of streams to label. */
#include "label/rows.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Three columns of numbers; or the second one of texts. */
static void read_all(const uint8_t *data, size_t size, const qn_label_columns *columns) {
    qn_csv_reader row;
    bool is_end = false, has_places = false;
    qn_label_places places = {0};
    qn_csv_read_text(&row, NULL, "rows", (const char *)data, size);
    while (qn_csv_next(&row, &is_end) == QN_OK && !is_end) {
        float x[3] = {7.0f, 7.0f, 7.0f}, features[4], back[3];
        const bool is_header = qn_label_row_is_header(&row, columns);
        if (is_header && !has_places) {
            has_places = qn_label_row_match(&row, columns, NULL, &places) == QN_OK;
            if (!has_places)
                places = (qn_label_places){0};
        } else if (qn_label_row_parse(&row, columns, &places, x) == QN_OK) {
            if ((is_header && places.n_fields == 0 && !columns->names) ||
                !__builtin_isfinite(x[0] + x[1] * 0.0f))
                abort();
            qn_label_columns_encode(columns, x, features);
            qn_label_columns_decode(columns, features, back);
            if (memcmp(x, back, sizeof x) != 0)
                abort();
        } else if (x[0] != 7.0f || x[2] != 7.0f) {
            abort();
        }
    }
    qn_csv_deinit(&row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *texts[] = {"red", ""};
    int32_t number[] = {0, 3};
    qn_label_column column[] = {{.n = 0}, {true, 2, texts, number}, {.n = 0}};
    const char *names[] = {"a", "colour", "1"};
    read_all(data, size, &(qn_label_columns){.n = 3, .n_features = 3});
    read_all(data, size, &(qn_label_columns){.n = 3, .n_features = 4, .column = column});
    read_all(data, size, &(qn_label_columns){.n = 3, .n_features = 3, .names = names});
    read_all(data, size,
             &(qn_label_columns){.n = 3, .n_features = 4, .names = names, .column = column});
    return 0;
}
