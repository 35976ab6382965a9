import { create, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import type { Logger } from '../../../lib/log.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import {
  GitLabFlux,
  ReconcileProjectsRequestSchema,
  ReconcileProjectsResponseSchema,
} from '../../../proto/gen/flux_pb.ts'
import { writeFeatures } from '../../../proto/placement.ts'
import { methodPath } from '../../../proto/unary.ts'
import type { KasConnections } from '../../tunnels/kas-connections.ts'
import { type KeptStream, keepOpen } from '../../tunnels/keep-open.ts'

export const reconcileProjectsMethod = methodPath(GitLabFlux.method.reconcileProjects)

/**
 * Follows the pushes to the given projects until the signal aborts. The stream is opened again whenever it ends,
 * at once if its connection ended (doc/reference/tunnel-protocol.md 1.9 and 2.5).
 *
 * @param projects - full paths, at least one
 */
export function followPushes(
  components: {
    readonly kas: Pick<KasConnections, 'session' | 'metadata'>
    /** @param id - 0: kas has no ids */
    readonly onPush: (project: string, id: bigint) => void
    readonly log: Logger
    readonly clock: Clock
    readonly random: () => number
  },
  projects: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const { onPush, log } = components
  const request = create(ReconcileProjectsRequestSchema, { project: projects.map((id) => ({ id })) })
  const kept: KeptStream = {
    method: reconcileProjectsMethod,
    // kas then also sends pushes again that it sent to another pod, which may have lost them
    metadata: writeFeatures('push-id'),
    async read(stream) {
      void stream.send(toBinary(ReconcileProjectsRequestSchema, request))
      stream.end()
      for await (const message of stream.messages) {
        const { project, pushId } = decodeMessage(ReconcileProjectsResponseSchema, message)
        if (project?.id) onPush(project.id, pushId)
      }
      return 'ended'
    },
    refused: (error) => log.error({ error }, 'ReconcileProjects failed'),
    failed: (error) => log.error({ error }, 'The stream of pushes failed'),
  }
  return keepOpen(components, kept, signal)
}

/** Number of pushes that kas remembers for agents that reconnect (src/kas/modules/flux/recent-pushes.ts). */
const maxHandledPushes = 10_000

/** Ids of handled pushes, since kas may send a push twice. The oldest ids are dropped. */
export class HandledPushes {
  readonly #max: number
  readonly #ids = new Set<bigint>()

  constructor(max: number = maxHandledPushes) {
    this.#max = max
  }

  /** @param id - 0: kas has no ids. @returns true if the push is new */
  add(id: bigint): boolean {
    if (id === 0n) return true
    if (this.#ids.has(id)) return false
    this.#ids.add(id)
    if (this.#ids.size > this.#max) for (const oldest of this.#ids.keys()) return this.#ids.delete(oldest)
    return true
  }

  /** Removes a push that was not handled after all. */
  remove(id: bigint): void {
    this.#ids.delete(id)
  }
}
