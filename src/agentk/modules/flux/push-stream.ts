import { create, toBinary } from '@bufbuild/protobuf'
import { Backoff } from '../../../lib/backoff.ts'
import type { Clock } from '../../../lib/clock.ts'
import { Code, KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { pause } from '../../../lib/pause.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import {
  GitLabFlux,
  ReconcileProjectsRequestSchema,
  ReconcileProjectsResponseSchema,
} from '../../../proto/gen/flux_pb.ts'
import type { ClientSession } from '../../../proto/grpc/client-session.ts'
import { writeFeatures } from '../../../proto/placement.ts'
import { methodPath } from '../../../proto/unary.ts'
import type { KasConnections } from '../../tunnels/kas-connections.ts'

export const reconcileProjectsMethod = methodPath(GitLabFlux.method.reconcileProjects)

/** Upstream's (doc/reference/tunnel-protocol.md 2.5). */
const backoffOptions = { firstMs: 10_000, maxMs: 300_000, factor: 2, jitter: 1, resetMs: 600_000 }
/** A kas that ends a stream at once, without an error, is asked again after so long. ms */
const minStreamMs = 1000

export interface PushStreamComponents {
  readonly kas: Pick<KasConnections, 'session' | 'metadata'>
  /** @param id - 0: kas has no ids */
  readonly onPush: (project: string, id: bigint) => void
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

/**
 * Follows the pushes to the projects that it names, until it is aborted: the stream is opened again whenever it ends,
 * at once if its connection did (doc/reference/tunnel-protocol.md 1.9 and 2.5).
 *
 * @param projects - full paths, at least one
 */
export async function followPushes(
  components: PushStreamComponents,
  projects: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const { kas, log, clock } = components
  const backoff = new Backoff(components, backoffOptions)
  while (!signal.aborted) {
    try {
      const session = await kas.session(signal)
      const beganAt = clock.now()
      const error = await followOnce(components, session, { projects, signal })
      if (signal.aborted || session.draining) continue
      if (!error) {
        const leftMs = minStreamMs - (clock.now() - beganAt)
        if (leftMs > 0) await pause(leftMs, clock, signal)
        continue
      }
      if (error.grpcCode !== Code.CANCELLED && error.grpcCode !== Code.DEADLINE_EXCEEDED) {
        log.error({ error }, 'ReconcileProjects failed')
      }
    } catch (error) {
      if (signal.aborted) return
      if (KasError.from(error).code === 'TUNNEL_LOST') {
        await pause(minStreamMs, clock, signal) // the connection left at this moment: the next one is near
        continue
      }
      log.error({ error }, 'The stream of pushes failed')
    }
    await backoff.wait(signal)
  }
}

/** Reads one stream to its end. @returns its error, undefined for OK */
async function followOnce(
  { kas, onPush }: PushStreamComponents,
  session: ClientSession,
  { projects, signal }: { projects: readonly string[]; signal: AbortSignal },
): Promise<KasError | undefined> {
  // kas then sends again what it sent to another pod, which may have been lost with that
  const own = { ...kas.metadata(), ...writeFeatures('push-id') }
  const stream = session.open({ method: reconcileProjectsMethod, metadata: own, signal })
  const request = create(ReconcileProjectsRequestSchema, { project: projects.map((id) => ({ id })) })
  void stream.send(toBinary(ReconcileProjectsRequestSchema, request))
  stream.end()
  try {
    for await (const message of stream.messages) {
      const { project, pushId } = decodeMessage(ReconcileProjectsResponseSchema, message)
      if (project?.id) onPush(project.id, pushId)
    }
  } catch (error) {
    stream.cancel()
    throw error
  }
  return (await stream.done).error
}
