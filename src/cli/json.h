/* JSON lines on standard output: one object a line, written at once. */
#ifndef QN_CLI_JSON_H
#define QN_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* From now on objects go to this stream, not to standard output. */
void json_to(FILE *stream);

/* begin opens an object, the others add to it, end closes the line and flushes it. */
void json_begin(void);
void json_end(void);
void json_text(const char *key, const char *value);
void json_count(const char *key, int64_t value);
void json_number(const char *key, double value); /* null where it is not finite */
void json_flag(const char *key, bool value);
void json_null(const char *key);

/* An array under key: open, then begin_item and end_item for each object, item_count or
 * item_text for each number or text, close. */
void json_open_list(const char *key);
void json_begin_item(void);
void json_end_item(void);
void json_item_count(int64_t value);
void json_item_text(const char *value);
void json_close_list(void);

#endif
