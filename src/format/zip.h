/* Zip files (PKWARE's APPNOTE, 4.3; sizes beyond 32 bits, 4.5.3) in memory: what the list at the
 * end says there is, and where an entry's bytes are. The reader trusts nothing: lists, sizes and
 * places outside of the file are refused, and all entries together have no more bytes than the
 * file. Leaves out: unpacking, encrypted entries, archives in several files. */
#ifndef QN_FORMAT_ZIP_H
#define QN_FORMAT_ZIP_H

#include "quern/base.h"

enum { QN_ZIP_STORED = 0, QN_ZIP_DEFLATED = 8 };

/* kind and advice are for messages: "a .npz file", "write it with numpy.savez". */
typedef struct qn_zip {
    const unsigned char *data;
    uint64_t bytes;
    const char *kind, *advice;
    uint64_t n_entries;
    uint64_t at, list_bytes; /* of the list; at: of the entry that comes next */
    uint64_t packed_left;    /* bytes of entries that there may still be */
} qn_zip;

typedef struct qn_zip_entry {
    int flags, method;
    uint32_t checksum;
    uint64_t packed, unpacked, at; /* at: of its local header */
    const char *name;              /* (name_bytes), not terminated, inside of the data */
    size_t name_bytes;
} qn_zip_entry;

/* Finds the list of a zip file with at most so many entries. data must stay. */
qn_status qn_zip_open(qn_zip *zip, const unsigned char *data, uint64_t bytes, uint64_t most_entries,
                      const char *kind, const char *advice);

/* The next of n_entries entries. */
qn_status qn_zip_next(qn_zip *zip, qn_zip_entry *entry);

/* Where an entry's packed bytes begin; it is stored or deflated. */
qn_status qn_zip_locate(qn_zip *zip, const qn_zip_entry *entry, const unsigned char **bytes);

/* Whether unpacked bytes are those that the entry's checksum was made of. */
bool qn_zip_is_whole(const qn_zip_entry *entry, const unsigned char *data);

/* An integer of so many bytes, the lowest first. */
uint64_t qn_zip_take(const unsigned char *data, int bytes);

#endif
