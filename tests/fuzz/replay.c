/* Drives a fuzz target where libFuzzer does not: once for every file of its corpus, or with files
 * made from them (mutate.c). */
#include "fuzz/format.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return 1;
    enum { MOST_BYTES = 1 << 24 };
    uint8_t *data = malloc(MOST_BYTES);
    if (data)
        LLVMFuzzerTestOneInput(data, fread(data, 1, MOST_BYTES, file));
    int failed = !data || ferror(file);
    free(data);
    fclose(file);
    return failed;
}

static int replay_all(DIR *folder, const char *path_of_folder) {
    int n_files = 0, n_failed = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", path_of_folder, entry->d_name);
        n_failed += replay(path);
        n_files++;
    }
    printf("%d inputs replayed, %d failed\n", n_files, n_failed);
    return n_failed > 0 || n_files == 0;
}

int main(int n_arguments, char **arguments) {
    DIR *folder = n_arguments >= 2 && n_arguments <= 4 ? opendir(arguments[1]) : NULL;
    if (!folder) {
        printf("usage: %s CORPUS-FOLDER              runs the target on each file\n"
               "       %s CORPUS-FOLDER N [FIRST]    on N files made from them\n",
               arguments[0], arguments[0]);
        return 2;
    }
    const uint64_t first = n_arguments == 4 ? strtoull(arguments[3], NULL, 10) : 0;
    const int result = n_arguments == 2 ? replay_all(folder, arguments[1])
                                        : mutate(arguments[1], strtoull(arguments[2], NULL, 10),
                                                 first, arguments[0]);
    closedir(folder);
    return result;
}
