// The fake card: the calls of CUDA's runtime and driver that CuPy makes, on host memory. All work
// is done, in order, when its call returns. A call that is not here is refused by its name, or
// does nothing where that is right: build.py generates both kinds.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>
#include "card.h"
#undef cudaGetDeviceProperties
#undef cuGetProcAddress
#define C extern "C"
#define CALL extern "C" cudaError_t
#define DRIVER extern "C" CUresult
#define OK return {}                              // cudaSuccess, CUDA_SUCCESS

static const int REFUSED = 801;                   // cudaErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED
static const int THREADS = 1024, PROCESSORS = 132, SHARED = 49152, RESIDENT = 2048;     // an H100's
static std::recursive_mutex one_at_a_time;
static std::vector<std::string> events;           // "kind\tname\tbytes"
static bool recording = false, pending = false;
static std::string why = "an error of the fake card";
static std::map<char*, size_t> blocks;            // what cudaMalloc gave out
static size_t used = 0;
static const size_t TOTAL = (size_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE) / 2;

// What Python, blas.cpp and the generated stubs call
C void fake_note(const char* kind, const char* name, size_t bytes) {
    std::lock_guard<std::recursive_mutex> guard(one_at_a_time);
    if (recording) events.push_back(std::string(kind) + "\t" + name + "\t" + std::to_string(bytes));
}
C int fake_refuse(const char* what, int status) {
    fprintf(stderr, "%s\n", (why = std::string("cupy_on_cpu does not fake ") + what).c_str());
    return status;
}
// Where no error can be returned, the next call of the card returns it.
static void fake_refuse_later(const char* what) { fake_refuse(what, 0); pending = true; }
C void fake_record(int on) { if ((recording = on)) events.clear(); }
C size_t fake_count() { return events.size(); }
C const char* fake_event(size_t i) { return events[i].c_str(); }
struct Refused { template <class T> operator T() const { return (T)REFUSED; } };
#define IN_ORDER std::lock_guard<std::recursive_mutex> guard(one_at_a_time); \
                 if (pending) { pending = false; return Refused(); }
#include "graph.h"

// Errors and the device
static const std::map<int, std::pair<const char*, const char*>> errors = {
    {cudaErrorMemoryAllocation, {"cudaErrorMemoryAllocation", "out of memory"}},
    {cudaErrorStreamCaptureUnsupported, {"cudaErrorStreamCaptureUnsupported",
        "operation not permitted when stream is capturing"}},
    {cudaErrorStreamCaptureInvalidated, {"cudaErrorStreamCaptureInvalidated",
        "operation failed due to a previous error during capture"}},
    {cudaErrorStreamCaptureIsolation, {"cudaErrorStreamCaptureIsolation",
        "dependency created on uncaptured work in another stream"}},
    {cudaErrorStreamCaptureImplicit, {"cudaErrorStreamCaptureImplicit",
        "operation would make the legacy stream depend on a capturing blocking stream"}},
    {cudaErrorCapturedEvent, {"cudaErrorCapturedEvent",
        "operation not permitted on an event last recorded in a capturing stream"}},
};
C const char* cudaGetErrorName(cudaError_t e) {
    if (e == REFUSED) return "cudaErrorNotSupported";
    return errors.count(e) ? errors.at(e).first : "cudaError";
}
C const char* cudaGetErrorString(cudaError_t e) {
    if (e == REFUSED) return why.c_str();
    return errors.count(e) ? errors.at(e).second : "invalid value or device";
}
CALL cudaDriverGetVersion(int* v) { *v = CUDART_VERSION; OK; }
CALL cudaRuntimeGetVersion(int* v) { *v = CUDART_VERSION; OK; }
CALL cudaGetDeviceCount(int* n) { *n = 1; OK; }
CALL cudaGetDevice(int* d) { *d = 0; OK; }
CALL cudaSetDevice(int d) { return d ? cudaErrorInvalidDevice : cudaSuccess; }
CALL cudaDeviceCanAccessPeer(int* yes, int, int) { *yes = 0; OK; }
CALL cudaGetDeviceProperties_v2(cudaDeviceProp* p, int device) {
    if (device) return cudaErrorInvalidDevice;
    memset(p, 0, sizeof *p);
    strcpy(p->name, "host memory (cupy_on_cpu)");
    p->totalGlobalMem = TOTAL;
    p->major = 9;
    p->warpSize = 32;
    p->multiProcessorCount = PROCESSORS;
    p->sharedMemPerBlock = SHARED;
    p->maxThreadsPerMultiProcessor = RESIDENT;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = THREADS;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    OK;
}
CALL cudaDeviceGetAttribute(int* v, cudaDeviceAttr which, int device) {
    if (device) return cudaErrorInvalidDevice;
    static const std::map<int, int> known = {
        {cudaDevAttrComputeCapabilityMajor, 9}, {cudaDevAttrComputeCapabilityMinor, 0},
        {cudaDevAttrMultiProcessorCount, PROCESSORS}, {cudaDevAttrMaxThreadsPerBlock, THREADS},
        {cudaDevAttrWarpSize, 32}, {cudaDevAttrMaxSharedMemoryPerBlock, SHARED},
        {cudaDevAttrMaxThreadsPerMultiProcessor, RESIDENT}, {cudaDevAttrMemoryPoolsSupported, 0}};
    if (!known.count(which)) return cudaErrorInvalidValue;
    *v = known.at(which);
    OK;
}

