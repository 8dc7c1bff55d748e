/* Plan files: JSON with a model, its settings, and the plan of each of its programs. The reader
 * accepts any bytes and checks only that the file is well formed; plan/saved.h checks the plan
 * against the graph. */
#ifndef QN_FORMAT_PLAN_FILE_H
#define QN_FORMAT_PLAN_FILE_H

#include "plan/saved.h"

typedef struct qn_plan_setting {
    const char *key, *value;
} qn_plan_setting;

/* Everything that is pointed to lives in memory, once read, or is the writer's. */
typedef struct qn_plan_file {
    qn_arena memory;
    const char *model;
    size_t budget_bytes; /* that the plan was made for; 0: none */
    size_t n_settings;
    qn_plan_setting *settings; /* (n_settings): as quern train's options have them */
    qn_saved_plan plan;
} qn_plan_file;

/* memory begins empty. */
void qn_plan_file_init(qn_plan_file *file, const qn_allocator *allocator);
void qn_plan_file_deinit(qn_plan_file *file);

/* Writes the file, whole or not at all. */
qn_status qn_plan_file_write(const qn_plan_file *file, const char *path);

/* Fills an initialised *file. QN_ERROR_FORMAT says where it is no plan file. */
qn_status qn_plan_file_parse(qn_plan_file *file, const char *path, const char *text, size_t bytes);
qn_status qn_plan_file_read(qn_plan_file *file, const char *path);

#endif
