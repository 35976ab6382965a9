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
 * Follows the pushes to the projects that it names, until it is aborted: the stream is opened again whenever it ends,
 * at once if its connection did (doc/reference/tunnel-protocol.md 1.9 and 2.5).
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
    // kas then sends again what it sent to another pod, which may have been lost with that
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

/** As many as kas remembers for agents that come back (src/kas/modules/flux/recent-pushes.ts). */
const maxHandledPushes = 10_000

/** Ids of pushes that need no second call: kas sends one twice rather than not at all. The oldest are forgotten. */
export class HandledPushes {
  readonly #max: number
  readonly #ids = new Set<bigint>()

  constructor(max: number = maxHandledPushes) {
    this.#max = max
  }

  /** @param id - 0: of a kas that has no ids. @returns whether it is new */
  add(id: bigint): boolean {
    if (id === 0n) return true
    if (this.#ids.has(id)) return false
    this.#ids.add(id)
    if (this.#ids.size > this.#max) for (const oldest of this.#ids.keys()) return this.#ids.delete(oldest)
    return true
  }

  /** It was not handled after all. */
  remove(id: bigint): void {
    this.#ids.delete(id)
  }
}
