/* See patterns.h. */
#include "base/patterns.h"

#include <string.h>

bool qn_pattern_next(const char **list, qn_pattern *pattern) {
    while (*list && **list) {
        const size_t bytes = strcspn(*list, ",");
        *pattern = (qn_pattern){*list, bytes};
        *list += bytes + ((*list)[bytes] == ',');
        if (bytes > 0)
            return true;
    }
    return false;
}

/* After a mismatch the last star takes in one character more; earlier stars need not, since what
 * lies between two stars fits best where it fits first. */
bool qn_pattern_matches(qn_pattern pattern, const char *name) {
    const char *p = pattern.text, *end = p + pattern.bytes, *star = NULL, *from = NULL;
    while (*name) {
        if (p < end && *p == '*') {
            star = ++p;
            from = name;
        } else if (p < end && (*p == '?' || *p == *name)) {
            p++;
            name++;
        } else if (star) {
            p = star;
            name = ++from;
        } else {
            return false;
        }
    }
    while (p < end && *p == '*')
        p++;
    return p == end;
}

bool qn_pattern_is(qn_pattern pattern, const char *word) {
    return strlen(word) == pattern.bytes && memcmp(pattern.text, word, pattern.bytes) == 0;
}

bool qn_patterns_match(const char *list, const char *name) {
    qn_pattern pattern;
    while (qn_pattern_next(&list, &pattern)) {
        if (qn_pattern_matches(pattern, name))
            return true;
    }
    return false;
}
