/* Replacing whole files; see os.h and room.h. After a full disk, a kill or a power cut, a file is
 * either the old one or all of the new one: write an unnamed file in the target's folder, sync it,
 * link it as NAME.quern-tmp, rename it over the target, sync the folder. File systems without
 * unnamed files (vfat, exFAT, NFS) get NAME.quern-tmp from the start (target.h). Symbolic links are
 * followed: their target is replaced. */
#define _GNU_SOURCE /* syncfs, renameat2 */

#include "base/status.h"
#include "os/files/room.h"
#include "os/files/target.h"
#include "os/files/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct replacement {
    qn_target to;
    qn_writer writer;
    bool is_nameless, is_named; /* has no name yet; has the temporary name */
    bool is_private, is_roomy;  /* longer than what is written, perhaps */
} replacement;

static qn_status fail_at(const char *what, const char *path) {
    return qn_fail(QN_ERROR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

static qn_status write_stream(int stream, const char *path, qn_status (*write)(void *, qn_writer *),
                              void *context) {
    qn_writer writer = {.path = path, .descriptor = stream};
    fflush(stdout);
    QN_TRY(write(context, &writer));
    return qn_writer_flush(&writer);
}

static qn_status open_temporary(replacement *r, qn_room *room) {
    r->writer.path = r->to.path;
    r->writer.descriptor = room ? qn_room_take(room, &r->to) : -1;
    r->is_roomy = r->writer.descriptor >= 0;
    if (!r->is_roomy)
        r->writer.descriptor = qn_target_open_nameless(&r->to);
    r->is_nameless = r->writer.descriptor >= 0;
    if (r->is_nameless)
        return QN_OK;
    if (errno == EROFS)
        return fail_at("create", r->to.path);
    QN_TRY(qn_target_open_named(&r->to, &r->writer.descriptor));
    r->is_named = true;
    return QN_OK;
}

/* The new file belongs to whom the old one did, and may be read by the same, where that can be. */
static void keep_rights(const replacement *r) {
    const struct stat *old = &r->to.old;
    struct stat made;
    if (r->is_private)
        (void)fchmod(r->writer.descriptor, 0600);
    if (r->is_private || !r->to.exists || fstat(r->writer.descriptor, &made) != 0)
        return;
    const bool is_other = made.st_uid != old->st_uid || made.st_gid != old->st_gid;
    if (is_other && fchown(r->writer.descriptor, old->st_uid, old->st_gid) != 0)
        return;
    (void)fchmod(r->writer.descriptor, old->st_mode & 0777);
}

static qn_status give_name(replacement *r) {
    QN_TRY(qn_target_name(&r->to, r->writer.descriptor));
    r->is_named = true;
    return QN_OK;
}

static qn_status put_in_place(replacement *r) {
    if (r->is_nameless)
        QN_TRY(give_name(r));
    if (rename(r->to.temporary, r->to.path) != 0)
        return qn_fail(QN_ERROR_IO, "cannot rename %s to %s: %s", r->to.temporary, r->to.path,
                       strerror(errno));
    r->is_named = false;
    return QN_OK;
}

qn_status qn_entry_sync(const char *path, int file) {
    char folder[PATH_MAX];
    qn_path_folder(path, folder);
    const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool is_synced = descriptor >= 0 && qn_descriptor_sync(descriptor);
    const qn_status status =
        is_synced || syncfs(file) == 0 ? QN_OK : fail_at("sync the folder of", path);
    if (descriptor >= 0)
        close(descriptor);
    return status;
}

/* Gives back what a file of a room has behind what was written. */
static qn_status cut(const replacement *r) {
    const off_t written = r->is_roomy ? lseek(r->writer.descriptor, 0, SEEK_CUR) : -1;
    if (!r->is_roomy || (written >= 0 && ftruncate(r->writer.descriptor, written) == 0))
        return QN_OK;
    return fail_at("write", r->to.path);
}

static qn_status replace(replacement *r, qn_room *room, qn_status (*write)(void *, qn_writer *),
                         void *context) {
    QN_TRY(open_temporary(r, room));
    keep_rights(r); /* before the first byte is in it */
    QN_TRY(write(context, &r->writer));
    QN_TRY(qn_writer_flush(&r->writer));
    QN_TRY(cut(r));
    QN_TRY(qn_writer_sync(&r->writer));
    QN_TRY(put_in_place(r));
    return qn_entry_sync(r->to.path, r->writer.descriptor);
}

static void end(replacement *r) {
    if (r->is_named)
        unlink(r->to.temporary);
    if (r->writer.descriptor >= 0)
        close(r->writer.descriptor);
}

static qn_status replace_file(const char *path, bool is_private, qn_room *room,
                              qn_status (*write)(void *context, qn_writer *writer), void *context) {
    replacement r = {.writer.descriptor = -1, .is_private = is_private};
    QN_TRY(qn_target_find(path, &r.to));
    const qn_status status = replace(&r, room, write, context);
    end(&r);
    return status;
}

qn_status qn_file_replace(const char *path, qn_status (*write)(void *context, qn_writer *writer),
                          void *context) {
    return replace_file(path, false, NULL, write, context);
}

qn_status qn_file_replace_private(const char *path,
                                  qn_status (*write)(void *context, qn_writer *writer),
                                  void *context) {
    return replace_file(path, true, NULL, write, context);
}

qn_status qn_file_replace_in(qn_room *room, const char *path,
                             qn_status (*write)(void *context, qn_writer *writer), void *context) {
    return replace_file(path, false, room, write, context);
}

qn_status qn_file_write(const char *path, qn_status (*write)(void *context, qn_writer *writer),
                        void *context) {
    const int stream = qn_target_stream(path);
    return stream >= 0 ? write_stream(stream, path, write, context)
                       : qn_file_replace(path, write, context);
}

qn_status qn_file_move(const char *from, const char *to) {
    qn_target t;
    QN_TRY(qn_target_find(to, &t));
    const int moved = open(from, O_RDONLY | O_CLOEXEC);
    if (moved < 0)
        return fail_at("open", from);
    qn_status status =
        rename(from, t.path) == 0 ? qn_entry_sync(t.path, moved) : fail_at("replace", t.path);
    close(moved);
    return status;
}

/* Where the file system knows no such renaming: a second name, then the first one is taken away. */
static int rename_new(const char *from, const char *to) {
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    return link(from, to) == 0 ? unlink(from) : -1;
}

qn_status qn_file_move_new(const char *from, const char *to, bool *is_there) {
    struct stat old;
    *is_there = false;
    if (lstat(from, &old) != 0)
        return fail_at("open", from);
    if (!S_ISREG(old.st_mode))
        return qn_fail(QN_ERROR_IO, "%s is no regular file, and stays where it is", from);
    const int moved = open(from, O_RDONLY | O_CLOEXEC);
    if (moved < 0)
        return fail_at("open", from);
    qn_status status = QN_OK;
    if (rename_new(from, to) != 0) {
        *is_there = errno == EEXIST;
        status = fail_at("move to", to);
    }
    if (status == QN_OK)
        status = qn_entry_sync(to, moved);
    if (status == QN_OK)
        status = qn_entry_sync(from, moved);
    close(moved);
    return status;
}

/* ---- trying ---- */

qn_status qn_file_check_target(const char *path, bool may_be_stream) {
    replacement r = {.writer.descriptor = -1};
    struct stat status;
    if (may_be_stream && qn_target_stream(path) >= 0)
        return fstat(qn_target_stream(path), &status) == 0 ? QN_OK : fail_at("write", path);
    QN_TRY(qn_target_find(path, &r.to));
    QN_TRY(qn_target_clear(&r.to));
    qn_status tried = open_temporary(&r, NULL);
    if (tried == QN_OK && r.is_nameless)
        tried = give_name(&r);
    end(&r);
    return tried;
}
