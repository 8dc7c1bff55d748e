/* A predictor over all samples of a data set: tables, arrays, texts, sounds. */
#ifndef QN_TASKS_ROWS_PREDICT_H
#define QN_TASKS_ROWS_PREDICT_H

#include "quern/checkpoint.h"
#include "quern/data.h"
#include "quern/predictor.h"

/* How its samples are prepared; as long as the predictor is open. */
const qn_preparation *qn_predictor_preparation(const qn_predictor *predictor);

/* Those of its checkpoint, or null. */
const qn_metadata *qn_predictor_settings(const qn_predictor *predictor);

/* A setting of its checkpoint, or null. */
const char *qn_predictor_setting(const qn_predictor *predictor, const char *name);

/* Whether the weights tell things that are none of their classes; and whether the first sample of
 * the last prediction is one. */
bool qn_predictor_tells_unknown(const qn_predictor *predictor);
bool qn_predictor_is_unknown(const qn_predictor *predictor);

/* The rows of the data, from 0, that a sample is: several, where it is a window. */
typedef struct qn_sample_rows {
    int64_t first, n;
} qn_sample_rows;

/* Takes the outputs of a sample; a failure ends the prediction. */
typedef qn_status qn_take_outputs(void *user, qn_sample_rows of, const float *outputs);

/* Opens the data without what is to be predicted, its columns by the checkpoint's names, and gives
 * the outputs of each sample in turn. form: how the file is written (header, separator, decimal,
 * dates), and where recordings end in it (group, time; null: as the checkpoint says). batch is the
 * predictor's. */
qn_status qn_predict_all(qn_predictor *predictor, const char *data, const qn_data_options *form,
                         int64_t batch, qn_take_outputs *take, void *user);

#endif
