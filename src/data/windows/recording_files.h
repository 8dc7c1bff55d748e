/* A folder of recordings, a file each: CLASS/FILE, whose classes are the folders, or files beside
 * each other. They are in the order of their names. Hidden files are passed over, others that are
 * no recordings are counted. */
#ifndef QN_DATA_WINDOWS_RECORDING_FILES_H
#define QN_DATA_WINDOWS_RECORDING_FILES_H

#include "data/source.h"

enum { QN_RECORDING_CLASS = 256 };

typedef struct qn_recording_files {
    const char *folder;
    const char **paths; /* (n) below the folder, in the source's arena */
    size_t n, capacity;
    int64_t n_passed; /* files that are no recordings */
    bool have_classes;
} qn_recording_files;

typedef struct qn_recording_kind {
    const char *format; /* what --data begins with */
    const char *wanted; /* "tables" */
    const char *form;   /* how they lie */
    bool (*is_wanted)(const char *name);
} qn_recording_kind;

/* What it holds is released by deinit, also on failure. */
qn_status qn_recording_files_list(qn_source_base *base, const char *folder,
                                  const qn_recording_kind *kind, qn_recording_files *files);
void qn_recording_files_deinit(const qn_source_base *base, qn_recording_files *files);

/* The class of a file: the folder that it lies in. */
void qn_recording_class(const qn_recording_files *files, size_t i, char name[QN_RECORDING_CLASS]);

/* A number that other files, or files that were changed, do not share: of their names, sizes and
 * times. */
uint64_t qn_recording_files_key(const qn_recording_files *files);

#endif
