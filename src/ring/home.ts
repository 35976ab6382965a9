/** Replicas that one pod of an agent should connect to. */
export interface Home {
  /** name of the replica for the pod's tunnels */
  readonly home: string
  /** name of the replica for one more idle tunnel; absent: there is no second replica */
  readonly standby?: string
}

/**
 * Returns the home of `pod`, by its place among the pods of its agent. The pods of an agent are spread over the
 * replicas, and every replica computes the same home.
 *
 * @param rank - replicas for the agent, best first
 * @param pods - of the agent, sorted, each once; `pod` counts as one of them
 * @returns undefined while no replica serves
 * @see doc/internals/agentk-placement.md "Who decides"
 */
export function homeOf(rank: readonly string[], pods: readonly string[], pod: string): Home | undefined {
  const place = countBefore(pods, pod)
  const home = rank[place % rank.length]
  if (home === undefined) return undefined
  const standby = rank[(place + 1) % rank.length]
  return standby === undefined || standby === home ? { home } : { home, standby }
}

/** @param pods - sorted */
function countBefore(pods: readonly string[], pod: string): number {
  let low = 0
  let high = pods.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((pods[middle] as string) < pod) low = middle + 1
    else high = middle
  }
  return low
}
