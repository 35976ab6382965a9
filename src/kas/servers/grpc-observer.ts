import type { GrpcServerMetrics, GrpcType } from '../../lib/metrics.ts'
import type { ServerSessionEvents } from '../../proto/grpc/server-session.ts'

/** Counts the calls of a gRPC server; methods that are not served are not counted, so that nobody can make labels. */
export function grpcObserver(
  metrics: GrpcServerMetrics,
  served: Readonly<Record<string, GrpcType>>,
): Pick<Required<ServerSessionEvents>, 'started' | 'finished'> {
  const methods = new Map(Object.entries(served).map(([name, type]) => [name, metrics.method(name, type)]))
  return {
    started: (stream) => methods.get(stream.method)?.started(),
    finished: (stream, error) => methods.get(stream.method)?.ended(error?.grpcCode ?? 0, stream.counts),
  }
}
