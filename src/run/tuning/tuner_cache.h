/* Tuning results in the cache folder: a text with a line for each of machine and kernels, and one
 * for each product: its key (16 hexadecimal digits), and a digit for each kind of tiling. */
#ifndef QN_RUN_TUNING_TUNER_CACHE_H
#define QN_RUN_TUNING_TUNER_CACHE_H

#include "kernels/tilings.h"

/* Products that are kept at most: above that, those of the engine that was tuned last. A text may
 * have more, as its head counts as some. */
enum { QN_TILINGS_KEPT = 4096, QN_CUTS_READ = QN_TILINGS_KEPT + 64 };

/* Entries that a text of so many bytes has at most; 0 where it is too large for one. */
size_t qn_tilings_most(size_t bytes);

/* Reads a text into entries (qn_tilings_most of its bytes), whose keys rise. False: it is none, or
 * of another machine or other kernels; *n is then 0. */
bool qn_tilings_parse(const char *text, size_t bytes, const char *machine, const char *kernels,
                      qn_tiling_entry *entries, size_t *n);

/* Bytes of what is kept for these kernels on this machine; 0: nothing. */
size_t qn_tilings_kept_bytes(const qn_kernels *table);

/* Reads it into entries (qn_tilings_most of so many bytes), its text into memory of the allocator
 * meanwhile. *n entries. *is_damaged: there is a file, but it cannot be read as such. */
void qn_tilings_load(const qn_allocator *allocator, const qn_kernels *table, size_t kept_bytes,
                     qn_tiling_entry *entries, size_t *n, bool *is_damaged);

/* Keeps them all; a folder that cannot be written is no failure. */
void qn_tilings_save(const qn_kernels *table, const qn_tilings *tilings);

#endif
