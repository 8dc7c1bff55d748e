/* The page of quern show: what was found in data, as thumbnails in one file. */
#ifndef QN_CLI_LOOK_SHOW_PAGE_H
#define QN_CLI_LOOK_SHOW_PAGE_H

#include "cli/look/looked.h"

/* Its readers see the user's pictures: it is readable by its owner alone. */
qn_status show_page_write(const looked *l, const char *path);

/* What would help a class most, as a sentence without a full stop. */
enum { SHOW_ADVICE = 512 };
const char *show_advice(const looked *l, int class, char text[SHOW_ADVICE]);

#endif
