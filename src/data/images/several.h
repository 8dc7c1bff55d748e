/* Pictures of several labels (--task labels): one picture that lies in several class folders, as a
 * link or a copy of the same pixels, or stands in several rows of a table, is one sample that has
 * the labels of all of them. A row without a label is a picture of none. */
#ifndef QN_DATA_IMAGES_SEVERAL_H
#define QN_DATA_IMAGES_SEVERAL_H

#include "data/images/tree.h"

/* Whether the options, or the weights that data are opened for, ask for labels. */
bool qn_images_have_labels(const qn_source_base *base);

/* Makes one entry of those of a list that have the same content, and puts the labels of all into
 * list->labels. After the scan. Labels are numbered as the weights' are, where data are opened for
 * weights; one that they do not know is an error. */
qn_status qn_images_join(qn_image_tree *tree, const qn_table **table);

/* Writes the n labels of an entry as 0 and 1. */
void qn_images_put_labels(const qn_image_list *list, size_t index, int n, float *y);

/* Whether two entries of a list have the same class and labels. */
bool qn_images_are_alike(const qn_image_list *list, size_t a, size_t b);

#endif
