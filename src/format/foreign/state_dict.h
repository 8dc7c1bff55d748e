/* Weights that PyTorch saved: torch.save(model.state_dict(), FILE), as a zip file (since 1.6) or
 * one after another in the older way, read without running anything of the file (pickle.h). The
 * dictionary may be inside of others, as trainers save it ({"model": ..., "epoch": 3}). The reader
 * trusts nothing: places, shapes and strides outside of the data are refused.
 * Leaves out: whole modules, TorchScript, sparse and quantised tensors, big-endian files. */
#ifndef QN_FORMAT_FOREIGN_STATE_DICT_H
#define QN_FORMAT_FOREIGN_STATE_DICT_H

#include "base/memory.h"
#include "format/foreign/foreign_tensor.h"

typedef struct qn_state_dict {
    qn_arena arena;
    qn_foreign_tensor *tensors; /* (n_tensors), in the file's order; names differ */
    size_t n_tensors;
    const char *path;  /* of keys to the dictionary, "model"; "" for the outermost */
    const char *other; /* a class of the file that is not understood and was left out; or null */
} qn_state_dict;

/* Whether a file begins as one that torch.save wrote. */
bool qn_state_dict_is(const unsigned char *data, size_t n_bytes);

/* From the bytes of a file. key: the path of the dictionary that is meant; null: the only one with
 * tensors; several are an error that names them. The caller deinits, also after a failure. */
void qn_state_dict_init(qn_state_dict *dict, const qn_allocator *allocator);
qn_status qn_state_dict_parse(qn_state_dict *dict, const unsigned char *data, size_t n_bytes,
                              const char *key);
void qn_state_dict_deinit(qn_state_dict *dict);

#endif
