/* What a device sends first to the peer of split learning: the head of a message, and options as
 * text. Options that are read are printed again as the same, and what they ask for is checked
 * before anything is built of it. */
#include "federate/halves.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[QN_LINK_TEXT], printed[QN_LINK_TEXT], again[QN_LINK_TEXT];
    qn_halves_options o, same;
    qn_message kind;
    int64_t length;
    if (size >= QN_LINK_HEAD && qn_link_parse_head(data, &kind, &length) == QN_OK &&
        (kind < QN_MESSAGE_HELLO || kind > QN_MESSAGE_FAILURE || length < 0))
        abort();
    if (size >= QN_LINK_TEXT)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (qn_halves_parse(text, &o) != QN_OK)
        return 0;
    qn_halves_print(&o, printed);
    if (qn_halves_parse(printed, &same) != QN_OK)
        abort();
    qn_halves_print(&same, again);
    if (strcmp(printed, again) != 0)
        abort();
    return 0;
}
