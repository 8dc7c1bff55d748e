/* Arrays that are open as a source, for the files that make one up: npy.c reads samples,
 * npy_windows.c what makes several rows one sample, or keeps them on one side of the split,
 * npy_texts.c labels that are texts, npy_folder.c and npy_npz.c arrays of a folder and of one file.
 */
#ifndef QN_DATA_NPY_H
#define QN_DATA_NPY_H

#include "data/headers.h"
#include "data/source.h"
#include "data/windows/windows.h"
#include "format/gzip.h"

typedef struct qn_npy_array {
    qn_file *file;
    const char *path;     /* the user's, for messages: what file reads may be made of it */
    qn_npy_header header; /* of file, after it was made plain */
    char element[40];     /* what the user's file has: "float64" */
    bool is_input;        /* of standard input: nothing of it is kept */
    bool are_integers;    /* it has, of any size, or truths */
} qn_npy_array;

typedef struct qn_npy_source {
    qn_source_base base;
    qn_npy_array x, y;
    int64_t x_bytes, y_bytes; /* of a sample */
    int64_t planes;           /* channels that are to go last; 0: they are */
    size_t element_bytes;     /* of X */
    int n_targets;
    qn_npy_array group, time; /* of rows: what belongs together, when they were; file null: none */
    const int64_t *starts;    /* (n_starts) first rows of files; null: of one file */
    size_t n_starts;
    qn_windows windows; /* file null: a sample is a row */
} qn_npy_source;

/* Opens an array as it is in its file: of any type that can be read. */
qn_status qn_npy_open(qn_source_base *base, const char *path, qn_npy_array *array);

/* Sets what is told of an array by its header. */
void qn_npy_describe(qn_npy_array *array);

/* All numbers of an array as floats in C's order. */
qn_status qn_npy_put_floats(const qn_npy_header *header, qn_file *file, qn_sink sink);

/* Opens the arrays of a folder as one of floats, with classes and groups by row. */
qn_status qn_npy_open_folder(qn_npy_source *npy, const char *folder, qn_data_source *source);

/* Opens x, y, and the arrays of groups and times that options name, of a file of several. */
bool qn_npy_is_packed(const char *path);
qn_status qn_npy_open_npz(qn_npy_source *npy, const char *path);

/* A text of an array of them, as UTF-8. */
enum { QN_NPY_NAME = 1024 /* bytes, with the end */ };
qn_status qn_npy_read_text(const qn_npy_array *array, int64_t row, char name[QN_NPY_NAME]);
bool qn_npy_is_text(const qn_npy_header *header);

/* Makes an array of texts one of the numbers of classes that have the texts as names; to gets
 * these. */
qn_status qn_npy_name_classes(qn_source_base *base, qn_npy_array *array, qn_preparation *to);

/* A number of an array of one, from its bytes. */
double qn_npy_number(const qn_npy_header *header, const unsigned char *at);

/* The class of a row, or its n_targets numbers. */
qn_status qn_npy_read_targets(const qn_npy_source *npy, int64_t row, void *y);

/* Opens the arrays of groups and times that options name, and makes windows of the rows where
 * options ask for them. All else of the source is known. */
qn_status qn_npy_find_recordings(qn_npy_source *npy, qn_data_source *source);
void qn_npy_close_recordings(qn_npy_source *npy);

#endif
