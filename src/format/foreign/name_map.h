/* Maps from other programs' names of weights to a model's names, as a CSV file with the columns
 * from,to[,layout]. Rows apply in order, each to the result of the rows above it. In from, *
 * matches some characters of a part between two dots, and ** any characters; in to, {2} is the text
 * matched by the second of them, and {2+1} that number plus one. An empty to skips a tensor. A #
 * begins a comment line. The parser trusts nothing. */
#ifndef QN_FORMAT_FOREIGN_NAME_MAP_H
#define QN_FORMAT_FOREIGN_NAME_MAP_H

#include "base/memory.h"
#include "quern/graph.h"

enum { QN_MAP_NAME = 512, QN_MAP_CAPTURES = 9 };

/* How a tensor is laid out there. */
typedef enum qn_map_layout {
    QN_LAYOUT_BY_SHAPE, /* filters with channels in front of space, all else as here */
    QN_LAYOUT_SAME,     /* "same": also filters */
    QN_LAYOUT_SWAPPED,  /* "swap": (in, out) of a linear layer */
    QN_LAYOUT_IMAGE,    /* "CxHxW": columns of a linear layer behind an image of that shape */
    QN_LAYOUT_PART,     /* "i/n": rows i/n to (i + 1)/n of the tensor here, i from 0 */
    QN_LAYOUT_ADDED,    /* "add": the sum of all that go to one name */
} qn_map_layout;

typedef struct qn_map_rule {
    const char *from, *to; /* to "": left out */
    qn_map_layout layout;
    int64_t numbers[3]; /* of CxHxW, of i/n */
    int line;
} qn_map_rule;

/* Texts live in texts. */
typedef struct qn_name_map {
    const qn_allocator *allocator;
    qn_arena texts;
    qn_map_rule *rules; /* (n_rules) of capacity */
    size_t n_rules, capacity;
} qn_name_map;

void qn_name_map_init(qn_name_map *map, const qn_allocator *allocator);
void qn_name_map_deinit(qn_name_map *map);

/* Fills an initialised map from text (not terminated); place names it in messages. */
qn_status qn_name_map_parse(qn_name_map *map, const char *place, const char *text, size_t bytes);

/* What a name becomes: name as it is where no row matches; "" where it is left out. *rule: the last
 * row that matched and says a layout, else the last that matched, or null. Fails where it grows too
 * long. */
qn_status qn_name_map_apply(const qn_name_map *map, const char *name, char to[QN_MAP_NAME],
                            const qn_map_rule **rule);

#endif
