/* Samples of rows that follow each other: windows over long recordings of steps of time.
 *
 * A recording ends where the group changes, where time goes back, is unknown or jumps by more than
 * three times its usual step (the median), where another file begins, and, of windows of one label,
 * where the label changes.
 * No window lies in two recordings. Where samples are held out and nothing else groups them,
 * recordings are cut into blocks of some eight windows, and no window lies in two blocks: windows
 * that overlap are on one side of the split.
 *
 * What is kept of a window is its first row, what it is held out by, and its targets, in a file
 * without a name: no row is copied, and memory does not grow with the rows. Leaves out how rows are
 * read. */
#ifndef QN_DATA_WINDOWS_WINDOWS_H
#define QN_DATA_WINDOWS_WINDOWS_H

#include "data/source.h"
#include "os/os.h"

/* What a window's targets are, by those of its rows. */
typedef enum qn_window_label {
    QN_WINDOW_MAJORITY, /* the class of most rows, of equally many the later one; rows without a
                           label do not count; of several labels each by itself */
    QN_WINDOW_LAST,
    QN_WINDOW_MEAN, /* of numbers */
    QN_WINDOW_SAME  /* a recording ends where the label changes */
} qn_window_label;

typedef struct qn_window_row {
    uint64_t group;
    float step; /* since the row before; NaN: unknown */
} qn_window_row;

/* The rows that windows are made of. */
typedef struct qn_window_rows {
    int64_t n;
    int n_values;     /* targets of a row: a class is one */
    bool are_classes; /* else numbers, or labels of 0 and 1 */
    bool are_labels;
    bool may_lack;         /* windows without a target count all the same */
    const char *group;     /* what tells recordings apart; null: nothing */
    const char *time;      /* likewise what steps are of */
    const int64_t *starts; /* (n_starts) rows at which a recording begins, rising; null: unknown */
    size_t n_starts;
    void *context;
    /* A row, and its n_values targets; NaN: it has none. */
    qn_status (*read)(void *context, int64_t index, qn_window_row *row, float *targets);
    /* A number that rows of equal content share. */
    qn_status (*look)(void *context, int64_t index, uint64_t *content);
} qn_window_rows;

typedef struct qn_windows {
    qn_file *file;
    int64_t n;              /* windows */
    int64_t length, stride; /* rows */
    int n_values;
    bool are_classes;
} qn_windows;

/* Makes the windows that the options of base ask for, and tells how many there are. of: the file
 * that the rows are of, for messages. name: the data's. */
qn_status qn_windows_open(qn_source_base *base, qn_file *of, const char *name,
                          const qn_window_rows *rows, qn_windows *windows);
void qn_windows_close(qn_windows *windows);

/* A window's first row; its targets, a class or numbers, to y; what it is held out by. y and unit
 * may be null. */
qn_status qn_windows_read(const qn_windows *windows, int64_t index, int64_t *first, void *y,
                          uint64_t *unit);

#endif
