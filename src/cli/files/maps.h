/* The built-in name maps (share/maps) for published weights of the zoo's models, one row for each
 * model. */
#ifndef QN_CLI_FILES_MAPS_H
#define QN_CLI_FILES_MAPS_H

#include <stddef.h>

/* What the weights that are published with these names were trained on. */
typedef struct shipped_map {
    const char *model;
    const char *name; /* of the file, "resnet" */
    const unsigned char *begin, *end;
    int side;           /* of the images; 0: none */
    float mean[3];      /* of each channel */
    float deviation[3]; /* likewise */
} shipped_map;

/* Null beyond the last, and where there is none for a model. */
const shipped_map *shipped_map_at(size_t index);
const shipped_map *shipped_map_find(const char *model);

#endif
