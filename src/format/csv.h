/* The only CSV reader: records of fields from a file, a text in memory or a stream. Memory grows
 * with the longest record only. Fields are separated by commas, or by another byte, and may be
 * quoted ("" is a quote, and quoted fields may contain line ends). Lines end in LF, CRLF or CR;
 * blank lines and the byte order mark are skipped. An unclosed quote, a zero byte and a record that
 * is too long are errors that name the file and the line. The caller decides what fields mean, how
 * many there must be and whether the first line is a header. */
#ifndef QN_FORMAT_CSV_H
#define QN_FORMAT_CSV_H

#include "os/os.h"

enum { QN_CSV_RECORD_BYTES = 1 << 24 };

/* source[begin .. end) is the field as it stands there, with quotes and blanks. */
typedef struct qn_csv_field {
    int64_t begin, end;
    size_t text;    /* offset of its text */
    bool is_quoted; /* text is what lies between the quotes, and what follows the closing one */
    bool is_ragged; /* quoted, and something but blanks follows the closing quote */
} qn_csv_field;

/* Gives at least one and at most so many of a stream's next bytes; 0: it has ended. */
typedef qn_status qn_csv_more(void *context, void *to, size_t bytes, size_t *n);

/* The record last read is fields[0 .. n_fields) and source[begin .. end), without its line's end;
 * it begins in the line `line`, from 1. */
typedef struct qn_csv_reader {
    const char *name;    /* of the source, for messages */
    char separator;      /* between fields, ',' unless the caller sets another */
    char remark;         /* lines that begin with it are passed over; 0: there are none */
    size_t record_bytes; /* longest record that is read */
    qn_csv_field *fields;
    size_t n_fields;
    int64_t line, begin, end;

    const qn_allocator *allocator;
    bool is_memory;     /* source is all there is */
    qn_csv_more *more;  /* of streams */
    void *context;      /* of streams; of files the file */
    qn_status status;   /* the first failure; nothing is read after it */
    const char *source; /* [at .. used) is yet to be read; source[0] is byte number `passed` */
    size_t at, used;
    int64_t passed, next_line;
    bool has_return; /* the last line ended in CR: an LF that follows belongs to it */
    char *buffer;    /* of streams and files */
    char *text;      /* (length of text_capacity) fields of the record, each with a closing zero */
    size_t length, text_capacity, field_capacity;
} qn_csv_reader;

/* Each begins before the first record. What is given must outlive the reader. */
void qn_csv_read_text(qn_csv_reader *reader, const qn_allocator *allocator, const char *name,
                      const char *text, size_t bytes);
void qn_csv_read_file(qn_csv_reader *reader, const qn_allocator *allocator, qn_file *file);
void qn_csv_read_stream(qn_csv_reader *reader, const qn_allocator *allocator, const char *name,
                        qn_csv_more *more, void *context);
void qn_csv_deinit(qn_csv_reader *reader);

/* Goes back to the first record of a file or a text; a stream's caller lets it begin again. */
void qn_csv_rewind(qn_csv_reader *reader);

/* Reads the next record; *is_end: there is none. */
qn_status qn_csv_next(qn_csv_reader *reader, bool *is_end);

/* A field's text without quotes, or without the blanks around it; until the next record is read. */
const char *qn_csv_text(const qn_csv_reader *reader, size_t field);

#endif
