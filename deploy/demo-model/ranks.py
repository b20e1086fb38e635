"""Data-parallel training on the cores of one machine: one process per core, sharing the weights.

Operations of a small model are too short to be worth splitting between threads. Here every process (a rank)
computes the gradient of its share of the batch's rows, and each weight has one rank that adds the ranks'
gradients, in the order of the ranks, and updates it.
"""

import multiprocessing
import multiprocessing.connection

import torch


class Team:
    """What the ranks of one run share; made before they are forked."""

    def __init__(self, model, count):
        self.count, self.parameters = count, list(model.parameters())
        model.share_memory()
        self._barrier = multiprocessing.get_context("fork").Barrier(count)
        # The largest first, dealt in turn: ranks own about equal amounts.
        order = sorted(range(len(self.parameters)), key=lambda index: -self.parameters[index].numel())
        self._owner = {index: place % count for place, index in enumerate(order)}
        self._gradients = [
            [torch.zeros_like(weight).share_memory_() for weight in self.parameters] for _ in range(count)
        ]

    def wait(self):
        """Waits until every rank is here. `run` ends the ranks when one of them fails."""
        if self.count > 1:
            self._barrier.wait()

    def reduce(self, rank):
        """Leaves in each weight that `rank` owns the sum of the ranks' gradients, and none in the others."""
        if self.count == 1:
            return
        for mine, weight in zip(self._gradients[rank], self.parameters):
            mine.zero_() if weight.grad is None else mine.copy_(weight.grad)
            weight.grad = None
        self.wait()
        for index, weight in enumerate(self.parameters):
            if self._owner[index] == rank:
                weight.grad = sum(gradients[index] for gradients in self._gradients)


def run(count, work):
    """Calls work(rank) in `count` forked processes (in this one if `count` is 1); returns when all are done.

    PyTorch cannot compute gradients in a fork of a process that did: this one must not have.
    """
    if count == 1:
        work(0)
        return
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=work, args=(rank,), daemon=True) for rank in range(count)]
    for process in processes:
        process.start()
    running = {process.sentinel: process for process in processes}
    try:
        while running:
            for sentinel in multiprocessing.connection.wait(list(running)):
                process = running.pop(sentinel)
                process.join()
                if process.exitcode:
                    raise SystemExit(f"ranks: a process of the training ended with {process.exitcode}")
    finally:
        for process in running.values():
            process.terminate()
