import type { KasError } from '../../lib/errors.ts'
import type { GrpcServerMetrics, GrpcType } from '../../lib/metrics.ts'

/** The counted parts of a call. */
interface ObservedCall {
  readonly method: string
  readonly counts: { readonly received: number; readonly sent: number }
}

export interface GrpcObserver {
  started(call: ObservedCall): void
  finished(call: ObservedCall, error: KasError | undefined): void
}

/**
 * Counts the calls of a gRPC server. Calls of unknown methods are not counted, so that callers cannot create labels.
 */
export function grpcObserver(metrics: GrpcServerMetrics, served: Readonly<Record<string, GrpcType>>): GrpcObserver {
  const methods = new Map(Object.entries(served).map(([name, type]) => [name, metrics.method(name, type)]))
  return {
    started: ({ method }) => methods.get(method)?.started(),
    finished: ({ method, counts }, error) => methods.get(method)?.ended(error?.grpcCode ?? 0, counts),
  }
}
