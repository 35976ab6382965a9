import { builtIn } from '../../../../kubernetes/kind.ts'
import { objectPath } from '../../../../kubernetes/path.ts'
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
 * Waits until one of the namespaces that are not there is: what lacks one is tried again then, and not only after its
 * pause.
 *
 * @returns whether one has come; false: none is missing, the signal has aborted, or agentk may not see namespaces
 */
export async function namespaceCame(
  { lane, clock }: MissingNamespacesComponents,
  names: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<boolean> {
  const waiting = new Set([...names].slice(0, maxNamespaces))
  const missing = new Set<string>()
  while (!signal.aborted) {
    for (const name of waiting) {
      const path = objectPath(builtIn.namespaces, { name })
      const status = await lane.json('GET', path, undefined, signal).then(
        (answer) => answer.status,
        () => 0, // asked again
      )
      if (signal.aborted || status === 401 || status === 403) return false
      if (status === 404) missing.add(name)
      if (status !== 200) continue
      if (missing.has(name)) return true
      waiting.delete(name) // it has been there
    }
    if (waiting.size === 0) return false
    await pause(pollMs, clock, signal)
  }
  return false
}
