/* Room on the disk for a file that will be written later, so that a full disk is found before the
 * work and not after it: a file without a name in the folder of the target, for which the file
 * system has set its blocks aside. The target is written into it. A kill leaves nothing. Where the
 * file system sets no blocks aside, zeros are written. Leaves out: file systems that write changed
 * blocks elsewhere (btrfs, ZFS) may still be full later; and another program may fill the disk
 * between a file and the room for the next one, and where a nameless file can get no name (vfat,
 * NFS) just before a file is written. */
#ifndef QN_OS_FILES_ROOM_H
#define QN_OS_FILES_ROOM_H

#include "os/files/target.h"
#include "os/os.h"

typedef struct qn_room qn_room;

/* Keeps so many bytes for the file at path. A disk, or quota, without them is QN_ERROR_IO. */
qn_status qn_room_open(const qn_allocator *allocator, const char *path, int64_t bytes,
                       qn_room **room);
void qn_room_close(qn_room *room);

/* Whether there is room for so many bytes now, which is not kept. */
qn_status qn_room_try(const qn_allocator *allocator, const char *path, int64_t bytes);

/* Gives it back to the disk, until it is renewed. room may be null. */
void qn_room_give(qn_room *room);

/* Keeps as much again after a file was written into it, or was to be. room may be null. */
qn_status qn_room_renew(qn_room *room);

/* qn_file_replace, into the room where it is kept on the same disk; else the room is given back to
 * the disk first. room may be null. */
qn_status qn_file_replace_in(qn_room *room, const char *path,
                             qn_status (*write)(void *context, qn_writer *writer), void *context);

/* The descriptor of the file that is kept, empty, which is the caller's now; -1: there is none that
 * could become the target, and the room is given back. */
int qn_room_take(qn_room *room, const qn_target *target);

#endif
