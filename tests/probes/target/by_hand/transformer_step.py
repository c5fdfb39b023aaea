# mypy: ignore-errors
"""A two-layer GPT: training steps through torch.compile with autocast and AdamW, against eager.

By hand: ptxview run tests/probes/target/by_hand/transformer_step.py
"""

import copy
import time

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, WORDS, LENGTH = 64, 4, 256, 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        parts = self.attend(self.before(x)).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).flatten(2))
        return x + self.think(self.after(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids, targets):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        logits = self.head(self.norm(self.blocks(x)))
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


if __name__ == "__main__":
    torch.manual_seed(0)
    plain = Model().cuda()
    model = copy.deepcopy(plain)
    ways = [(plain, plain), (torch.compile(model), model)]
    steps = [torch.optim.AdamW(owner.parameters(), lr=1e-3) for _, owner in ways]
    begun = time.perf_counter()
    for step in range(3):
        ids = torch.randint(WORDS, (4, LENGTH + 1), device="cuda")
        losses = []
        for (way, _), optimizer in zip(ways, steps, strict=True):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = way(ids[:, :-1], ids[:, 1:])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        print(f"step {step}: eager {losses[0]:.4f}, compiled {losses[1]:.4f}")
        assert abs(losses[0] - losses[1]) < 0.02
    print(f"{time.perf_counter() - begun:.1f} s")
