/* Checkpoints of a run that keeps room on the disk for them. */
#ifndef QN_FORMAT_CHECKPOINT_H
#define QN_FORMAT_CHECKPOINT_H

#include "os/files/room.h"
#include "quern/checkpoint.h"

/* Keeps room for the checkpoints of a run at path, with what settings may grow by. The allocator is
 * not the engine's, whose budget was planned before. */
qn_status qn_checkpoint_keep_room(const qn_allocator *allocator, const qn_engine *engine,
                                  const qn_metadata *metadata, const char *path, qn_room **room);

/* qn_checkpoint_save, into that room; null: none. */
qn_status qn_checkpoint_save_in(qn_room *room, const qn_engine *engine, const qn_metadata *metadata,
                                const char *path);

#endif
