/* Checkpoints: safetensors files with weights, optimiser state and, as text pairs, everything
 * needed to resume a run. A reader sees the old file or the complete new one.
 *
 * Threads: one call at a time per metadata object, and no call to the engine meanwhile. */
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
/* The pair with an index from 0; null if there is none. */
QN_API void qn_metadata_at(const qn_metadata *metadata, int index, const char **key,
                           const char **value);

/* The preparation as pairs "preparation.*", and back. The result's arrays live in metadata. */
QN_API qn_status qn_metadata_set_preparation(qn_metadata *metadata,
                                             const qn_preparation *preparation);
QN_API qn_status qn_metadata_get_preparation(qn_metadata *metadata, qn_preparation *preparation);

/* Writes all tensors of the engine, its step and the pairs, sorted by key: equal content gives
 * equal bytes. For an engine with adapters, only the tensors that training changes: the file
 * belongs to the weights that training began with. With the pair "lora_base" = "inside", all
 * tensors: for weights that neither a file nor the model has. */
QN_API qn_status qn_checkpoint_save(const qn_engine *engine, const qn_metadata *metadata,
                                    const char *path);

/* Reads the pairs only ("step" among them). */
QN_API qn_status qn_checkpoint_read(const qn_allocator *allocator, const char *path,
                                    qn_metadata **metadata);

/* Fills the engine's tensors and step. with_state false: only weights (the file need not contain
 * optimiser state). A file of another model is refused, naming the first tensor that differs,
 * and nothing changes. If the engine has adapters, tensors missing from an adapter's file stay
 * as they are. */
QN_API qn_status qn_checkpoint_load(qn_engine *engine, const char *path, bool with_state);

/* Fills the parameters with initial weights (F32, F64, F16 or BF16) from a file of the same
 * network; the step stays 0. Adapters missing from the file, and the head if tuning.head names it,
 * are initialised. Returns the number of tensors that were loaded and initialised. */
QN_API qn_status qn_checkpoint_begin(qn_engine *engine, const char *path, int *n_loaded,
                                     int *n_new);

/* Likewise, but the head takes its first n_kept outputs from the file, whose head has so many; only
 * those behind them are initialised. n_kept 0: all of it is. */
QN_API qn_status qn_checkpoint_begin_grown(qn_engine *engine, const char *path, int n_kept,
                                           int *n_loaded, int *n_new);

/* Fills the parameters with the weights on which a checkpoint with these pairs is based: for an
 * adapter, those that its training began with, whose path the pairs contain. Does nothing for
 * other checkpoints. path: the adapter's, for messages. */
QN_API qn_status qn_checkpoint_load_base(qn_engine *engine, const qn_metadata *pairs,
                                         const char *path);

/* Merges every adapter into its weight, W + alpha / rank * B A (B becomes zero, the function of
 * the network stays the same), and writes the weights without adapters and state. Pairs about
 * fine-tuning are omitted. */
QN_API qn_status qn_checkpoint_save_merged(qn_engine *engine, const qn_metadata *metadata,
                                           const char *path);

#ifdef __cplusplus
}
#endif
#endif
