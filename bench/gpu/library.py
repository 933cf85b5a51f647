"""What a library makes of a work of bench/gpu/run, in GFLOP/s.

  library.py DEVICE name
  library.py DEVICE sgemm|hgemm|igemm N
  library.py DEVICE conv H C K R STRIDE

PyTorch has cuBLAS and cuDNN.  Exits with 1 where it is not.
"""
import sys


def best(call, repeats=30, budget=1.0):
    """The least of some times of a call that returns its own, in seconds."""
    least, spent = float("inf"), 0.0
    for i in range(repeats):
        t = call()
        spent += t
        if i > 2:
            least = min(least, t)
        if i > 8 and spent > budget:
            break
    return least


class Torch:
    def __init__(self, device):
        import torch

        if not torch.cuda.is_available():
            sys.exit(1)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.torch = torch
        self.device = torch.device("cuda", device)

    def name(self):
        return "PyTorch %s, cuDNN %s" % (
            self.torch.__version__,
            self.torch.backends.cudnn.version(),
        )

    def timed(self, f):
        start = self.torch.cuda.Event(enable_timing=True)
        end = self.torch.cuda.Event(enable_timing=True)

        def call():
            start.record()
            f()
            end.record()
            self.torch.cuda.synchronize()
            return start.elapsed_time(end) * 1e-3

        return best(call)

    def product(self, n, dtype):
        a = self.torch.randn(n, n, device=self.device).to(dtype)
        b = self.torch.randn(n, n, device=self.device).to(dtype)
        c = self.torch.empty(n, n, device=self.device, dtype=dtype)
        return self.timed(lambda: self.torch.matmul(a, b, out=c))

    def sgemm(self, n):
        return self.product(n, self.torch.float32)

    def hgemm(self, n):
        return self.product(n, self.torch.float16)

    def igemm(self, n):
        def random():
            return self.torch.randint(
                -128, 128, (n, n), device=self.device, dtype=self.torch.int8
            )

        a, b = random(), random().t()
        return self.timed(lambda: self.torch._int_mm(a, b))

    def conv(self, h, c, k, r, stride):
        x = self.torch.randn(1, c, h, h, device=self.device)
        f = self.torch.randn(k, c, r, r, device=self.device)
        pad = (r - 1) // 2
        conv2d = self.torch.nn.functional.conv2d
        with self.torch.no_grad():
            return self.timed(lambda: conv2d(x, f, stride=stride, padding=pad))


def main():
    device, what = int(sys.argv[1]), sys.argv[2]
    sizes = [int(a) for a in sys.argv[3:]]
    library = Torch(device)
    if what == "name":
        print(library.name())
        return
    if what.endswith("gemm"):
        flops = 2.0 * sizes[0] ** 3
    else:
        h, c, k, r, stride = sizes
        flops = 2.0 * c * k * r * r * ((h - 1) // stride + 1) ** 2
    print("%.2f" % (flops / getattr(library, what)(*sizes) * 1e-9))


main()
