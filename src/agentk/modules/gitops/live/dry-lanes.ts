import { withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { AggregatedApis } from './aggregated-apis.ts'
import type { ClusterKind } from './cluster-kinds.ts'

export interface DryLanesComponents {
  /** acts as the source's account */
  readonly lane: ApiLane
  /** acts as agentk itself */
  readonly ownLane: ApiLane
}

/** Reviews of rights are posted, and not stored. */
const reviews = '/apis/authorization.k8s.io/'

/**
 * Sends reads, reviews of rights and dry runs, for work that must change nothing.
 *
 * @returns a lane whose other writes reject with an Error, unsent
 */
export function readOnlyLane(lane: ApiLane): ApiLane {
  return {
    json: async (method, path, ...rest) => {
      const [, query = ''] = path.split('?', 2)
      const isReading = method === 'GET' || path.startsWith(reviews)
      if (!isReading && new URLSearchParams(query).get('dryRun') !== 'All')
        throw new Error(`${method} is no dry run, and nothing may be written here`)
      return await lane.json(method, path, ...rest)
    },
  }
}

/**
 * Sends writes as dry runs, and none to a kind for which another server may answer. All dry runs of sources pass here
 * (test/ground/dry-runs.test.ts).
 */
export class DryLanes {
  readonly #lane: ApiLane
  readonly #apis: AggregatedApis

  constructor({ lane, ownLane }: DryLanesComponents) {
    const dry = (path: string) => withQuery(path, { dryRun: 'All' })
    this.#lane = {
      json: (method, path, ...rest) => lane.json(method, method === 'GET' ? path : dry(path), ...rest),
    }
    this.#apis = new AggregatedApis([ownLane, lane])
  }

  /**
   * Returns a lane that sends each write as a dry run. It is for objects of this kind alone.
   *
   * @returns `risk`: none may be sent, for this reason. @throws the connection's error, or the signal's reason
   */
  async laneOf(
    kind: ClusterKind,
    signal: AbortSignal,
  ): Promise<{ readonly lane: ApiLane } | { readonly risk: string }> {
    const risk = await this.#apis.dryRunRisk(kind, signal)
    return risk === undefined ? { lane: this.#lane } : { risk }
  }
}
