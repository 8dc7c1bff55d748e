/* Trained weights that are there to begin with: checkpoints in the user's data folder and in those
 * of the system, as script/pretrained writes them. A name is taken from the first folder that has
 * it. */
#ifndef QN_CLI_FILES_PRETRAINED_FILES_H
#define QN_CLI_FILES_PRETRAINED_FILES_H

#include "base/memory.h"
#include "quern/quern.h"

typedef struct pretrained_file {
    const char *name; /* of the file, without its ending */
    const char *path, *model, *input;
    const char *licence, *source; /* "": not known */
    int64_t bytes;
} pretrained_file;

typedef struct pretrained_list {
    qn_arena texts;
    const char *folder;     /* the first one, which script/pretrained writes to */
    pretrained_file *files; /* (n) of capacity, by name in each folder */
    size_t n, capacity;
} pretrained_list;

/* folder: the only one to look in; null: those of the user and the system. A file that is no
 * checkpoint of a model of the zoo is told of and left out. What fails leaves a list to close. */
qn_status pretrained_list_open(const char *folder, pretrained_list *list);
void pretrained_list_close(pretrained_list *list);

/* By its name; null: it is not there. */
const pretrained_file *pretrained_find(const pretrained_list *list, const char *name);

#endif
