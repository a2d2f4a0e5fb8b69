"""What every linear layer is."""

from collections.abc import Callable

import torch

Linear = Callable[[torch.Tensor], torch.Tensor]
