/* See maps.h. The assembler includes the files from the folder QN_MAPS. */
#include "cli/files/maps.h"

#include "base/embed.h"

#include <string.h>

QN_EMBED(map_alexnet, QN_MAPS "/alexnet.csv");
QN_EMBED(map_bert, QN_MAPS "/bert.csv");
QN_EMBED(map_efficientnet_lite, QN_MAPS "/efficientnet-lite.csv");
QN_EMBED(map_googlenet, QN_MAPS "/googlenet.csv");
QN_EMBED(map_inception, QN_MAPS "/inception-v3.csv");
QN_EMBED(map_mobilenet, QN_MAPS "/mobilenet-v2.csv");
QN_EMBED(map_resnet, QN_MAPS "/resnet.csv");
QN_EMBED(map_squeezenet, QN_MAPS "/squeezenet.csv");
QN_EMBED(map_vgg11, QN_MAPS "/vgg11.csv");
QN_EMBED(map_vgg16, QN_MAPS "/vgg16.csv");
QN_EMBED(map_vgg19, QN_MAPS "/vgg19.csv");

/* Images of 0 to 1 minus the mean, over the deviation; of the two Inceptions and the
 * EfficientNets-Lite about from -1 to 1. */
#define IMAGES(MODEL, NAME, MAP)                                                                   \
    {                                                                                              \
        MODEL, NAME, MAP, MAP##_end, 224, {0.485f, 0.456f, 0.406f}, {                              \
            0.229f, 0.224f, 0.225f                                                                 \
        }                                                                                          \
    }
#define LITE(MODEL, SIDE)                                                                          \
    {                                                                                              \
        MODEL, "efficientnet-lite", map_efficientnet_lite, map_efficientnet_lite_end, SIDE,        \
            {127 / 255.f, 127 / 255.f, 127 / 255.f}, {                                             \
            128 / 255.f, 128 / 255.f, 128 / 255.f                                                  \
        }                                                                                          \
    }
#define INCEPTION(MODEL, MAP, SIDE)                                                                \
    {                                                                                              \
        MODEL, MODEL, MAP, MAP##_end, SIDE, {0.5f, 0.5f, 0.5f}, {                                  \
            0.5f, 0.5f, 0.5f                                                                       \
        }                                                                                          \
    }

static const shipped_map maps[] = {
    IMAGES("alexnet", "alexnet", map_alexnet),
    IMAGES("vgg11", "vgg11", map_vgg11),
    IMAGES("vgg16", "vgg16", map_vgg16),
    IMAGES("vgg19", "vgg19", map_vgg19),
    IMAGES("resnet18", "resnet", map_resnet),
    IMAGES("resnet34", "resnet", map_resnet),
    IMAGES("resnet50", "resnet", map_resnet),
    IMAGES("resnet101", "resnet", map_resnet),
    IMAGES("resnet152", "resnet", map_resnet),
    IMAGES("squeezenet", "squeezenet", map_squeezenet),
    IMAGES("mobilenet-v2", "mobilenet-v2", map_mobilenet),
    LITE("efficientnet-lite0", 224),
    LITE("efficientnet-lite1", 240),
    LITE("efficientnet-lite2", 260),
    INCEPTION("googlenet", map_googlenet, 224),
    INCEPTION("inception-v3", map_inception, 299),
    {.model = "bert-base", .name = "bert", .begin = map_bert, .end = map_bert_end},
    {.model = "bert-tiny", .name = "bert", .begin = map_bert, .end = map_bert_end},
};

enum { N_MAPS = sizeof maps / sizeof maps[0] };

const shipped_map *shipped_map_at(size_t index) {
    return index < N_MAPS ? &maps[index] : NULL;
}

const shipped_map *shipped_map_find(const char *model) {
    for (size_t i = 0; i < N_MAPS; i++) {
        if (strcmp(maps[i].model, model) == 0)
            return &maps[i];
    }
    return NULL;
}
