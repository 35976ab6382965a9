import type { ObjectKey } from '../../../kubernetes/key.ts'
import type { ArgoStatus } from '../../health/argo/health.ts'

/** Cause of an object's bad health, in the words of `kas health`. */
export interface HealthCause {
  /** the object that is to blame: `key` alone says whose it is */
  readonly culprit: ObjectKey
  readonly reason: string
  readonly text: string
  /** ms since the epoch; undefined: not known */
  readonly since: number | undefined
}

/** Verdict on one object of a source. `Missing`: it does not exist. */
export interface HealthVerdict {
  readonly key: ObjectKey
  readonly version: string
  readonly word: ArgoStatus
  readonly cause: HealthCause | undefined
}

/** Health of a source's objects, as far as it is known. */
export interface SourceHealthSummary {
  /** number of objects by word */
  readonly counts: Readonly<Record<ArgoStatus, number>>
  /** objects that were not read yet, or cannot be read */
  readonly unread: number
  /** objects that are not healthy, the worst first */
  readonly unhealthy: readonly HealthVerdict[]
  /** kinds that cannot be read, so that they explain nothing: `Pod: agentk may not list them (403)` */
  readonly unlisted: readonly string[]
}
