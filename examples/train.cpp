// Trains on rows made here within 8 MB, stops when it is good enough, and predicts with what it saved: in
// C++17.
#include <quern/quern.hpp>

#include <cmath>
#include <iostream>

namespace {

constexpr std::size_t rows = 2000, columns = 4;

// Two classes: whether a point lies within a ball.
void make(std::vector<float> &x, std::vector<std::int32_t> &classes) {
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < rows; i++) {
        float squares = 0;
        for (std::size_t k = 0; k < columns; k++) {
            state = state * 1664525u + 1013904223u;
            x.push_back(static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1);
            squares += x.back() * x.back();
        }
        classes.push_back(squares < 1.3F);
    }
}

} // namespace

int main() try {
    std::vector<float> x;
    std::vector<std::int32_t> classes;
    make(x, classes);
    const quern::data source = quern::data::rows(x, classes, 0.2);
    quern::run_options how;
    how.memory = 8'000'000; // bytes, of everything that training takes
    how.source = &source;
    quern::run run(quern::model::named("mlp"), {{"epochs", "30"}, {"batch", "32"}}, how);
    const bool ended = !run.train([](const quern::event &now) {
        return !now.is_epoch || now.test.at("accuracy") < 0.97;
    });
    run.save("ball.safetensors");
    std::cout << (ended ? "good enough" : "all epochs") << " after " << run.steps() << " steps: "
              << 100 * run.evaluate().at("accuracy") << " % right\n";
    quern::predictor predictor("ball.safetensors");
    const std::vector<float> outputs = predictor.predict_prepared({x.data(), 2 * columns});
    std::cout << outputs.size() << " outputs of two rows\n";
    return run.evaluate().at("accuracy") > 0.9 ? 0 : 1;
} catch (const quern::error &failure) {
    std::cerr << "train: " << failure.what() << '\n';
    return 1;
}
