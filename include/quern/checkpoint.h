/* Checkpoints: safetensors files with weights, optimiser state and, as text pairs, everything that
 * a run needs to go on. Written so that a reader sees the old file or the whole new one. */
#ifndef QUERN_CHECKPOINT_H
#define QUERN_CHECKPOINT_H

#include "quern/data.h"
#include "quern/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Text pairs kept beside the tensors: settings, preparation. */
typedef struct qn_metadata qn_metadata;

QN_API qn_status qn_metadata_create(const qn_allocator *allocator, qn_metadata **metadata);
QN_API void qn_metadata_destroy(qn_metadata *metadata);
QN_API qn_status qn_metadata_set(qn_metadata *metadata, const char *key, const char *value);
QN_API const char *qn_metadata_get(const qn_metadata *metadata, const char *key); /* or null */
QN_API int qn_metadata_count(const qn_metadata *metadata);
QN_API void qn_metadata_at(const qn_metadata *metadata, int index, const char **key,
                           const char **value);

/* The preparation as pairs "preparation.*", and back. The result's arrays live in metadata. */
QN_API qn_status qn_metadata_set_preparation(qn_metadata *metadata,
                                             const qn_preparation *preparation);
QN_API qn_status qn_metadata_get_preparation(qn_metadata *metadata, qn_preparation *preparation);

/* Writes all tensors of the engine, its step and the pairs (sorted by key: equal content gives
 * equal bytes). Of an engine with adapters only what training changes: the file goes on top of the
 * weights that training began with. */
QN_API qn_status qn_checkpoint_save(const qn_engine *engine, const qn_metadata *metadata,
                                    const char *path);

/* Reads the pairs only ("step" among them). */
QN_API qn_status qn_checkpoint_read(const qn_allocator *allocator, const char *path,
                                    qn_metadata **metadata);

/* Fills the engine's tensors and step. with_state false: weights only (a file without optimiser
 * state is fine). A file of another model is refused; the first tensor that differs is named and
 * nothing is changed. Into an engine with adapters, a file that leaves out what they stand beside
 * leaves that as it is. */
QN_API qn_status qn_checkpoint_load(qn_engine *engine, const char *path, bool with_state);

/* Fills the parameters with weights to begin with, of a file of the same network, and leaves the
 * step at 0. Adapters that are not in it and the head, where tuning.head says which it is, begin
 * anew. Says how many tensors were filled and how many begin anew. */
QN_API qn_status qn_checkpoint_begin(qn_engine *engine, const char *path, int *n_loaded,
                                     int *n_new);

/* Fills the parameters with what a checkpoint with these pairs stands on: of an adapter the weights
 * that its training began with, whose path they hold. Nothing to do for others. path: the
 * adapter's, for messages. */
QN_API qn_status qn_checkpoint_load_base(qn_engine *engine, const qn_metadata *pairs,
                                         const char *path);

/* Puts every adapter into its weight, W + alpha / rank * B A, after which B is zero and the engine
 * computes what it did, and writes the weights without adapters and state. Pairs that say how it
 * was tuned are left out. */
QN_API qn_status qn_checkpoint_save_merged(qn_engine *engine, const qn_metadata *metadata,
                                           const char *path);

#ifdef __cplusplus
}
#endif
#endif
