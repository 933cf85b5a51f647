"""What a library makes of a work of bench/gpu/run, in GFLOP/s.

  library.py cuda|opencl DEVICE name
  library.py cuda|opencl DEVICE sgemm N
  library.py cuda|opencl DEVICE conv H C K R STRIDE

PyTorch has cuBLAS and cuDNN; CLBlast is called through its C interface.  Exits
with 1 where there is neither.
"""
import ctypes
import ctypes.util
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

    def sgemm(self, n):
        a = self.torch.randn(n, n, device=self.device)
        b = self.torch.randn(n, n, device=self.device)
        c = self.torch.empty(n, n, device=self.device)
        return self.timed(lambda: self.torch.matmul(a, b, out=c))

    def conv(self, h, c, k, r, stride):
        x = self.torch.randn(1, c, h, h, device=self.device)
        f = self.torch.randn(k, c, r, r, device=self.device)
        pad = (r - 1) // 2
        conv2d = self.torch.nn.functional.conv2d
        with self.torch.no_grad():
            return self.timed(lambda: conv2d(x, f, stride=stride, padding=pad))


class ClBlast:
    """Products alone; OpenCL's own interface makes queue and memory."""

    def __init__(self, device):
        found = ctypes.util.find_library("clblast")
        if not found:
            sys.exit(1)
        self.blast = ctypes.CDLL(found)
        self.cl = ctypes.CDLL(ctypes.util.find_library("OpenCL"))
        handle = ctypes.c_void_p
        for f in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer"):
            getattr(self.cl, f).restype = handle
        self.device = self.find(device)
        error = ctypes.c_int32()
        self.context = handle(
            self.cl.clCreateContext(
                None, 1, ctypes.byref(self.device), None, None,
                ctypes.byref(error)
            )
        )
        self.queue = handle(
            self.cl.clCreateCommandQueue(
                self.context, self.device, ctypes.c_uint64(2),
                ctypes.byref(error)
            )
        )

    def find(self, number):
        platforms = (ctypes.c_void_p * 16)()
        count = ctypes.c_uint32()
        self.cl.clGetPlatformIDs(16, platforms, ctypes.byref(count))
        for p in platforms[: count.value]:
            devices = (ctypes.c_void_p * 64)()
            n = ctypes.c_uint32()
            self.cl.clGetDeviceIDs(
                ctypes.c_void_p(p), ctypes.c_uint64(0xFFFFFFFF), 64, devices,
                ctypes.byref(n)
            )
            if number < n.value:
                return ctypes.c_void_p(devices[number])
            number -= n.value
        sys.exit(1)

    def name(self):
        return "CLBlast"

    def buffer(self, n):
        data = (ctypes.c_float * n)(*([0.5, -0.25, 1.0, 0.75] * (n // 4)))
        error = ctypes.c_int32()
        return ctypes.c_void_p(
            self.cl.clCreateBuffer(
                self.context, ctypes.c_uint64(33), ctypes.c_size_t(4 * n),
                data, ctypes.byref(error)
            )
        )

    def sgemm(self, n):
        """By the clock on the wall: a product is several kernels, and the
        event is that of the last one."""
        import time

        a, b, c = self.buffer(n * n), self.buffer(n * n), self.buffer(n * n)
        size = ctypes.c_size_t

        def call():
            start = time.perf_counter()
            status = self.blast.CLBlastSgemm(
                101, 111, 111, size(n), size(n), size(n), ctypes.c_float(1),
                a, size(0), size(n), b, size(0), size(n), ctypes.c_float(0),
                c, size(0), size(n), ctypes.byref(self.queue), None
            )
            self.cl.clFinish(self.queue)
            if status != 0:
                sys.exit(1)
            return time.perf_counter() - start

        return best(call)

    def conv(self, *_):
        sys.exit(1)


def main():
    kind, device, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    sizes = [int(a) for a in sys.argv[4:]]
    library = (Torch if kind == "cuda" else ClBlast)(device)
    if what == "name":
        print(library.name())
        return
    if what == "sgemm":
        flops = 2.0 * sizes[0] ** 3
    else:
        h, c, k, r, stride = sizes
        flops = 2.0 * c * k * r * r * ((h - 1) // stride + 1) ** 2
    print("%.2f" % (flops / getattr(library, what)(*sizes) * 1e-9))


main()
