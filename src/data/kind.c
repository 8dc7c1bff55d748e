/* Recognises data by path: a folder by its files, a file by its extension. */
#include "base/status.h"
#include "base/text.h"
#include "os/os.h"
#include "quern/data.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static bool holds(const char *folder, const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return qn_path_is_file(path);
}

const char *qn_data_kind_of(const char *path) {
    static const char *const files[][2] = {{"train-images-idx3-ubyte", "idx"},
                                           {"train-images-idx3-ubyte.gz", "idx"},
                                           {"data_batch_1.bin", "cifar10"},
                                           {"train.bin", "cifar100"}};
    static const char *const endings[][2] = {
        {".csv", "csv"},  {".tsv", "csv"},    {".csv.gz", "csv"}, {".tsv.gz", "csv"},
        {".txt", "text"}, {".json", "squad"}, {".npz", "npz"},    {".wav", "sounds"}};
    QN_NEED_OR(path, "path", NULL);
    const size_t length = strlen(path);
    if (qn_path_is_folder(path)) {
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
            if (holds(path, files[i][0]))
                return files[i][1];
        }
        return "images";
    }
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t n = strlen(endings[i][0]);
        if (length > n && qn_text_is_same(path + length - n, endings[i][0]) &&
            qn_path_is_file(path))
            return endings[i][1];
    }
    return NULL;
}
