/* Which file a path means: a name, a hard link to it, a symbolic link and another spelling on a
 * file system without upper case are the same file. */
#ifndef QN_OS_FILES_IDENTITY_H
#define QN_OS_FILES_IDENTITY_H

#include "quern/base.h"

typedef struct qn_file_identity {
    uint64_t device, number;
} qn_file_identity;

/* Links are followed. False: there is nothing. */
bool qn_file_identify(const char *path, qn_file_identity *identity);

bool qn_file_is_same(qn_file_identity a, qn_file_identity b);

/* Whether a folder holds the file at any depth, under whatever name. Folders that are links are not
 * entered, nor those that may not be read. */
bool qn_folder_holds(const char *folder, qn_file_identity wanted);

/* Whether two paths, at which there is nothing yet, will be one file: the same name in the same
 * folder. Names that differ in case alone count as equal, since on some file systems they are. */
bool qn_path_is_same(const char *a, const char *b);

#endif
