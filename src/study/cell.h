/* A cell of a study: one model at one batch size, trained or run forward only, or one drip
 * training, with the contents of the file that its process wrote. A file has either the metrics of
 * a run (qn_report_json), the days of a drip training, or the reason why there are none:
 *     {"steps": 20, "step_ms_mean": 3.1, ...}   {"drip": {...}}   {"failed": "..."}
 * Reading any file gives either a cell or a failure that names the place. */
#ifndef QN_STUDY_CELL_H
#define QN_STUDY_CELL_H

#include "meter/results/measurement.h"
#include "quern/model.h"

typedef enum qn_cell_kind { QN_CELL_TRAINING, QN_CELL_INFERENCE, QN_CELL_DRIP } qn_cell_kind;

typedef enum qn_cell_state {
    QN_CELL_WAITING,
    QN_CELL_DONE,
    QN_CELL_FAILED,   /* its process died or gave up: reason */
    QN_CELL_LEFT_OUT, /* would not fit in memory: reason */
} qn_cell_state;

/* What the plan of a training step says before anything runs. */
typedef struct qn_demand {
    double bytes;          /* of the process that trains; 0: not worked out */
    double flops_per_step; /* forward, backward and update */
    double forward_flops;  /* of them */
} qn_demand;

enum { QN_DRIP_DAYS = 17, QN_DRIP_IMAGES = 64 }; /* the study's: new images a day */

/* After a day of a drip training; day 0: before the first. */
typedef struct qn_drip_day {
    double accuracy; /* 0 to 1, of the same test samples each day */
    double loss;
    int64_t became_right, became_wrong; /* samples, against day 0 */
} qn_drip_day;

typedef struct qn_drip {
    const char *model, *data;
    int64_t batch, n_pretraining, n_test; /* samples */
    int n_days;                           /* <= QN_DRIP_DAYS + 1, day 0 included */
    qn_drip_day days[QN_DRIP_DAYS + 1];
} qn_drip;

typedef struct qn_cell {
    qn_cell_kind kind;
    const qn_model *model;
    int64_t batch;
    qn_cell_state state;
    const char *reason; /* failed or left out; in texts or static */
    qn_demand demand;
    qn_measurement m; /* of a run that is done; all of it in texts */
    qn_drip drip;     /* of a drip training that is done */
    qn_arena texts;
} qn_cell;

void qn_cell_init(qn_cell *cell, const qn_allocator *allocator, qn_cell_kind kind,
                  const qn_model *model, int64_t batch);
void qn_cell_deinit(qn_cell *cell);

/* "lenet5-b4", "lenet5-b4-inference", "drip-b16": its file's name without ".json". */
void qn_cell_name(const qn_cell *cell, char *name, size_t bytes);

/* "lenet5, batch 4, inference": for people. */
void qn_cell_title(const qn_cell *cell, char *title, size_t bytes);

/* Fills state, reason and what was measured from the text of a file, which ends with 0; from names
 * it in messages. On failure the cell is as it was. */
qn_status qn_cell_parse(qn_cell *cell, const char *text, size_t bytes, const char *from);

/* The same from a file. */
qn_status qn_cell_read(qn_cell *cell, const char *path);

/* Writes {"failed": reason}, whole or not at all. */
qn_status qn_cell_write_failure(const char *path, const char *reason);

/* Writes the days of a drip training, whole or not at all. */
qn_status qn_drip_write(const qn_drip *drip, const char *path);

#endif
