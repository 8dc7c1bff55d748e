/* What the other files of this folder know of a file that is open. */
#ifndef QN_OS_FILES_FILE_H
#define QN_OS_FILES_FILE_H

#include "os/os.h"

int qn_file_descriptor(const qn_file *file);

#endif
