"""Every collective of gloo on CUDA tensors, DistributedDataParallel, DTensor and FSDP2.

Run with the number of ranks and a folder; each rank is a process on the emulated device.
"""

import multiprocessing
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def full(value: float) -> torch.Tensor:
    return torch.full((2,), float(value), device="cuda")


def collectives(rank: int, world: int) -> None:
    total = float(sum(range(world)))
    ranks = [full(i).tolist() for i in range(world)]
    x = full(rank)
    dist.broadcast(x, world - 1)
    assert x.tolist() == ranks[-1]
    x = full(rank)
    dist.all_reduce(x)
    assert x.is_cuda and x.tolist() == [total, total]
    x = full(rank)
    dist.reduce(x, 0)
    assert rank or x.tolist() == [total, total]
    parts = [full(-1) for _ in range(world)]
    dist.all_gather(parts, full(rank))
    assert [part.tolist() for part in parts] == ranks and parts[0].is_cuda
    parts = [full(-1) for _ in range(world)]
    work = dist.all_gather(parts, full(rank), async_op=True)
    work.wait()
    assert [part.tolist() for part in parts] == ranks
    flat = torch.empty(2 * world, device="cuda")
    dist.all_gather_into_tensor(flat, full(rank))
    assert flat.tolist() == [i for i in range(world) for _ in range(2)]
    parts = [full(-1) for _ in range(world)]
    dist.gather(full(rank), parts if rank == 0 else None, 0)
    assert rank or [part.tolist() for part in parts] == ranks
    x = full(-1)
    dist.scatter(x, [full(i) for i in range(world)] if rank == 0 else None, 0)
    assert x.tolist() == ranks[rank]
    x = full(-1)
    dist.reduce_scatter_tensor(x, torch.ones(2 * world, device="cuda"))
    assert x.tolist() == [world, world]
    parts = [full(-1) for _ in range(world)]
    dist.all_to_all(parts, [full(rank) for _ in range(world)])
    assert [part.tolist() for part in parts] == ranks
    x = torch.empty(2 * world, device="cuda")
    dist.all_to_all_single(x, torch.full((2 * world,), float(rank), device="cuda"))
    assert x.tolist() == [i for i in range(world) for _ in range(2)]
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": i} for i in range(world)]
    if world > 1:
        x = full(rank)
        if rank:
            dist.recv(x, 0)
        else:
            dist.send(x, 1)
        assert x.tolist() == ranks[0]
    dist.barrier()


def models(rank: int, world: int) -> None:
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    model(torch.full((1, 4), float(rank), device="cuda")).sum().backward()
    gradient = model.module.weight.grad
    torch.testing.assert_close(gradient, torch.full_like(gradient, (world - 1) / 2))
    weights = [torch.empty_like(gradient) for _ in range(world)]
    dist.all_gather(weights, model.module.weight.detach())
    assert all(torch.equal(weight, weights[0]) for weight in weights)

    mesh = init_device_mesh("cuda", (world,))
    whole = torch.arange(8.0, device="cuda").reshape(4, 2)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert sharded.to_local().shape == (4 // world, 2)
    assert torch.equal(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
    doubled = (sharded + sharded).sum()
    assert doubled.full_tensor().item() == 56

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4).cuda()
    before = model.weight.detach().clone()
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(torch.full((1, 4), float(rank), device="cuda")).sum().backward()
    optimizer.step()
    after = model.weight.full_tensor()
    torch.testing.assert_close(after, before - (world - 1) / 2)


def work(rank: int, world: int, folder: str) -> None:
    dist.init_process_group("gloo", f"file://{folder}/group", rank=rank, world_size=world)
    collectives(rank, world)
    models(rank, world)
    try:
        dist.new_group(backend="nccl")
    except RuntimeError as error:
        assert "ptxview" in str(error) and "NCCL" in str(error), error
    else:
        raise AssertionError("a group over NCCL was made")
    dist.destroy_process_group()


def main() -> None:
    world, folder = int(sys.argv[1]), sys.argv[2]
    if world == 1:
        work(0, 1, folder)
    else:
        fork = multiprocessing.get_context("fork")
        ranks = [fork.Process(target=work, args=(i, world, folder)) for i in range(world)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        assert [process.exitcode for process in ranks] == [0] * world
    print("done")


main()
