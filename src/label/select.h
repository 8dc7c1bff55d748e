/* Selecting numbers by rank. */
#ifndef QN_LABEL_SELECT_H
#define QN_LABEL_SELECT_H

/* Number k (from 0) of n by size. Orders v so far that the smaller ones come before it (Hoare 1961,
 * "Algorithm 65: find"). 0 <= k < n, no NaN. */
float qn_select_smallest(float *v, int n, int k);

#endif
