/* Search for a packing within a capacity: complete, given enough time. Internal to the packer. */
#ifndef QN_PLAN_PACKING_SEARCH_H
#define QN_PLAN_PACKING_SEARCH_H

#include "plan/packing/greedy.h"

/* Searches as long as the problem's limits allow, at capacities between what is proven and the
 * best; every better packing becomes the problem's best, and proven_bytes rises. */
qn_status qn_packing_search(qn_packing_problem *problem);

#endif
