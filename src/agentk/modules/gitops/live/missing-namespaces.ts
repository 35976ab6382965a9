import type { Clock } from '../../../../lib/clock.ts'
import { pause } from '../../../../lib/pause.ts'
import type { ApiLane } from '../../../cluster/api-lanes.ts'

/** So often each is asked about. ms */
const pollMs = 2000
/** Namespaces of one source that are asked about at once. */
const maxNamespaces = 10

export interface MissingNamespacesComponents {
  /** of agentk itself: its own work goes before */
  readonly lane: ApiLane
  readonly clock: Clock
}

/**
 * Waits until one of the namespaces is there: what lacks one is tried again then, and not only after its pause.
 *
 * @returns whether one is; false: the signal has aborted, or agentk may not see namespaces
 */
export async function namespaceCame(
  { lane, clock }: MissingNamespacesComponents,
  names: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<boolean> {
  const asked = [...names].slice(0, maxNamespaces)
  while (!signal.aborted) {
    await pause(pollMs, clock, signal)
    for (const name of asked) {
      if (signal.aborted) return false
      const path = `/api/v1/namespaces/${encodeURIComponent(name)}`
      const status = await lane.json('GET', path, undefined, signal).then(
        (answer) => answer.status,
        () => 0, // asked again
      )
      if (status === 200) return true
      if (status === 401 || status === 403) return false
    }
  }
  return false
}
