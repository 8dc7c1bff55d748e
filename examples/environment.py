#!/usr/bin/env python3
"""An environment for quern in a process of its own, by the protocol of docs/environments.md.

    quern train dqn --net mlp --data 'process:python3 examples/environment.py'

A ship drifts in front of a wall with a gap; it may steer left, wait, or steer right. The reward is
how near it is to the gap, which wanders. Take it as a pattern: an environment of one's own replaces
the class and the greeting.
"""
import random
import struct
import sys


class Drift:
    """Four numbers: place, speed, the gap's place, and the time left; 200 steps an episode."""

    actions, numbers, steps = 3, 4, 200

    def reset(self, seed):
        self.random = random.Random(seed)
        self.place, self.speed, self.left = self.random.uniform(-1, 1), 0.0, self.steps
        self.gap = self.random.uniform(-1, 1)
        return self.observation()

    def observation(self):
        return self.place, self.speed, self.gap, self.left / self.steps

    def step(self, action):
        """What is seen, the reward, and how the episode stands."""
        self.speed = 0.9 * self.speed + 0.02 * (action - 1)
        self.place = max(-1.0, min(1.0, self.place + self.speed))
        self.gap = max(-1.0, min(1.0, self.gap + self.random.gauss(0, 0.02)))
        self.left -= 1
        reward = 1 - min(1.0, 2 * abs(self.place - self.gap))
        return self.observation(), reward, "truncated" if self.left == 0 else "running"


def answer(reward, state, numbers):
    out = sys.stdout.buffer
    out.write(f"reward {reward:.9g} {state}\n".encode())
    out.write(struct.pack(f"<{len(numbers)}f", *numbers))
    out.flush()


def main():
    world = Drift()
    print(f"quern-environment 1 observation f32 {world.numbers} actions {world.actions}",
          flush=True)
    for line in sys.stdin:
        request, argument = line.split()
        if request == "reset":
            answer(0, "running", world.reset(int(argument)))
        elif request == "step":
            numbers, reward, state = world.step(int(argument))
            answer(reward, state, numbers)


if __name__ == "__main__":
    main()