// Memory: a new block is full of 0xFF (NaN), so that what nobody wrote is seen
CALL cudaMalloc(void** p, size_t n) {
    IN_ORDER
    ALLOWED(unsafe_allowed())
    if (n > TOTAL - used) return cudaErrorMemoryAllocation;
    if (!(*p = aligned_alloc(512, n / 512 * 512 + 512))) return cudaErrorMemoryAllocation;
    memset(*p, 0xFF, n);
    blocks[(char*)*p] = n;
    used += n;
    fake_note("allocation", "", n);
    OK;
}
CALL cudaFree(void* p) {
    IN_ORDER
    ALLOWED(unsafe_allowed())
    auto found = blocks.find((char*)p);
    if (found == blocks.end()) return p ? cudaErrorInvalidValue : cudaSuccess;
    used -= found->second;
    fake_note("free", "", found->second);
    blocks.erase(found);
    free(p);
    OK;
}
CALL cudaMallocManaged(void** p, size_t n, unsigned) { return cudaMalloc(p, n); }
static std::map<char*, size_t> pinned;           // what cudaHostAlloc gave out
CALL cudaHostAlloc(void** p, size_t n, unsigned) {
    IN_ORDER
    ALLOWED(unsafe_allowed())
    if (!(*p = malloc(n + 1))) return cudaErrorMemoryAllocation;
    pinned[(char*)*p] = n;
    OK;
}
CALL cudaFreeHost(void* p) {
    IN_ORDER
    ALLOWED(unsafe_allowed())
    pinned.erase((char*)p);
    free(p);
    OK;
}
static bool lies_in(const std::map<char*, size_t>& given, const void* p) {
    auto after = given.upper_bound((char*)p);
    if (after == given.begin()) return false;
    auto [start, size] = *std::prev(after);
    return (char*)p < start + size;
}
CALL cudaMemGetInfo(size_t* left, size_t* all) { *all = TOTAL; *left = TOTAL - used; OK; }
CALL cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
    IN_ORDER
    bool ours = lies_in(blocks, p);
    memset(a, 0, sizeof *a);
    a->type = ours ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    a->devicePointer = ours ? (void*)p : nullptr;
    OK;
}
CALL cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind kind, cudaStream_t s) {
    static const char* directions[] = {"host to host", "host to device", "device to host",
                                       "device to device", "any"};
    IN_ORDER
    for (const void* p : {from, (const void*)to})
        if (captures.count(s) && !lies_in(blocks, p) && !lies_in(pinned, p))
            return spoilt(s, cudaErrorStreamCaptureUnsupported);    // the host's, which may move
    return (cudaError_t)fake_work(s, "copy", directions[kind], n, [=] { memmove(to, from, n); });
}
CALL cudaMemcpy(void* to, const void* from, size_t n, cudaMemcpyKind kind) {
    ALLOWED(unsafe_allowed())
    fake_note("synchronisation", "copy", n);                    // the host waits for this one
    return cudaMemcpyAsync(to, from, n, kind, nullptr);
}
CALL cudaMemsetAsync(void* p, int value, size_t n, cudaStream_t s) {
    return (cudaError_t)fake_work(s, "memset", "", n, [=] { memset(p, value, n); });
}
CALL cudaMemset(void* p, int value, size_t n) { return cudaMemsetAsync(p, value, n, nullptr); }

// Streams and events are numbers
static cudaError_t wait_for(const char* what) {
    fake_note("synchronisation", what, 0);
    OK;
}
CALL cudaDeviceSynchronize() {
    IN_ORDER
    ALLOWED(wait_allowed(nullptr, true))
    return wait_for("device");
}
CALL cudaStreamSynchronize(cudaStream_t s) {
    IN_ORDER
    ALLOWED(wait_allowed(s))
    return wait_for("stream");
}
CALL cudaStreamQuery(cudaStream_t s) {
    IN_ORDER
    return wait_allowed(s);
}
CALL cudaEventSynchronize(cudaEvent_t) {
    IN_ORDER
    return wait_for("event");
}
CALL cudaEventQuery(cudaEvent_t) { OK; }
CALL cudaEventRecord(cudaEvent_t, cudaStream_t s) {
    IN_ORDER
    if (captures.count(s)) { fake_refuse("an event in a capture", 0); return Refused(); }
    return work_allowed(s);
}
CALL cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t, unsigned) {
    IN_ORDER
    return captures.count(s) ? spoilt(s, cudaErrorStreamCaptureIsolation) : cudaSuccess;
}
template <class H> static cudaError_t number(H* h) {
    static size_t last = 0x1000;
    *h = (H)++last;
    OK;
}
static cudaError_t new_stream(cudaStream_t* s, unsigned flags) {
    IN_ORDER
    number(s);
    waiting[*s] = !(flags & cudaStreamNonBlocking);
    OK;
}
CALL cudaStreamCreate(cudaStream_t* s) { return new_stream(s, 0); }
CALL cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) { return new_stream(s, flags); }
CALL cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int) {
    return new_stream(s, flags);
}
CALL cudaEventCreate(cudaEvent_t* e) { return number(e); }
CALL cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return number(e); }

