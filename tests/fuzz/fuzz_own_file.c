/* Whether a file is one of quern's own: its first bytes alone say so, whatever they are, and no
 * byte behind them is read. What says to be two kinds is none that a stranger could have made by
 * chance: each kind has a beginning of its own. */
#include "format/own/own_file.h"
#include "fuzz/input.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of the whole file: one kind at most is said for each question, and it has a name; an empty file
 * is nobody's work. */
static void try_file(const uint8_t *data, size_t size) {
    const unsigned all = (QN_OWN_LABELLER << 1) - 1;
    char path[128];
    bool is_own, is_any = false;
    snprintf(path, sizeof path, "%s/own", input_folder());
    input_write("own", data, size);
    for (unsigned kind = 1; kind <= QN_OWN_LABELLER; kind <<= 1) {
        if (qn_own_file_check(path, kind, &is_own) != QN_OK || !*qn_own_kind_words(kind))
            abort();
        is_any |= is_own;
    }
    if (qn_own_file_check(path, all, &is_own) != QN_OK || is_own != is_any ||
        (size == 0 && !is_own))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const size_t n = size < QN_OWN_HEAD_BYTES ? size : QN_OWN_HEAD_BYTES;
    char *head = malloc(n + 1);
    if (!head)
        return 0;
    memcpy(head, data, n);
    head[n] = 'x';
    const unsigned kinds = qn_own_kinds_of_head(head, n);
    head[n] = '\n';
    if (qn_own_kinds_of_head(head, n) != kinds)
        abort(); /* what is behind was read */
    if ((kinds & (QN_OWN_WEIGHTS | QN_OWN_LABELLER)) ||
        ((kinds & QN_OWN_PAGE) && (kinds & QN_OWN_PICTURE)))
        abort();
    free(head);
    try_file(data, size);
    return 0;
}
