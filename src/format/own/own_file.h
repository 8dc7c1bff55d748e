/* Files that quern has written, known by what they begin with, so that a command replaces nothing
 * that somebody else made. */
#ifndef QN_FORMAT_OWN_OWN_FILE_H
#define QN_FORMAT_OWN_OWN_FILE_H

#include "quern/base.h"

/* Kinds of files, as a set. */
typedef enum qn_own_kind {
    QN_OWN_WEIGHTS = 1,     /* checkpoints, adapters, labellers: safetensors */
    QN_OWN_NETWORK = 2,     /* ONNX */
    QN_OWN_PAGE = 4,        /* HTML */
    QN_OWN_TRACE = 8,       /* trace events */
    QN_OWN_TIMES = 16,      /* CSV of operations */
    QN_OWN_CONFUSION = 32,  /* CSV of classes, or of pairs of them */
    QN_OWN_BUFFERS = 64,    /* CSV of buffers with their offsets */
    QN_OWN_LABELS = 128,    /* CSV of labels */
    QN_OWN_METRICS = 256,   /* JSON of a measurement */
    QN_OWN_PLAN = 512,      /* JSON of a plan */
    QN_OWN_LABELLER = 2048, /* a labeller: safetensors */
    QN_OWN_PICTURE = 1024,  /* PNG */
    QN_OWN_MOVES = 4096,    /* CSV of files that were moved */
} qn_own_kind;

enum { QN_OWN_HEAD_BYTES = 4096 };

/* Kinds that a file with these first bytes (QN_OWN_HEAD_BYTES of a longer file) may be of; but for
 * QN_OWN_WEIGHTS, which the whole header tells. */
unsigned qn_own_kinds_of_head(const char *head, size_t bytes);

/* *is_own: there is nothing at path, or an empty file, or one of these kinds. Fails where the file
 * cannot be read. */
qn_status qn_own_file_check(const char *path, unsigned kinds, bool *is_own);

/* "a checkpoint of quern", for messages; kinds must not be 0. */
const char *qn_own_kind_words(unsigned kinds);

#endif
