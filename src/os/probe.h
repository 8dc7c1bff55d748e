/* Small files of the kernel (/sys, /proc), whose text is generated at each read. A probe is opened
 * once and read repeatedly; reading allocates nothing and waits only for the driver. Every failure
 * names the path or the reason, and what to do if permission is denied. */
#ifndef QN_OS_PROBE_H
#define QN_OS_PROBE_H

#include "quern/base.h"

/* An open file; zeroed, it is closed, and reading it fails. */
typedef struct qn_probe {
    int handle;
} qn_probe;

qn_status qn_probe_open(const char *path, qn_probe *probe);
void qn_probe_close(qn_probe *probe);

/* The text from its beginning, ended by 0, without white space at its end; what does not fit is
 * left out. QN_ERROR_IO: the sensor is lost, or has no value now. */
qn_status qn_probe_text(const qn_probe *probe, char *text, size_t bytes);

/* The one whole number that the file holds; anything else in it is QN_ERROR_FORMAT. */
qn_status qn_probe_number(const qn_probe *probe, int64_t *value);

/* Opens, reads, closes. */
qn_status qn_probe_text_at(const char *path, char *text, size_t bytes);
qn_status qn_probe_number_at(const char *path, int64_t *value);

/* Reads all of a file of unknown length into *capacity bytes of the allocator, ended by 0. */
qn_status qn_probe_whole(const qn_allocator *allocator, const char *path, char **text,
                         size_t *capacity);

/* Whether there is anything of this path, even if it may not be read. */
bool qn_path_is_there(const char *path);

#endif
