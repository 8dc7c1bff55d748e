/* Arrays of numpy in one file, as numpy.savez and savez_compressed write it: a zip file of .npy
 * files. Arrays that are stored lie in the mapped file, packed ones are unpacked into the arena.
 * Sizes, checksums and headers are checked at opening. Leaves out: encrypted files, complex
 * numbers. */
#ifndef QN_DATA_NPZ_H
#define QN_DATA_NPZ_H

#include "base/memory.h"
#include "data/headers.h"
#include "os/os.h"

typedef struct qn_npz_array {
    const char *name; /* without ".npy" */
    qn_npy_header header;
    const unsigned char *data; /* (header.data_bytes), of any alignment */
} qn_npz_array;

typedef struct qn_npz {
    int n;
    qn_npz_array *arrays; /* (n), in the file's order */
    qn_arena arena;
    const void *memory; /* the file, mapped; null: none */
    size_t bytes;
} qn_npz;

/* From the bytes of a file, which must stay. Names and what is unpacked are in the arena, which
 * the caller has initialised. */
qn_status qn_npz_parse(const unsigned char *data, size_t bytes, qn_npz *npz);

/* What fails leaves nothing to close. */
qn_status qn_npz_open(const qn_allocator *allocator, const char *path, qn_npz *npz);
void qn_npz_close(qn_npz *npz);

/* After arrays were read: fails if something of their file was gone (qn_file_map_check). */
qn_status qn_npz_check(const qn_npz *npz);

/* What was read of the mapped file need not stay in memory. */
void qn_npz_forget(const qn_npz *npz);

/* Fails of an array of texts, or of numbers in Fortran's order, which those below do not read. */
qn_status qn_npz_check_numbers(const qn_npz_array *array);

/* By name, or null. */
const qn_npz_array *qn_npz_find(const qn_npz *npz, const char *name);

/* Elements [first, first + n) as reals. */
void qn_npz_read_reals(const qn_npz_array *array, int64_t first, int64_t n, float *values);

/* Likewise as whole numbers, of an array of them; false: one is beyond 32 bits, and *bad its
 * number. */
bool qn_npz_read_indices(const qn_npz_array *array, int64_t first, int64_t n, int32_t *values,
                         int64_t *bad);

/* Whether its elements are whole numbers, or truths. */
bool qn_npz_is_whole(const qn_npz_array *array);

#endif
