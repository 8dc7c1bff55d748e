/* Files derived once from others and kept in the user's cache folder: unpacked gzip, parsed CSV. A
 * derived file is found by path, size and time of its source, so it is rebuilt when the source
 * changes, or when it is damaged. It appears complete or not at all, so two processes may derive it
 * at once. If the folder is not writable, it is derived for this run only. */
#ifndef QN_DATA_CACHE_H
#define QN_DATA_CACHE_H

#include "data/source.h"
#include "format/gzip.h"
#include "os/os.h"

/* Derives: reads source, gives all bytes to sink. qn_gzip_unpack is one. */
typedef qn_status qn_derive(void *context, qn_file *source, qn_sink sink);

/* Opens what derive makes of the file at path, deriving it first if it is not there. variant tells
 * apart what is derived of one source, as "gunzip". */
qn_status qn_cache_open(const qn_source_base *base, const char *path, const char *variant,
                        qn_derive *derive, void *context, qn_file **file);

/* The same of a file that is open. */
qn_status qn_cache_open_of(const qn_source_base *base, qn_file *source, const char *variant,
                           qn_derive *derive, void *context, qn_file **file);

/* What derive makes of a file, for this run alone. */
qn_status qn_cache_make(const qn_source_base *base, qn_file *source, qn_derive *derive,
                        void *context, qn_file **file);

/* Standard input, which can be read once, as a file of this run; for data to predict on. */
qn_status qn_data_open_input(const qn_source_base *base, qn_file **file);

/* Opens a file, through the cache if its name ends in .gz. */
qn_status qn_data_open_file(const qn_source_base *base, const char *path, qn_file **file);

#endif
