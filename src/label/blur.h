/* Columns of few values: texts, and numbers on steps. Samples on points have densities without a
 * bound, and ever narrower clusters would seem ever better. Their values are therefore moved at
 * random, by less than half of the way to the next one (dequantization: Theis, van den Oord and
 * Bethge 2016, "A note on the evaluation of generative models"). */
#ifndef QN_LABEL_BLUR_H
#define QN_LABEL_BLUR_H

#include "label/labeller.h"

/* Square of the deviation of a column of texts by this, where texts are sqrt(2) apart. */
#define QN_LABEL_BLUR 0.025f

/* Finds the columns of few numbers in features x (n, d) of labelled samples. */
qn_status qn_blur_find(qn_labeller *labeller, const float *x, int64_t n);

/* Moves the features of the sample with a number; labelled ones have numbers below 0. */
void qn_blur_apply(const qn_labeller *labeller, int64_t number, float *features);

/* Undoes it for numbers on steps; texts are found as the nearest ones (columns.h). */
void qn_blur_undo(const qn_labeller *labeller, float *features);

/* Room for the steps, of zeros, and without. */
qn_status qn_blur_make(qn_labeller *labeller);
void qn_blur_drop(qn_labeller *labeller);

#endif