// The driver: a module is a host library (kernels.py)
DRIVER cuInit(unsigned) { OK; }
DRIVER cuGetErrorName(CUresult e, const char** s) {
    static std::string name;                    // CUDA_ERROR_NOT_SUPPORTED of cudaErrorNotSupported
    name = "CUDA";
    for (const char* c = cudaGetErrorName((cudaError_t)e) + 4; *c; c++)
        name += isupper(*c) ? std::string("_") + *c : std::string(1, toupper(*c));
    *s = name.c_str();
    OK;
}
DRIVER cuGetErrorString(CUresult e, const char** s) {
    *s = cudaGetErrorString((cudaError_t)e);
    OK;
}
DRIVER cuCtxGetCurrent(CUcontext* c) { *c = (CUcontext)1; OK; }
DRIVER cuCtxSetCurrent(CUcontext) { OK; }
DRIVER cuCtxGetDevice(CUdevice* d) { *d = 0; OK; }
DRIVER cuStreamGetCtx(CUstream, CUcontext* c) { *c = (CUcontext)1; OK; }
DRIVER cuGetExportTable(const void** table, const CUuuid*) {          // NVRTC asks
    *table = nullptr;
    return CUDA_ERROR_NOT_FOUND;
}
DRIVER cuGetProcAddress_v2(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*) {
    fake_refuse_later("modules with a CUDA runtime of their own (cupy.random, Thrust)");
    return CUDA_ERROR_NOT_FOUND;
}
DRIVER cuModuleLoadData(CUmodule* module, const void* image) {
    const Elf64_Ehdr* head = (const Elf64_Ehdr*)image;
    if (memcmp(image, ELFMAG, SELFMAG)) {
        fake_refuse("a module that is no host library", 0);
        return Refused();
    }
    // a library ends with its sections
    size_t left = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
    int file = memfd_create("kernel", MFD_CLOEXEC);     // stays open: dlopen goes by its name
    for (const char* p = (const char*)image; left;) {
        ssize_t n = write(file, p, left);
        if (n <= 0) return CUDA_ERROR_INVALID_IMAGE;
        p += n;
        left -= n;
    }
    std::string path = "/proc/self/fd/" + std::to_string(file);
    *module = (CUmodule)dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!*module) { fake_refuse(dlerror(), 0); return Refused(); }
    OK;
}
DRIVER cuModuleUnload(CUmodule) { OK; }
struct Kernel {
    std::string name;
    void (*run)(void**, const unsigned*, const unsigned*, unsigned);
    size_t (*sizes)(size_t*);                           // its parameters' bytes
};
DRIVER cuModuleGetFunction(CUfunction* f, CUmodule module, const char* name) {
    void* run = dlsym((void*)module, (std::string("run_") + name).c_str());
    void* sizes = dlsym((void*)module, (std::string("sizes_") + name).c_str());
    if (!run || !sizes) { fake_refuse(name, 0); return Refused(); }
    *f = (CUfunction) new Kernel{name, (decltype(Kernel::run))run, (decltype(Kernel::sizes))sizes};
    OK;
}
DRIVER cuFuncGetAttribute(int* v, CUfunction_attribute which, CUfunction) {
    if (which != CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) {
        fake_refuse("cuFuncGetAttribute", 0);
        return Refused();
    }
    *v = THREADS;
    OK;
}
DRIVER cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                      unsigned by, unsigned bz, unsigned shared, CUstream s, void** arguments,
                      void**) {
    IN_ORDER
    const Kernel* kernel = (const Kernel*)f;
    unsigned long grid = 1ul * gx * gy * gz, block = 1ul * bx * by * bz;
    if (!arguments || !grid || !block || block > THREADS || shared > SHARED)
        return CUDA_ERROR_INVALID_VALUE;
    std::string name = kernel->name + " <<<" + std::to_string(grid) + ", " +
                       std::to_string(block) + ">>>";
    std::vector<std::vector<char>> kept;                // parameters, as they are at the launch
    if (fake_is_captured(s)) {
        size_t bytes[1024], count = kernel->sizes(bytes);
        for (size_t i = 0; i < count; i++)
            kept.emplace_back((char*)arguments[i], (char*)arguments[i] + bytes[i]);
    }
    return (CUresult)fake_work(s, "launch", name, 0, [=]() mutable {
        std::vector<void*> places;
        for (auto& each : kept) places.push_back(each.data());
        unsigned blocks_of[3] = {gx, gy, gz}, threads_of[3] = {bx, by, bz};
        kernel->run(kept.empty() ? arguments : places.data(), blocks_of, threads_of, shared);
    });
}
