import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(256)

    def forward(self, x):
        y = torch.sin(x) * x
        h = self.norm(y)
        return torch.relu(h) + y.sum(-1, keepdim=True)

if __name__ == "__main__":
    m = Model().cuda()
    x = torch.randn(64, 256, device="cuda")
    f = torch.compile(m)
    out = f(x)
    out.sum().backward()
    print(out.shape)
