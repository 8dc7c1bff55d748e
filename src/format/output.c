/* See output.h. */
#include "format/output.h"

#include "base/print.h"
#include "base/text.h"
#include "os/os.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

static qn_status put_to_file(void *user, const void *data, size_t bytes) {
    return qn_writer_put(user, data, bytes);
}

qn_output qn_output_to_file(struct qn_writer *writer) {
    return (qn_output){.user = writer, .put = put_to_file};
}

void qn_output_bytes(qn_output *output, const void *data, size_t bytes) {
    if (output->status == QN_OK && bytes > 0)
        output->status = output->put(output->user, data, bytes);
}

void qn_output_text(qn_output *output, const char *text) {
    qn_output_bytes(output, text, strlen(text));
}

/* ---- numbers ---- */

void qn_output_count(qn_output *output, int64_t count) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)count);
    qn_output_text(output, digits);
}

void qn_output_number(qn_output *output, double value, int digits, const char *missing) {
    char printed[48];
    qn_print(printed, sizeof printed, "%.*g", digits, value);
    qn_output_text(output, isfinite(value) ? printed : missing);
}

const char *qn_print_fixed(double value, int decimals, char text[QN_NUMBER_TEXT]) {
    qn_print(text, QN_NUMBER_TEXT, "%.*f", decimals, value);
    if (text[0] == '-' && text[1 + strspn(text + 1, "0.")] == 0)
        memmove(text, text + 1, strlen(text)); /* no zero below zero */
    return text;
}

void qn_output_fixed(qn_output *output, double value, int decimals, const char *missing) {
    char printed[QN_NUMBER_TEXT];
    qn_output_text(output, isfinite(value) ? qn_print_fixed(value, decimals, printed) : missing);
}

/* ---- escaping ---- */

enum { ESCAPE_BYTES = 16 };

/* Gives the text that stands for a character, in scratch or constant; null: itself. */
typedef const char *(*escape_rule)(int32_t code, char scratch[ESCAPE_BYTES]);

static void put_escaped(qn_output *output, const char *text, escape_rule escape) {
    const char *kept = text, *end = text + strlen(text);
    while (text < end) {
        char scratch[ESCAPE_BYTES];
        int32_t code;
        const utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)text, end - text, &code);
        const char *instead = n > 0 ? escape(code, scratch) : "\xef\xbf\xbd";
        if (instead) {
            qn_output_bytes(output, kept, (size_t)(text - kept));
            qn_output_text(output, instead);
        }
        text += n > 0 ? n : 1;
        kept = instead ? text : kept;
    }
    qn_output_bytes(output, kept, (size_t)(end - kept));
}

static const char *escape_html(int32_t code, char scratch[ESCAPE_BYTES]) {
    (void)scratch;
    switch (code) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\t':
    case '\n':
        return NULL;
    default: /* control characters are not allowed */
        return qn_text_is_obeyed((uint32_t)code) ? "\xef\xbf\xbd" : NULL;
    }
}

/* What JSON wants escaped, what could end a script element, and what is an end of line to
 * JavaScript. */
static bool is_special_in_json(int32_t code) {
    return code == '<' || code == '>' || code == '&' || qn_text_is_obeyed((uint32_t)code);
}

static const char *escape_json(int32_t code, char scratch[ESCAPE_BYTES]) {
    if (code == '"' || code == '\\')
        snprintf(scratch, ESCAPE_BYTES, "\\%c", (char)code);
    else if (is_special_in_json(code))
        snprintf(scratch, ESCAPE_BYTES, "\\u%04x", (unsigned)code);
    else
        return NULL;
    return scratch;
}

/* What a terminal would obey has no meaning in a name; quotes keep line breaks. */
static const char *escape_csv(int32_t code, char scratch[ESCAPE_BYTES]) {
    if (code == '"')
        return "\"\"";
    if (!qn_text_is_obeyed((uint32_t)code) || code == '\t' || code == '\n')
        return NULL;
    snprintf(scratch, ESCAPE_BYTES, code < 256 ? "\\x%02x" : "\\u%04x", (unsigned)code);
    return scratch;
}

void qn_output_html(qn_output *output, const char *text) {
    put_escaped(output, text, escape_html);
}

void qn_output_csv(qn_output *output, const char *text) {
    const char *quote = text[strcspn(text, "\",\r\n")] ? "\"" : "";
    qn_output_text(output, quote);
    put_escaped(output, text, escape_csv);
    qn_output_text(output, quote);
}

/* ---- JSON ---- */

static void put_quoted(qn_output *output, const char *text) {
    qn_output_text(output, "\"");
    put_escaped(output, text, escape_json);
    qn_output_text(output, "\"");
}

static void begin_entry(qn_output *output, const char *key) {
    if (output->is_within)
        qn_output_text(output, ",");
    output->is_within = true;
    if (key) {
        put_quoted(output, key);
        qn_output_text(output, ":");
    }
}

void qn_json_open(qn_output *output, const char *key, char bracket) {
    begin_entry(output, key);
    qn_output_bytes(output, &bracket, 1);
    output->is_within = false;
}

void qn_json_close(qn_output *output, char bracket) {
    qn_output_bytes(output, &bracket, 1);
    output->is_within = true;
}

void qn_json_text(qn_output *output, const char *key, const char *text) {
    begin_entry(output, key);
    put_quoted(output, text);
}

void qn_json_count(qn_output *output, const char *key, int64_t count) {
    begin_entry(output, key);
    qn_output_count(output, count);
}

void qn_json_number(qn_output *output, const char *key, double value) {
    begin_entry(output, key);
    qn_output_number(output, value, 9, "null");
}

void qn_json_flag(qn_output *output, const char *key, bool flag) {
    begin_entry(output, key);
    qn_output_text(output, flag ? "true" : "false");
}
