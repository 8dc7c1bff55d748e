/* Loads weights that another program saved, as safetensors or by torch.save, into the parameters of
 * an engine: by a map of names, with other layouts rearranged, and F16, BF16 and F64 converted to
 * the engine's type. Everything is checked before the first parameter is loaded, and every tensor
 * without a counterpart is named, on both sides. Leaves out: sharded files, other types, one tensor
 * for several parameters. */
#ifndef QN_FORMAT_FOREIGN_WEIGHTS_H
#define QN_FORMAT_FOREIGN_WEIGHTS_H

#include "format/foreign/name_map.h"
#include "quern/engine.h"

typedef struct qn_foreign_options {
    const qn_name_map *map; /* null: names are equal */
    const char *key;        /* of PyTorch's file: path of the dictionary; null: the only one */
    bool is_partial;        /* parameters that nothing goes to stay as they are */
    void *user;
    void (*tell)(void *user, const char *line); /* each tensor that does not fit; may be null */
} qn_foreign_options;

/* Tensors of the file that were used and that the map leaves out; parameters that were filled and
 * that stayed as they were. */
typedef struct qn_foreign_counts {
    int64_t n_used, n_left_out, n_filled, n_kept;
    char key[128];   /* of PyTorch's file: path of the dictionary; "": the file is one */
    char other[128]; /* a class in it that was not read; "": none */
} qn_foreign_counts;

qn_status qn_foreign_weights_load(qn_engine *engine, const char *path,
                                  const qn_foreign_options *options, qn_foreign_counts *counts);

#endif
