/* The inside of running chat templates: where the text is read, variables, and what is written. A
 * template is run while it is read; what is not taken, of an if or an empty loop, is read all the
 * same with is_live false, and changes nothing. */
#ifndef QN_DATA_CHATS_MACHINE_H
#define QN_DATA_CHATS_MACHINE_H

#include "data/chats/value.h"

typedef struct qn_jinja_variable {
    const char *name; /* (n) in the template, or a constant */
    size_t n;
    qn_jinja_value value;
} qn_jinja_variable;

enum { QN_JINJA_VARIABLES = 256, QN_JINJA_DEPTH = 48 };

/* Steps that a map counts for, since it takes memory. */
enum { QN_JINJA_MAP_WORK = 8 };

/* Once status is not QN_OK nothing goes on. */
typedef struct qn_jinja_machine {
    qn_arena *arena;
    const char *source, *at, *end; /* the template; where it is read */
    qn_status status;
    bool is_live, is_answer; /* is_answer: inside a block "generation" */
    int depth;
    int64_t work;                                    /* steps that are left */
    qn_jinja_variable variables[QN_JINJA_VARIABLES]; /* (n), the latest last */
    int n, scope; /* of variables; the first of the innermost loop */
    char *text;   /* (written) of capacity */
    bool *mask;   /* (written) */
    size_t written, capacity;
} qn_jinja_machine;

/* What cannot be run, with the place. Returns undefined. */
qn_jinja_value qn_jinja_fail(qn_jinja_machine *m, qn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Counts a step; false: the run has ended. */
bool qn_jinja_step(qn_jinja_machine *m, int64_t work);

/* Inside a tag: white space, a name (0: none), a sign that is taken if it is there. */
void qn_jinja_skip(qn_jinja_machine *m);
size_t qn_jinja_name(const qn_jinja_machine *m);
bool qn_jinja_take(qn_jinja_machine *m, const char *sign);
bool qn_jinja_take_word(qn_jinja_machine *m, const char *word);

qn_jinja_value qn_jinja_expression(qn_jinja_machine *m);

/* A sum or simpler: what stands behind "in" of a loop ends before "if". */
qn_jinja_value qn_jinja_simple_expression(qn_jinja_machine *m);

/* Whether two values are one, which is counted as steps. */
bool qn_jinja_are_same(qn_jinja_machine *m, const qn_jinja_value *a, const qn_jinja_value *b);

/* The two texts one behind the other. */
qn_jinja_value qn_jinja_joined(qn_jinja_machine *m, const qn_jinja_value *a,
                               const qn_jinja_value *b);

/* A filter, a test or a method by its name, of a value with arguments. */
enum { QN_JINJA_ARGUMENTS = 4 };
qn_jinja_value qn_jinja_filter(qn_jinja_machine *m, const char *name, size_t n,
                               const qn_jinja_value *value, const qn_jinja_value *arguments,
                               int n_arguments);
qn_jinja_value qn_jinja_test(qn_jinja_machine *m, const char *name, size_t n,
                             const qn_jinja_value *value, const qn_jinja_value *argument);
qn_jinja_value qn_jinja_method(qn_jinja_machine *m, const char *name, size_t n,
                               const qn_jinja_value *value, const qn_jinja_value *arguments,
                               int n_arguments);

qn_jinja_value *qn_jinja_variable_of(qn_jinja_machine *m, const char *name, size_t n);
void qn_jinja_set(qn_jinja_machine *m, const char *name, size_t n, const qn_jinja_value *value,
                  bool is_new);

#endif
