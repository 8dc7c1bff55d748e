/* See room.h. */
#define _GNU_SOURCE /* fallocate */

#include "os/files/room.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/files/writer.h"
#include "os/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 * 1024 };

struct qn_room {
    const qn_allocator *allocator;
    int64_t bytes;
    int descriptor;    /* -1: nothing is kept */
    bool is_nameable;  /* what is kept can get a name */
    size_t path_bytes; /* of the target's path */
    char path[];       /* (path_bytes) */
};

/* ---- blocks ---- */

static bool is_full(int error) {
    return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
}

/* Whether the file system has set blocks aside; false: errno says why not. The file stays empty
 * where it can. */
static bool set_aside(int descriptor, int64_t bytes) {
    const int modes[] = {FALLOC_FL_KEEP_SIZE, 0};
    int result = -1;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        do
            result = fallocate(descriptor, modes[i], 0, (off_t)bytes);
        while (result != 0 && errno == EINTR);
        if (result == 0 || is_full(errno))
            break;
    }
    return result == 0;
}

static bool write_zeros(int descriptor, int64_t bytes) {
    static const char zeros[PIECE_BYTES];
    while (bytes > 0) {
        const ssize_t n =
            write(descriptor, zeros, bytes < PIECE_BYTES ? (size_t)bytes : PIECE_BYTES);
        if (n < 0 && errno != EINTR)
            return false;
        bytes -= n > 0 ? n : 0;
    }
    /* Some disks are known to be full only when the blocks are written there. */
    return qn_descriptor_sync(descriptor) && lseek(descriptor, 0, SEEK_SET) == 0;
}

static qn_status fail_full(const qn_room *room, int descriptor) {
    const int error = errno;
    struct statvfs disk;
    char free_text[64] = "";
    if (fstatvfs(descriptor, &disk) == 0)
        snprintf(free_text, sizeof free_text, " of %" PRIu64 " that are free",
                 (uint64_t)disk.f_bavail * disk.f_frsize);
    return qn_fail(QN_ERROR_IO,
                   "cannot keep %" PRId64 " bytes%s for %s: %s; make room, or choose another disk",
                   room->bytes, free_text, room->path, strerror(error));
}

/* ---- rooms ---- */

/* A file without a name: one that could get one, or whose name is removed at once. */
static qn_status open_unnamed(qn_room *room) {
    qn_target target;
    QN_TRY(qn_target_find(room->path, &target));
    room->descriptor = qn_target_open_nameless(&target);
    room->is_nameable = room->descriptor >= 0;
    if (room->is_nameable)
        return QN_OK;
    QN_TRY(qn_target_open_named(&target, &room->descriptor));
    unlink(target.temporary);
    return QN_OK;
}

static void give_back(qn_room *room) {
    if (room->descriptor >= 0)
        close(room->descriptor);
    room->descriptor = -1;
}

qn_status qn_room_renew(qn_room *room) {
    if (!room || room->descriptor >= 0)
        return QN_OK;
    QN_TRY(open_unnamed(room));
    if (set_aside(room->descriptor, room->bytes) ||
        (!is_full(errno) && write_zeros(room->descriptor, room->bytes)))
        return QN_OK;
    const qn_status status = fail_full(room, room->descriptor);
    give_back(room);
    return status;
}

qn_status qn_room_open(const qn_allocator *allocator, const char *path, int64_t bytes,
                       qn_room **room) {
    const size_t path_bytes = strlen(path) + 1;
    qn_room *r;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *r + path_bytes, &r));
    *r = (qn_room){allocator, .bytes = bytes, .descriptor = -1, .path_bytes = path_bytes};
    memcpy(r->path, path, path_bytes);
    const qn_status status = qn_room_renew(r);
    if (status != QN_OK) {
        qn_room_close(r);
        return status;
    }
    *room = r;
    return QN_OK;
}

void qn_room_close(qn_room *room) {
    if (!room)
        return;
    give_back(room);
    qn_release(room->allocator, room, 1, sizeof *room + room->path_bytes);
}

void qn_room_give(qn_room *room) {
    if (room)
        give_back(room);
}

qn_status qn_room_try(const qn_allocator *allocator, const char *path, int64_t bytes) {
    qn_room *room = NULL;
    const qn_status status = qn_room_open(allocator, path, bytes, &room);
    qn_room_close(room);
    return status;
}

int qn_room_take(qn_room *room, const qn_target *target) {
    struct stat kept, folder;
    const int taken = room->descriptor;
    if (taken < 0)
        return -1;
    if (room->is_nameable && fstat(taken, &kept) == 0 && stat(target->folder, &folder) == 0 &&
        kept.st_dev == folder.st_dev) {
        room->descriptor = -1;
        return taken;
    }
    give_back(room);
    return -1;
}
