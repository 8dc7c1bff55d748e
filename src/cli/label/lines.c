/* Lines of labels as CSV: sample,label,confidence. */
#include "base/print.h"
#include "cli/label/label.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char label_header[] = "sample,label,confidence\n";

/* A field as RFC 4180 has it: quoted where it needs to be. Returns its end. */
static char *put_field(char *at, const char *text) {
    const bool is_plain = !strpbrk(text, ",\"\r\n") && *text != ' ';
    if (!is_plain)
        *at++ = '"';
    for (; *text; text++) {
        if (*text == '"')
            *at++ = '"';
        *at++ = *text;
    }
    if (!is_plain)
        *at++ = '"';
    return at;
}

const char *label_print_line(const qn_labeller *labeller, int64_t sample,
                             const qn_label_answer *answer, char line[LABEL_LINE]) {
    char *at = line + snprintf(line, LABEL_LINE, "%" PRId64 ",", sample);
    at = put_field(at, qn_labeller_name_of(labeller, answer->label));
    qn_print(at, (size_t)(line + LABEL_LINE - at), ",%.4f\n", (double)answer->confidence);
    return line;
}
