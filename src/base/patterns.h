/* Lists of name patterns such as "features.*,*.bias": "*" matches any characters, "?" matches one.
 */
#ifndef QN_BASE_PATTERNS_H
#define QN_BASE_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

/* A part of a list. */
typedef struct qn_pattern {
    const char *text;
    size_t bytes;
} qn_pattern;

/* Takes the next part of a list (null: an empty one); false at its end. Empty parts are left out.
 */
bool qn_pattern_next(const char **list, qn_pattern *pattern);

bool qn_pattern_matches(qn_pattern pattern, const char *name);

/* Whether the pattern is this word. */
bool qn_pattern_is(qn_pattern pattern, const char *word);

/* Whether one of a list fits. */
bool qn_patterns_match(const char *list, const char *name);

#endif
