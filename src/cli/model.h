/* The model named on the command line: one of the zoo, an ONNX file, which is imported, or a
 * language model: a GGUF file or a folder of Hugging Face's. */
#ifndef QN_CLI_MODEL_H
#define QN_CLI_MODEL_H

#include "cli/options.h"
#include "format/plan_file.h"
#include "quern/checkpoint.h"
#include "quern/model.h"

/* By name, or from the file that the name is of, which stays open until the program ends:
 * for the task that the data is for, or, where that does not say it, the file or its inputs. data
 * may be null. */
qn_status model_find(const char *name, const char *data, const qn_model **model);

/* Whether a name is of a file with weights: ".onnx", or a language model's. */
bool model_is_file(const char *name);

/* How the ONNX file that is imported next is read: by a command's options, and, where these do not
 * say it, by the settings of a checkpoint (null: none), whose texts stay the caller's, or of a
 * plan. */
void model_read_options(const arguments *a);
void model_read_kept(const qn_metadata *kept);
qn_status model_read_plan(const qn_plan_file *plan);
const struct qn_onnx_options *model_import_options(void);

/* The same where the command line has any of the options of ONNX files; or null. */
const struct qn_onnx_options *model_given_options(void);

/* QN_ERROR_ARGUMENT where an option of ONNX files was given though the model is none. */
qn_status model_check_built_in(const char *name);

/* The task of data that are for one alone ("text:FILE": "language"), or null. */
const char *model_task_of_data(const char *data);

/* qn_task_read_network of the file that is imported; nothing of other models. */
qn_status model_add_pairs(const qn_model *model, bool training, qn_metadata *pairs);

/* Sixteen digits that tell a file's content from another's; null for models of the zoo. */
const char *model_hash(const qn_model *model);

/* The network that an ONNX file's model is of; null for models of the zoo. */
const struct qn_onnx_network *model_network(const qn_model *model);

/* QN_ERROR_FORMAT where a checkpoint is of an ONNX file with another content, or of another model
 * than this file. kept null: there is none. */
qn_status model_check(const qn_model *model, const qn_metadata *kept, const char *path);

/* Says what of an ONNX file will train; QN_ERROR_ARGUMENT where nothing would. */
qn_status model_say(const qn_model *model);

#endif
