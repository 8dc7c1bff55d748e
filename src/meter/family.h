/* A process and all its descendants, searched for repeatedly since they come and go. A process that
 * has been seen belongs to the family until it ends, even if its parent changes. */
#ifndef QN_METER_FAMILY_H
#define QN_METER_FAMILY_H

#include "meter/sources/source.h"

enum { QN_FAMILY_MOST = 64 };

/*     ids[0] is the process itself; ids differ */
typedef struct qn_family {
    const char *root;
    int64_t ids[QN_FAMILY_MOST];
    int n;
    int64_t look_ns; /* when it was looked for last */
    bool is_crowded; /* there were more */
} qn_family;

/* root must outlive the family. */
void qn_family_init(const char *root, int64_t process, qn_family *family);

/* Looks for new ones, at most every 100 ms. Allocates nothing. */
void qn_family_look(qn_family *family, int64_t now_ns);

/* Takes out one that has ended; the last one comes to its place. */
void qn_family_remove(qn_family *family, int index);

#endif
