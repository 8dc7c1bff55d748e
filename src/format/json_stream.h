/* Reads JSON files of any size token by token, gzipped or not. The parser is yajl. Memory comes
 * from the caller's allocator and grows with the longest text and the deepest nesting, not with the
 * file. */
#ifndef QN_FORMAT_JSON_STREAM_H
#define QN_FORMAT_JSON_STREAM_H

#include "quern/base.h"

typedef enum qn_json_kind {
    QN_JSON_NULL,
    QN_JSON_BOOLEAN, /* text "true" or "false" */
    QN_JSON_NUMBER,  /* as it is written */
    QN_JSON_TEXT,    /* without quotes, escapes undone */
    QN_JSON_KEY,
    QN_JSON_OBJECT,
    QN_JSON_OBJECT_END,
    QN_JSON_LIST,
    QN_JSON_LIST_END,
    QN_JSON_CUT_OFF, /* the file ends in the middle of its value */
} qn_json_kind;

typedef struct qn_json_token {
    qn_json_kind kind;
    int depth;        /* lists and objects around it; an opening one is not around itself */
    const char *text; /* (bytes) of numbers, texts and keys, until put returns; not ended by 0 */
    size_t bytes;
} qn_json_token;

/* Gives all tokens of a file to put, and stops at its first failure. Failures, put's too, name the
 * file, the line and the byte, counted in the unpacked file. A file that is cut off ends with
 * QN_JSON_CUT_OFF, which put accepts or refuses. */
qn_status qn_json_read(const qn_allocator *allocator, const char *path, void *context,
                       qn_status (*put)(void *context, const qn_json_token *token));

#endif
