/* What a model, or the weights of a checkpoint, will do with data that are looked at: whether their
 * shape fits, which columns and classes are found by name, what was held out. */
#ifndef QN_CLI_LOOK_WEIGHTS_H
#define QN_CLI_LOOK_WEIGHTS_H

#include "cli/look/lines.h"
#include "cli/options.h"
#include "data/look/look.h"
#include "quern/model.h"
#include "tasks/tasks.h"

typedef struct weights {
    const char *name;      /* as it was given; null: there are none */
    const char *path;      /* of a checkpoint; null: a model alone */
    const qn_model *model; /* that exists by name; null: of a file */
    qn_metadata *pairs;    /* of the checkpoint */
    qn_known_data known;   /* what data were opened by */
    bool is_own_data;      /* what the checkpoint was trained on */
} weights;

/* The checkpoint that a word means: itself, or the best of a run's folder. */
qn_status weights_find(const char *word, qn_arena *texts, const char **path);

/* word: a checkpoint, a run's folder or a model's name; data: full name of what is looked at. All
 * zero is no weights; deinit after the source is closed, also on failure. */
qn_status weights_read(const char *word, const char *data, qn_arena *texts, weights *w);
void weights_deinit(weights *w);

/* Adds those settings of reading to settings that a checkpoint keeps and nobody gave. */
qn_status weights_keep_settings(const weights *w, qn_metadata *settings);

/* Opens data as the weights need them. */
qn_status weights_open_data(weights *w, const char *data, const qn_data_options *how,
                            qn_data_source *source);

/* Lines to where they go, unless that is null, and with is_json entries of the JSON object that is
 * being written. Fails where the shape does not fit. To be called once. */
qn_status weights_print(const weights *w, const qn_metadata *settings, qn_data_source *source,
                        const qn_look *look, bool is_json, const look_lines *to);

#endif
