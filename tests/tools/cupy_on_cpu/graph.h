// Stream capture and graphs: what is captured, what a capture forbids and with which error, as
// CUDA's reference says it of one thread. A graph's nodes are done in the order of their capture.
struct Node { std::string kind, name; size_t bytes; std::function<void()> work; };
typedef std::vector<Node> Nodes;
struct Capture { Nodes* nodes; int mode; bool valid; };
static std::map<void*, Capture> captures;                   // by stream
static std::map<void*, bool> waiting;                       // streams: do they wait for the legacy one?

static cudaError_t spoilt(void* stream, cudaError_t error) {     // a capture, by what is forbidden
    captures.at(stream).valid = false;
    return error;
}
static bool is_legacy(void* stream) { return !stream || stream == cudaStreamLegacy; }
bool fake_is_captured(void* stream) { return captures.count(stream); }

// An error where work on this stream breaks a capture: its own, or, on the legacy stream, that of a
// stream which waits for it
static cudaError_t work_allowed(void* stream) {
    if (captures.count(stream))
        return captures[stream].valid ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
    if (is_legacy(stream))
        for (auto& [other, capture] : captures)
            if (waiting[other]) return spoilt(other, cudaErrorStreamCaptureImplicit);
    return cudaSuccess;
}
// Waiting for a stream, or for all (cudaStreamPerThread is not used)
static cudaError_t wait_allowed(void* stream, bool all = false) {
    if (all && captures.size())
        return spoilt(captures.begin()->first, cudaErrorStreamCaptureUnsupported);
    if (captures.count(stream)) return spoilt(stream, cudaErrorStreamCaptureUnsupported);
    return work_allowed(stream);
}
// What may wait for the device or change what a graph refers to: memory got and given back
static cudaError_t unsafe_allowed() {
    for (auto& [stream, capture] : captures)
        if (capture.mode != cudaStreamCaptureModeRelaxed)
            return spoilt(stream, cudaErrorStreamCaptureUnsupported);
    return cudaSuccess;
}
#define ALLOWED(check) if (cudaError_t error = check) return error;

int fake_work(void* stream, const char* kind, const std::string& name, size_t bytes,
              std::function<void()> work) {
    IN_ORDER
    ALLOWED(work_allowed(stream))
    if (captures.count(stream)) {
        captures[stream].nodes->push_back({kind, name, bytes, work});
        return 0;
    }
    work();
    fake_note(kind, name.c_str(), bytes);
    return 0;
}

CALL cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
    IN_ORDER
    if (is_legacy(s) || captures.count(s)) return cudaErrorStreamCaptureUnsupported;
    captures[s] = {new Nodes, mode, true};
    OK;
}
CALL cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
    IN_ORDER
    *graph = nullptr;
    if (!captures.count(s)) return cudaErrorIllegalState;
    Capture done = captures[s];
    captures.erase(s);
    if (done.valid) *graph = (cudaGraph_t)done.nodes;
    else delete done.nodes;
    return done.valid ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
}
CALL cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
    IN_ORDER
    *status = cudaStreamCaptureStatusNone;
    if (captures.count(s))
        *status = captures[s].valid ? cudaStreamCaptureStatusActive
                                    : cudaStreamCaptureStatusInvalidated;
    else if (is_legacy(s))
        for (auto& [other, capture] : captures)
            if (waiting[other]) return cudaErrorStreamCaptureImplicit;
    OK;
}
CALL cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
    *exec = (cudaGraphExec_t) new Nodes(*(Nodes*)graph);
    OK;
}
CALL cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
    IN_ORDER
    if (captures.count(s)) { fake_refuse("a graph inside a graph", 0); return Refused(); }
    ALLOWED(work_allowed(s))
    const Nodes& nodes = *(Nodes*)exec;
    fake_note("graph", (std::to_string(nodes.size()) + " nodes").c_str(), 0);
    for (const Node& node : nodes) {
        node.work();
        fake_note("node", (node.kind + " " + node.name).c_str(), node.bytes);
    }
    OK;
}
CALL cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { OK; }
CALL cudaGraphDestroy(cudaGraph_t graph) { delete (Nodes*)graph; OK; }
CALL cudaGraphExecDestroy(cudaGraphExec_t exec) { delete (Nodes*)exec; OK; }
