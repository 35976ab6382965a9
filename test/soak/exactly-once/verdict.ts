import type { Findings } from '../scene.ts'
import type { CallEnd } from './kubectl-call.ts'
import type { Round } from './rounds.ts'

export interface Evidence {
  readonly played: readonly {
    readonly round: Pick<Round, 'number' | 'fault' | 'victim'>
    readonly inside: number
    readonly ends: readonly CallEnd[]
  }[]
  /** how often each request has reached the API server, by its identity */
  readonly counts: ReadonlyMap<string, number>
  /** identities of commands, once for each run */
  readonly ran: readonly string[]
}

/** Compares kubectl's results with the records of the API server and of the pod. */
export function verdict({ played, counts, ran }: Evidence): Findings {
  const ends = played.flatMap((round) => round.ends)
  const runs = new Map(
    Object.entries(Object.groupBy(ran, (identity) => identity)).map(([id, all]) => [id, all?.length]),
  )
  const failures = ends.flatMap((end) => faultsOf(end, counts.get(end.identity) ?? 0, runs.get(end.identity) ?? 0))
  const faults = Object.entries(Object.groupBy(played, ({ round }) => `${round.fault} of the ${round.victim}`))
  const reached = (wanted: (count: number) => boolean) =>
    ends.filter(({ identity }) => wanted(counts.get(identity) ?? 0)).length
  const [once, more] = [reached((count) => count === 1), reached((count) => count > 1)]
  const failed = ends.filter(({ succeeded }) => !succeeded)
  const told = (delivery: CallEnd['delivery']) => failed.filter((end) => end.delivery === delivery).length
  return {
    figures: [
      `${played.length} faults: ${faults.map(([name, all]) => `${all?.length} ${name}`).join(', ')}`,
      `${played.filter(({ inside }) => inside > 0).length} of them came while a request was in the cluster`,
      `${ends.length} calls of kubectl, ${countsByKind(ends)}: ${ends.length - failed.length} succeeded`,
      `${failed.length} failed: ${told('none')} with delivery none, ${told('maybe')} with maybe, ${told(undefined)} cut`,
      `at the API server: ${once} once, ${ends.length - once - more} never, ${more} more than once`,
      ...errorsOf(failed),
    ],
    failures: [...failures, ...(counts.size > 0 ? [] : ['the audit log knows of no request: nothing was shown'])],
  }
}

function faultsOf(end: CallEnd, count: number, runs: number): string[] {
  const { identity, succeeded, delivery, fellBack, hung } = end
  const sent = fellBack ? ', kubectl sent it by WebSocket and by SPDY' : ''
  return [
    ...(count > 1 ? [`${identity} has reached the API server ${count} times${sent}`] : []),
    ...(runs > 1 ? [`${identity} was run ${runs} times`] : []),
    ...(succeeded && count === 0 ? [`${identity} is done as kubectl says, and has not reached the API server`] : []),
    ...(succeeded && end.kind !== 'create' && runs === 0 ? [`${identity} has run as kubectl says, and has not`] : []),
    ...(delivery === 'none' && !succeeded && count > 0 ? [`${identity} was said not to be delivered, and was`] : []),
    ...(hung ? [`kubectl with ${identity} did not end`] : []),
  ]
}

function countsByKind(ends: readonly CallEnd[]): string {
  const kinds = Object.entries(Object.groupBy(ends, ({ kind }) => kind))
  return kinds.map(([kind, all]) => `${all?.length} ${kind}`).join(', ')
}

/** Returns a line for each different message of kubectl, with its count. */
function errorsOf(failed: readonly CallEnd[]): string[] {
  const alike = Object.groupBy(failed, ({ kind, error, identity }) => `${kind}: ${withoutPorts(error, identity)}`)
  return Object.entries(alike).map(([text, all]) => `failed ${all?.length} times: ${text}`)
}

function withoutPorts(error: string, identity: string): string {
  return error.replaceAll(identity, 'IT').replaceAll(/(127\.0\.0\.1|localhost):\d+/g, '$1:PORT')
}
