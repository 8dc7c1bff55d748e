/* Records of numbers and texts of streams to label, and the bytes that they arrive as: in whatever
 * pieces, the same text. */
#include "data/table/encoding.h"
#include "label/rows.h"

#include <math.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- bytes ---- */

typedef struct arriving {
    const uint8_t *data;
    size_t size, at, most;
} arriving;

static qn_status give(void *context, void *to, size_t bytes, size_t *n) {
    arriving *a = context;
    const size_t left = a->size - a->at, most = bytes < a->most ? bytes : a->most;
    *n = left < most ? left : most;
    memcpy(to, a->data + a->at, *n);
    a->at += *n;
    return QN_OK;
}

/* All text of data that arrives in pieces; null: it is refused. */
static char *decode(const uint8_t *data, size_t size, size_t piece, size_t *n,
                    qn_encoding *encoding) {
    arriving from = {data, size, 0, piece};
    qn_stream_decoder decoder = {.more = give, .context = &from};
    char *text = malloc(4 * size + 64);
    qn_status status = QN_OK;
    size_t got = 1;
    for (*n = 0; status == QN_OK && got > 0; *n += got)
        status = qn_stream_decoder_more(&decoder, text + *n, 4 * size + 64 - *n, &got);
    *encoding = decoder.encoding;
    if (status == QN_OK)
        return text;
    free(text);
    return NULL;
}

static void compare_pieces(const uint8_t *data, size_t size) {
    size_t n_whole, n_pieces;
    qn_encoding whole_is, pieces_are;
    char *whole = decode(data, size, 4096, &n_whole, &whole_is);
    char *pieces = decode(data, size, 3, &n_pieces, &pieces_are);
    if (whole_is == pieces_are && (!whole != !pieces || (whole && n_whole != n_pieces) ||
                                   (whole && memcmp(whole, pieces, n_whole) != 0)))
        abort();
    free(whole);
    free(pieces);
}

/* ---- rows ---- */

/* Three columns of numbers; or the second one of texts. */
static void read_all(const uint8_t *data, size_t size, const qn_label_columns *columns) {
    qn_csv_reader row;
    bool is_end = false, has_places = false;
    qn_label_places places = {0};
    qn_csv_read_text(&row, NULL, "rows", (const char *)data, size);
    row.separator = qn_label_row_separator((const char *)data, size < 64 ? size : 64, columns);
    places.takes_gaps = columns->names != NULL;
    while (qn_csv_next(&row, &is_end) == QN_OK && !is_end) {
        float x[3] = {7.0f, 7.0f, 7.0f}, features[4], back[3];
        const bool is_header = qn_label_row_is_header(&row, columns);
        if (is_header && !has_places) {
            has_places = qn_label_row_match(&row, columns, NULL, &places) == QN_OK;
            if (!has_places)
                places = (qn_label_places){.takes_gaps = places.takes_gaps};
        } else if (qn_label_row_parse(&row, columns, &places, x) == QN_OK) {
            if ((is_header && places.n_fields == 0 && !columns->names) || isinf(x[0]) ||
                isinf(x[1]) || isinf(x[2]) || (isnan(x[0]) && !places.takes_gaps))
                abort();
            if (isnan(x[0]) || isnan(x[1]) || isnan(x[2]))
                continue;
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
    compare_pieces(data, size);
    read_all(data, size, &(qn_label_columns){.n = 3, .n_features = 3});
    read_all(data, size, &(qn_label_columns){.n = 3, .n_features = 4, .column = column});
    read_all(data, size, &(qn_label_columns){.n = 3, .n_features = 3, .names = names});
    read_all(data, size,
             &(qn_label_columns){.n = 3, .n_features = 4, .names = names, .column = column});
    return 0;
}
