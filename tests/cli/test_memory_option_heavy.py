"""The heavier models within budgets at shares of what they take beside their parameters: inside, and the
same weights. Shares below the budget that a refusal names are left out."""
import unittest

import quern
from test_memory_option import Memory, bytes_of

SHARES = (75, 50, 35, 25)


class Heavy(Memory):
    models = (("vgg19", ("--batch", 4), None),
              ("resnet18", ("--batch", 4), None), ("resnet50", ("--batch", 4), None),
              ("googlenet", ("--batch", 2), None), ("inception-v3", ("--batch", 2), None),
              ("xception", ("--batch", 2), None), ("densenet40", ("--batch", 4), None),
              ("squeezenet", ("--batch", 16), None), ("mobilenet-v1", ("--batch", 16), None),
              ("mobilenet-v2", ("--batch", 16), None), ("resnet101", ("--batch", 2), None),
              ("densenet100", ("--batch", 1), None),
              ("dcgan", ("--batch", 64), None), ("bert-tiny", ("--batch", 16), None))

    def try_model(self, name, options, budget):
        usual = self.train(name, *options, "--steps", 2, "--save", "usual.safetensors")
        done = usual.events[-1]
        fixed, most = done["parameter_bytes"], done["peak_bytes"]
        least, n_inside = bytes_of(self.least(name, *options)), 0
        for share in SHARES:
            size = fixed + (most - fixed) * share // 100
            if size < least:
                continue
            run = self.train(name, *options, "--steps", 2, "--save", "within.safetensors",
                             "--memory", size)
            plan = self.check_inside(run, size)
            n_inside += 1
            print(f"{name} {share} %: {size >> 20} MiB, {plan['operations_again']} of "
                  f"{plan['operations']} again, slowdown {plan['predicted_slowdown']:.3f}, "
                  f"resident {run.events[-1]['peak_rss_bytes'] - size >> 10} KiB above")
            self.assertEqual(self.bytes_of("within.safetensors"),
                             self.bytes_of("usual.safetensors"))
        self.assertGreater(n_inside, 0)


del Memory
if __name__ == "__main__":
    unittest.main()
