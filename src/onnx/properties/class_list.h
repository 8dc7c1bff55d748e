/* A list of class names as programs write it into a file's properties: JSON's or Python's lists
 * (["ant", 'bee']) and dictionaries ({0: 'ant'}, {"0": "ant"}, {"ant": 0}), and names with one kind
 * of separator between them. What could be read in two ways is none. */
#ifndef QN_ONNX_CLASS_LIST_H
#define QN_ONNX_CLASS_LIST_H

#include "base/memory.h"

typedef struct qn_class_list {
    int n;                    /* 0: the text is none */
    const char *const *names; /* (n), UTF-8, each another one, in the order of the outputs */
} qn_class_list;

enum { QN_CLASS_NAME_MOST = 511 }; /* bytes of a name */

/* Fails only where memory is out. The list is the arena's. */
qn_status qn_class_list_read(const char *text, size_t length, qn_arena *arena, qn_class_list *list);

/* Whether two lists have the same names in the same order. */
bool qn_class_list_equal(const qn_class_list *a, const qn_class_list *b);

#endif
