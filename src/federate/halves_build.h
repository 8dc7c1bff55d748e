/* The halves of a network as graphs, and the engines that train them; see halves.h. */
#ifndef QN_FEDERATE_HALVES_BUILD_H
#define QN_FEDERATE_HALVES_BUILD_H

#include "federate/halves.h"
#include "os/files/room.h"

enum {
    QN_HALVES_PATIENCE = 60,  /* seconds that the other side may stay silent */
    QN_HALVES_HANDSHAKE = 10, /* seconds in which a connection must say what it wants */
    QN_HALVES_PATH = 4096,
    QN_ANSWER_BYTES = sizeof(double) + sizeof(int64_t), /* of an ANSWER, without a gradient */
};

/* Whether the network can be cut there and trained so. */
qn_status qn_halves_check(const qn_halves_options *options);

/* memory_bytes: limit of the engine; 0: none. */
qn_engine_options qn_halves_engine(const qn_halves_options *options, int n_threads,
                                   size_t memory_bytes);

/* Numbers of the cut's value, in a sample. */
qn_status qn_halves_count(const qn_halves_options *options, int64_t *n);

/* Makes the link's scratch for values of n numbers a sample; close gives it back, and ends the
 * encryption. The connection stays open. */
qn_status qn_halves_open_link(qn_link *link, int64_t n, const qn_halves_options *options);
void qn_halves_close_link(qn_link *link);

/* Adds the front over an input of its own: the value of the cut. */
qn_value qn_halves_front(qn_graph *graph, const qn_halves_options *options, int64_t batch);

/* Adds the back over an input in the cut's place, which wants a gradient in training, and labels:
 * the network's outputs. */
qn_value qn_halves_back(qn_graph *graph, const qn_halves_options *options, int64_t batch,
                        bool is_trained, qn_value *labels);

/* ---- checkpoints (halves_files.c) ---- */

/* A new random name. */
qn_status qn_halves_name_run(char run[QN_RUN_NAME]);

/* Writes a half with its run and settings beside the pairs (which may be null), into the room, and
 * keeps room for the next one where it can. room may be null. */
qn_status qn_halves_save(const qn_engine *engine, const qn_halves_options *options,
                         const qn_metadata *pairs, qn_room *room, const char *path);

/* Keeps room for such a file. */
qn_status qn_halves_keep_room(const qn_engine *engine, const qn_halves_options *options,
                              const qn_metadata *pairs, const char *path, qn_room **room);

/* Takes the run of a front's checkpoint. QN_ERROR_ARGUMENT: its settings are others. */
qn_status qn_halves_resume(const char *path, qn_halves_options *options);

/* Whether a back's checkpoint is of the run, with its settings, and its step. */
qn_status qn_halves_check_run(const char *path, const qn_halves_options *options, int64_t *step);

/* Where the checkpoint before the one at path is kept. */
qn_status qn_halves_before(const char *path, char before[QN_HALVES_PATH]);

/* Copies the checkpoint at path there, where there is one. */
qn_status qn_halves_keep(const char *path);

#endif
