/* Working with names that people type. */
#ifndef QN_BASE_TEXT_H
#define QN_BASE_TEXT_H

/* The one of n names that is nearest to what was typed by edit distance (insertions, deletions,
 * replacements; Levenshtein 1966), or null if none is near: for "did you mean". Names beyond 63
 * bytes are compared by their first 63. */
const char *qn_text_nearest(const char *typed, const char *const *names, int n_names);

#endif
