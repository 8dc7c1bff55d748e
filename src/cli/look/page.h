/* The page of quern inspect: the lines that the terminal shows, warnings first, and what they are
 * of: classes with some of their pictures, columns of tables with what their values are, files. One
 * pass over the training samples; memory does not grow with them. */
#ifndef QN_CLI_LOOK_PAGE_H
#define QN_CLI_LOOK_PAGE_H

#include "data/look/look.h"
#include "report/document.h"

typedef struct page {
    qn_document *document; /* null: there is none */
    const qn_data_source *source;
    const qn_look *look;
} page;

/* All before the lines. What fails leaves nothing to finish. */
qn_status page_begin(page *p, const qn_data_source *source, const qn_look *look);

/* A line of the terminal's, "split: 90 to train on, ..."; context: the page. */
void page_put(void *context, const char *line);

/* All behind them, and the file, whole or not at all; path null: it is not written. */
qn_status page_finish(page *p, const char *path);

/* Pictures of the classes, or labels (page_pictures.c), and values of columns (page_columns.c). */
void page_add_pictures(const page *p);
void page_add_columns(const page *p);

/* The split that pictures and values are of: training, or what there is. */
qn_split page_split(const page *p);

/* The name of a class or label. */
const char *page_class_name(const page *p, int class, char text[24]);
int page_count_classes(const page *p); /* classes, or labels */

#endif
