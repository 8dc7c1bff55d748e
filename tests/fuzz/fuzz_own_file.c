/* Whether a file is one of quern's own: its first bytes alone say so, whatever they are, and no
 * byte behind them is read. What says to be two kinds is none that a stranger could have made by
 * chance: each kind has a beginning of its own. */
#include "format/own/own_file.h"
#include "fuzz/input.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    return 0;
}
