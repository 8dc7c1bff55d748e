/* Tables in text files (CSV) as rows of numbers, parsed once into the user's cache folder:
 *     n_rows x float[n_stored]        the columns that are used, inputs and targets; a missing
 *                                     value is NaN, a text its number in its column's list, or -1
 *     qn_csv_record[n_columns]        all columns of the file
 *     texts                           of each column its name, why it is left out, and its n_texts
 *     qn_csv_footer
 * What is understood follows from the whole file (scan.c, kinds.c) or from the columns of a
 * checkpoint, never from the first lines alone; what can be read in two ways is an error that says
 * which option decides. Memory does not grow with the rows. */
#ifndef QN_DATA_TABLE_TABLE_H
#define QN_DATA_TABLE_TABLE_H

#include "data/cache.h"
#include "data/table/encoding.h"
#include "data/table/values.h"
#include "format/csv.h"

enum {
    QN_CSV_MOST_TEXTS = 1024,    /* of a column that are told apart */
    QN_CSV_MOST_LABELS = 65536,  /* of a target's */
    QN_CSV_ONE_HOT = 64,         /* categories that have features of their own */
    QN_CSV_MOST_OF_SAMPLE = 4096 /* labels that a column of lists may have */
};

#define QN_CSV_MAGIC "quernCS3"

/* A group is kept as a hash of 48 bits in two places, a time as the step since the row before. */
typedef enum qn_csv_role {
    QN_CSV_INPUT,
    QN_CSV_TARGET,
    QN_CSV_LEFT_OUT,
    QN_CSV_GROUP,
    QN_CSV_TIME
} qn_csv_role;

/* What the targets of a file are. */
typedef enum qn_csv_targets {
    QN_CSV_NO_TARGETS,
    QN_CSV_CLASSES, /* a column of class numbers; its texts are their names, if they have any */
    QN_CSV_NUMBERS,
    QN_CSV_LABELS, /* a column of lists of labels (a|b) by their numbers, or columns of 0 and 1 */
} qn_csv_targets;

typedef struct qn_csv_record {
    int32_t role, kind; /* qn_csv_role, qn_column_kind */
    int32_t place;      /* in a row; -1: it is left out */
    int32_t n_texts;
    int64_t n_missing, n_values; /* distinct ones, where they were counted */
    int32_t is_day_first, n_classes;
} qn_csv_record;

typedef struct qn_csv_footer {
    char magic[8];
    int64_t n_rows, n_stored, n_columns;
    int64_t texts_bytes;
    int64_t n_dropped; /* rows without a target */
    int32_t encoding, targets, has_header;
    char separator, decimal, reserved[2];
} qn_csv_footer;

typedef struct qn_csv_options {
    const qn_allocator *allocator;
    const char *name;           /* of the file, for messages; null: its path */
    const qn_data_options *how; /* its fields of tables */
    const char *target;         /* null: how->target */
} qn_csv_options;

/* Numbers as they stand in a file, an example for each kind of marks. */
typedef struct qn_csv_marks {
    char of[QN_MARKS_COMMA_OR_GROUP + 1][32];
} qn_csv_marks;

void qn_csv_see_marks(qn_csv_marks *seen, const char *text);

/* The decimal mark that they show; 0: none does. A failure shows what can be either. */
qn_status qn_csv_choose_decimal(const qn_csv_marks *seen, const char *name, char *decimal);

/* How a table's file is written. */
typedef struct qn_csv_form {
    qn_encoding encoding;
    char separator, decimal; /* decimal 0: no number shows it */
} qn_csv_form;

/* Finds it by the first records, as qn_csv_convert does. */
qn_status qn_csv_find_form(const qn_csv_options *options, qn_file *source, qn_csv_form *form);

/* Tells the log where it is not plain. */
void qn_csv_tell_form(const qn_csv_form *form, const qn_log *log, const char *name);

/* Places of a row that a column of a role has. */
int qn_csv_places(int32_t role);

/* The two numbers of a group's text, and what they make up. */
void qn_csv_group_put(const char *text, float *places);
uint64_t qn_csv_group_of(const float *places);

/* A qn_derive; context: qn_csv_options. Failures name file, line and column. */
qn_status qn_csv_convert(void *context, qn_file *source, qn_sink sink);

#endif
