/* Files that go to another place, and the list by which they come back: a CSV file that is written
 * before the first is moved, so that a kill loses nothing. No file is ever replaced. */
#ifndef QN_CLI_LOOK_MOVES_H
#define QN_CLI_LOOK_MOVES_H

#include "base/memory.h"

typedef struct one_move {
    const char *from, *to; /* whole paths */
    bool is_done;
} one_move;

typedef struct moves {
    qn_arena texts;
    one_move *list; /* (n) of capacity */
    size_t n, capacity;
} moves;

void moves_init(moves *m);
void moves_deinit(moves *m);

/* A move that is still to be made, to where nothing is, also by no other move of the list: beside a
 * name that is taken, "cat.jpg", the file gets "cat-2.jpg". */
qn_status moves_add(moves *m, const char *from, const char *to);

/* Writes the list to path, or, where path is null, to moved.csv or the next free name; *written is
 * what it was. */
qn_status moves_write(moves *m, const char *path, const char **written);

/* Those of a list that was written, each the other way round. */
qn_status moves_read(moves *m, const char *path);

/* Makes one. What is where it should be, and not where it came from, needs none: a list that a kill
 * cut short can be taken back. */
qn_status moves_make(moves *m, size_t i);

#endif
