/* Federated training in one process: a server's network, and clients that train it in turn on their
 * own samples. One set of programs serves all clients, and what a client keeps between rounds is in
 * a file: memory does not depend on their number. The same options give the same bits for any
 * number of threads, and after a resume. */
#ifndef QN_FEDERATE_SIMULATE_H
#define QN_FEDERATE_SIMULATE_H

#include "federate/fleet.h"
#include "federate/update_code.h"
#include "quern/checkpoint.h"
#include "quern/trainer.h"

/* What the server makes of the clients' mean change (weighted by their samples). */
typedef enum qn_server_rule {
    QN_SERVER_AVERAGE,  /* adds it, times the server's rate: FedAvg at 1 (McMahan et al. 2017) */
    QN_SERVER_MOMENTUM, /* adds a running sum of it: FedAvgM (Hsu, Qi and Brown 2019) */
    QN_SERVER_ADAM,     /* FedAdam (Reddi et al., "Adaptive federated optimization", ICLR 2021,
                           algorithm 2) */
    QN_SERVER_YOGI,     /* FedYogi, of the same */
} qn_server_rule;

typedef struct qn_federation_options {
    const qn_allocator *allocator;
    const qn_model *model;
    const qn_data_source *data; /* with classes; stays open */
    const char *partition;      /* federate/partition/partition.h */
    int64_t n_clients, per_round, n_rounds;
    int64_t local_epochs, batch;
    double rate, momentum; /* of a client's SGD */
    double proximal;       /* mu of FedProx (Li et al., MLSys 2020): pulls towards the server's */
    double drop;           /* chance that a client that was asked never answers */
    qn_server_rule rule;
    double server_rate, server_momentum; /* of Adam: beta1; its beta2 is 0.99, tau 1e-3 */
    qn_update_code code;
    double share; /* of the numbers that TOP sends; above 0, at most 1 */
    /* Patterns of names of the tensors that stay with each client, with what it trained; null or
     * empty: none. The last layers: FedPer (Arivazhagan et al., "Federated learning with
     * personalization layers", 2019); batch normalisation's: FedBN (Li et al., ICLR 2021). */
    const char *personal;
    /* Differential privacy, federate/privacy/accountant.h: the largest norm of a client's change;
     * 0: none. Each client takes part with probability per_round / n_clients, and all weigh the
     * same. */
    double clip;
    double noise;            /* deviation of the sum's, in clips; above 0 */
    double delta;            /* of the epsilon that is reported */
    const char *client_path; /* file of what clients keep; null: one that ends with the process */
    const qn_fleet_options *fleet; /* the clients' devices, whose number, seed and allocator are
                                      filled in; null: time and energy are not simulated. Copied,
                                      its texts not */
    double deadline; /* seconds after which a round does not wait any more; 0: it waits */
    double pace;     /* seconds between the beginnings of two rounds, at least */
    size_t memory_budget_bytes; /* as qn_engine_options */
    const char *numerics;       /* a description (quern/numerics.h) whose weights are
                                            float, or null */
    int64_t evaluate_every;     /* rounds; the last is always evaluated */
    const int *stop;            /* a round ends (QN_ERROR_INTERRUPTED) once it is not 0; null */
    int n_threads;
    uint64_t seed;
} qn_federation_options;

/* Whether a federation can be made of model, data and numbers: QN_ERROR_UNSUPPORTED,
 * QN_ERROR_ARGUMENT. */
qn_status qn_federation_check(const qn_federation_options *options);

typedef struct qn_federation_round {
    int64_t round;                         /* done */
    int64_t n_asked, n_answered, n_failed; /* clients; failed: the loss was not finite */
    int64_t n_late;    /* whose device was wanted elsewhere, or that missed the deadline */
    int64_t n_samples; /* that were trained on, each once */
    double train_loss; /* mean of the clients' first losses */
    bool has_test;
    double test_loss, test_accuracy; /* with personal tensors: of the clients that answered, each
                                        on up to 100 test samples of its own classes */
    int64_t bytes_down, bytes_up;    /* of all rounds so far */
    double epsilon;                  /* of all rounds so far; 0 without clip */
    double seconds, joules;          /* simulated, of all rounds so far; 0 without a fleet */
    int64_t ns;                      /* that the round took here */
} qn_federation_round;

typedef struct qn_federation qn_federation;

qn_status qn_federation_create(const qn_federation_options *options, qn_federation **federation);
void qn_federation_destroy(qn_federation *federation);

/* How the samples are divided: the smallest and the largest client, and the part of a client's
 * samples that its most frequent class has, in the mean of clients. */
typedef struct qn_federation_division {
    int64_t least, most;
    double largest_share;
} qn_federation_division;

qn_federation_division qn_federation_get_division(const qn_federation *federation);

/* One more round. QN_ERROR_INTERRUPTED: within one; what was saved last goes on. */
qn_status qn_federation_step(qn_federation *federation, qn_federation_round *round);

/* Rounds done so far. */
int64_t qn_federation_rounds(const qn_federation *federation);

/* Before the first round: keeps room on the disk for such a checkpoint. */
qn_status qn_federation_keep_room(qn_federation *federation, const qn_metadata *pairs,
                                  const char *path);

/* The server's network, the state of its rule and the counts of bytes as a checkpoint with the
 * pairs; quern evaluate and predict read it. */
qn_status qn_federation_save(qn_federation *federation, const qn_metadata *pairs, const char *path);

/* Goes on from what save wrote, with the same options and the clients' file. */
qn_status qn_federation_load(qn_federation *federation, const char *path);

#endif
