/* Short texts: a CSV file of two columns, the text and its class, or of one column, of texts alone.
 * A sample is a series of WORDS words, each a vector that follows from its letters: the mean of
 * random signs for the word and for every three letters of it in a row, so that words that are
 * written alike are close (Bojanowski et al. 2017). A shorter text is repeated, of a longer one the
 * beginning counts. Letters of ASCII are the same in both cases; what is no letter, digit or byte
 * of other letters is between words. */
#include "base/status.h"
#include "data/cache.h"
#include "data/series/series.h"
#include "format/csv.h"

#include <inttypes.h>
#include <string.h>

enum { WORDS = 32, CHANNELS = 32, WORD_BYTES = 64, ZERO = 128, MOST_TEXTS = 1 << 22 };
_Static_assert(CHANNELS == 32, "a random word has a sign for each");
static const float deviation = 40.0f; /* of a channel, in bytes */

/* A word in lower case between two marks: of longer ones, the beginning. */
typedef struct word {
    char text[WORD_BYTES + 3];
    size_t length;
} word;

static bool is_letter(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80;
}

/* The next word; where there is none, the text has ended. */
static const char *take_word(const char *text, word *w) {
    while (*text && !is_letter((unsigned char)*text))
        text++;
    w->length = 0;
    w->text[w->length++] = '<';
    for (; is_letter((unsigned char)*text); text++)
        if (w->length <= WORD_BYTES)
            w->text[w->length++] = *text >= 'A' && *text <= 'Z' ? (char)(*text + 32) : *text;
    w->text[w->length++] = '>';
    w->text[w->length] = 0;
    return text;
}

/* Adds signs for letters. */
static void add_signs(const char *letters, size_t n, float *sum) {
    char part[WORD_BYTES + 3];
    memcpy(part, letters, n);
    part[n] = 0;
    const uint32_t bits = qn_rng_word(qn_rng_make(qn_hash_text(part), 0, 0), 0);
    for (int c = 0; c < CHANNELS; c++)
        sum[c] += bits >> c & 1 ? 1.0f : -1.0f;
}

static void describe_word(const word *w, uint8_t *bytes) {
    float sum[CHANNELS] = {0};
    int n = 1;
    add_signs(w->text, w->length, sum);
    for (size_t i = 0; i + 3 <= w->length; i++, n++)
        add_signs(w->text + i, 3, sum);
    const float each = deviation / __builtin_sqrtf((float)n);
    for (int c = 0; c < CHANNELS; c++) {
        const float value = ZERO + each * sum[c] + 0.5f;
        bytes[c] = value < 0 ? 0 : value >= 255.0f ? 255 : (uint8_t)value;
    }
}

static void describe_text(const char *text, uint8_t *bytes) {
    word w;
    int n = 0;
    for (; n < WORDS; n++) {
        text = take_word(text, &w);
        if (w.length == 2)
            break;
        describe_word(&w, bytes + n * CHANNELS);
    }
    memset(bytes + n * CHANNELS, ZERO, (size_t)((WORDS - n) * CHANNELS));
    for (int i = n; n > 0 && i < WORDS; i++)
        memcpy(bytes + i * CHANNELS, bytes + (i - n) * CHANNELS, CHANNELS);
}

/* A first line of two names is one that says text, or label or class. */
static bool is_header(const qn_csv_reader *row) {
    const char *last = qn_csv_text(row, row->n_fields - 1);
    return row->line == 1 && (strcmp(qn_csv_text(row, 0), "text") == 0 ||
                              strcmp(last, "label") == 0 || strcmp(last, "class") == 0);
}

static qn_status add_rows(qn_series_source *s, qn_csv_reader *row) {
    size_t n_fields = 0;
    for (;;) {
        bool is_end;
        uint8_t *bytes;
        QN_TRY(qn_csv_next(row, &is_end));
        if (is_end)
            return QN_OK;
        n_fields = n_fields ? n_fields : row->n_fields;
        if (row->n_fields != n_fields || n_fields > 2)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: line %" PRId64 ": %zu fields; a text and its class are expected, "
                           "or texts alone (quote what has commas)",
                           row->name, row->line, row->n_fields);
        if (is_header(row))
            continue;
        if (s->n == MOST_TEXTS)
            return qn_fail(QN_ERROR_FORMAT, "%s: more than %d texts", row->name, MOST_TEXTS);
        QN_TRY(qn_series_add(s, n_fields == 2 ? qn_csv_text(row, 1) : "text", &bytes));
        describe_text(qn_csv_text(row, 0), bytes);
    }
}

static qn_status texts_open(qn_source_base *base, qn_data_source *source) {
    qn_series_source *s = (qn_series_source *)base;
    qn_csv_reader row;
    qn_file *file;
    s->sample = QN_SHAPE(WORDS, 1, CHANNELS);
    QN_TRY(strcmp(base->argument, "-") == 0
               ? qn_data_open_input(base, &file)
               : qn_file_open(base->options.allocator, base->argument, &file));
    qn_csv_read_file(&row, base->options.allocator, file);
    qn_status status = add_rows(s, &row);
    qn_csv_deinit(&row);
    qn_file_close(file);
    if (status == QN_OK && s->n == 0)
        status = qn_fail(QN_ERROR_FORMAT, "%s: no text", base->argument);
    return status == QN_OK ? qn_series_finish(s, source) : status;
}

const qn_data_format qn_format_texts = {
    .name = "texts",
    .usage = "FILE",
    .self_bytes = sizeof(qn_series_source),
    .open = texts_open,
    .release = qn_series_release,
};
