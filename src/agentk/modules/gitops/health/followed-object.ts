import type { ObjectKey } from '../../../../kubernetes/key.ts'
import type { HealthVerdict } from '../health-verdict.ts'
import type { ClusterKind } from '../live/cluster-kinds.ts'

/** Reason of an object that cannot be read. */
export const notReadable = 'NotReadable'

/** Object of a source, of a kind that can be unhealthy. */
export interface FollowedObject {
  readonly key: ObjectKey
  version: string
  /** of the manifest applied last; empty: the running round has applied it */
  digest: string
  kind: ClusterKind
  /** number of the update that brought this digest: earlier reads do not count */
  since: number
  /** a Job that the cluster deletes after its end */
  runsOnce: boolean
  /** a round for a new commit runs, and has not come to it */
  isPending: boolean
  /** undefined: it was not read yet */
  verdict: HealthVerdict | undefined
  /** it has failed since it was applied: a Job that is gone then has not done its work */
  hasFailed: boolean
  /** `metadata.resourceVersion` that was read; empty: none */
  resourceVersion: string
  /** `metadata.generation` that was read; 0: none */
  generation: number
  /** `metadata.resourceVersion` of the last one that a watch has sent, and its place in the order of events and reads */
  seenVersion: string
  seenAt: number
  /** place of its last read in that order */
  readFrom: number
  readAt: number
  /** it was healthy at its last two reads */
  isSteady: boolean
  /** a change has come while it was read */
  isDue: boolean
  isReading: boolean
  /** its next read waits for its Pods to be ready */
  isAwaiting: boolean
  cancelRead: (() => void) | undefined
}

const unread = {
  digest: '',
  runsOnce: false,
  isPending: false,
  verdict: undefined,
  hasFailed: false,
  resourceVersion: '',
  generation: 0,
  seenVersion: '',
  seenAt: 0,
  readFrom: 0,
  readAt: 0,
  isSteady: false,
  isDue: false,
  isReading: false,
  isAwaiting: false,
  cancelRead: undefined,
} as const

/** @param since - number of the present update */
export function unreadObject(key: ObjectKey, kind: ClusterKind, since: number): FollowedObject {
  return { ...unread, key, version: kind.version, kind, since }
}
