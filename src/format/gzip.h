/* Unpacking gzip files as a stream. */
#ifndef QN_FORMAT_GZIP_H
#define QN_FORMAT_GZIP_H

#include "os/os.h"

/* Where bytes go. */
typedef struct qn_sink {
    void *context;
    qn_status (*put)(void *context, const void *data, size_t bytes);
} qn_sink;

/* Unpacks a gzip file (one member or several); CRC and length are checked. context is not used: it
 * is there so that data/cache.h can call it. */
qn_status qn_gzip_unpack(void *context, qn_file *source, qn_sink sink);

#endif
