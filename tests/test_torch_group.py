"""`RobustLoss(process_group=)` on two and four processes: the answers of one process, and an error where one is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

SCRIPT = Path(__file__).with_name("torch_group.py")
CHECKS = {
    2: (
        "equals_one_process",
        "trains_as_one_process_under_ddp",
        "trains_as_one_process_under_fsdp",
        "answers_what_is_wrong",
        "a_killed_process_is_noticed",
    ),
    4: ("equals_one_process", "answers_what_is_wrong", "a_killed_process_is_noticed"),
}


@pytest.mark.parametrize("world", [2, 4])
def test_a_group_answers_as_one_process_and_notices_a_lost_one(world: int, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), str(world), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(world)
    ]
    try:
        answers = [process.communicate(timeout=240) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank, (process, (out, err)) in enumerate(zip(processes, answers, strict=True)):
        wanted = CHECKS[world][:-1] if rank == world - 1 else CHECKS[world]
        assert process.returncode == 0, f"process {rank}: {out}\n{err}"
        assert out.split("\n")[:-1] == [f"{check} passed" for check in wanted]
