/* How the bytes of a text file stand for characters, and reading them as UTF-8. Found by the byte
 * order mark, by zeros at every second byte (UTF-16), or because the whole file is UTF-8; else the
 * file is of Windows-1252, of which Latin-1 is a part. Any byte of that has a meaning, so a file of
 * another old code page is read without an error and with wrong letters: the caller tells it. */
#ifndef QN_DATA_TABLE_ENCODING_H
#define QN_DATA_TABLE_ENCODING_H

#include "format/csv.h"

typedef enum qn_encoding {
    QN_ENCODING_UTF8,
    QN_ENCODING_LATIN1,
    QN_ENCODING_UTF16_LE,
    QN_ENCODING_UTF16_BE
} qn_encoding;

/* "UTF-8", "Latin-1", "UTF-16" */
const char *qn_encoding_name(qn_encoding encoding);

/* Reads all of the file, in pieces. */
qn_status qn_encoding_find(qn_file *file, qn_encoding *encoding);

/* A file read as UTF-8, from its first byte or from where it was read last. */
typedef struct qn_decoder {
    qn_file *file;
    qn_encoding encoding;
    int64_t at; /* next byte of the file */
} qn_decoder;

/* A qn_csv_more; context: a qn_decoder. Half of a surrogate pair becomes U+FFFD. */
qn_status qn_decoder_more(void *context, void *to, size_t bytes, size_t *n);

/* Text that arrives in pieces, read as UTF-8. Its encoding is found by its first two bytes or more,
 * unless it is told. Text that was taken for UTF-8 is Latin-1 from the first byte on that is none;
 * a failure if letters beyond ASCII came before. */
typedef struct qn_stream_decoder {
    qn_csv_more *more;
    void *context;
    qn_encoding encoding;
    bool is_found;             /* encoding was told, or is found */
    bool has_letters;          /* there were letters beyond ASCII, in UTF-8 */
    unsigned char bytes[4096]; /* (n) that wait for the rest of their character */
    size_t n;
} qn_stream_decoder;

/* A qn_csv_more; context: a qn_stream_decoder. */
qn_status qn_stream_decoder_more(void *context, void *to, size_t bytes, size_t *n);

#endif
